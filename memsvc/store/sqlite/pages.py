"""The pages of the recall index: postings in order, in levels, each posting on exactly one page at every commit.

What is new enters at level 1, and a level that is full sinks into the next, eight times its size, in bounded steps
(see 0002_recall.sql). A reader takes the union of the levels and needs to know of no move. A page is never changed:
another one takes its place, and the level gets another version, so that readers may keep what they have read.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable
from itertools import chain, pairwise

PAGE_POSTINGS = 500  # with its row, one fills a page of the file and spills into no second
_FIRST_PAGE_POSTINGS = 1_024  # on level 1, which changes as a whole
_LEVEL_1_POSTINGS = 16_384
_LEVEL_RATIO = 8
_STEP_POSTINGS = 32_768  # that one step of sinking rewrites at the most: some milliseconds of the writer's time


def read_postings(blob: bytes) -> list[int]:
    """Returns the postings of a page or an entry, in order."""
    return memoryview(blob).cast("q").tolist()


def page_waiting(db: sqlite3.Connection, scope_no: int) -> None:
    """Puts the postings that wait in their entries on the pages of level 1; those of hidden threads on none.

    These leave the index, and no page that has been gone through for it (see unindexing.py) may get them.
    """
    rows = db.execute(
        """SELECT e.entry_no, e.postings, e.thread_no IN (SELECT thread_no FROM doomed WHERE thread_no > 0)
           FROM recall_scopes AS s JOIN recall_entries AS e
           ON e.scope_no = s.scope_no AND e.entry_no > s.paged_no WHERE s.scope_no = ?""",
        (scope_no,),
    ).fetchall()
    if postings := sorted(chain.from_iterable(read_postings(blob) for _, blob, leaves in rows if not leaves)):
        _put(db, scope_no, 1, postings)
    if rows:
        last_no = max(no for no, _, _ in rows)
        db.execute("UPDATE recall_scopes SET paged_no = ?, waiting = 0 WHERE scope_no = ?", (last_no, scope_no))


def sink(db: sqlite3.Connection, scope_no: int) -> bool:
    """Lets the first level that is full sink by one bounded step; returns whether there was one."""
    rows = db.execute("SELECT level, size, sinking FROM recall_levels WHERE scope_no = ?", (scope_no,)).fetchall()
    sizes = {level: size for level, size, _ in rows}
    for level, size, sinking in rows:
        if sinking is None and size <= _capacity(level):
            continue
        pages = max(1, int(_STEP_POSTINGS / (1 + sizes.get(level + 1, 0) / size) / _page_postings(level)))
        found = db.execute(
            """SELECT page_no, first, postings FROM recall_pages
               WHERE scope_no = ? AND level = ? AND first >= ? ORDER BY first LIMIT ?""",
            (scope_no, level, sinking or 0, pages + 1),
        ).fetchall()
        moved, after = found[:pages], found[pages:]
        postings = list(chain.from_iterable(read_postings(blob) for _, _, blob in moved))
        db.executemany("DELETE FROM recall_pages WHERE page_no = ?", [(no,) for no, _, _ in moved])
        if postings:
            _put(db, scope_no, level + 1, postings)
        db.execute(
            "UPDATE recall_levels SET size = size - ?, sinking = ?, version = random() "
            "WHERE scope_no = ? AND level = ?",
            (len(postings), after[0][1] if after else None, scope_no, level),
        )
        db.execute(_NO_LEVEL, (scope_no, level))
        return True
    return False


def full_scopes(db: sqlite3.Connection) -> list[int]:
    """Returns the scopes that have a level which is full or sinking."""
    rows = db.execute("SELECT scope_no, level, size, sinking FROM recall_levels").fetchall()
    return sorted({no for no, level, size, sinking in rows if sinking is not None or size > _capacity(level)})


def sift(
    db: sqlite3.Connection,
    scope_no: int,
    level: int,
    start: int,
    most: int,
    stay: Callable[[list[int]], list[int]],
) -> int | None:
    """Leaves on pages of a level those of their postings that `stay` returns; beginning where `start` stands or would.

    At most `most` pages. Returns where the next one begins, None where there is none.
    """
    rows = db.execute(
        """SELECT page_no, first, postings FROM recall_pages WHERE scope_no = :scope AND level = :level
             AND first >= coalesce((SELECT max(first) FROM recall_pages
                 WHERE scope_no = :scope AND level = :level AND first <= :start), :start)
           ORDER BY first LIMIT :most + 1""",
        {"scope": scope_no, "level": level, "start": start, "most": most},
    ).fetchall()
    removed, lost = [], 0
    together: list[list[int]] = [[]]  # what is left on pages that stood beside one another
    for page_no, _, blob in rows[:most]:
        page = read_postings(blob)
        left = stay(page)
        if len(left) == len(page):
            together.append([])
            continue
        removed.append((page_no,))
        lost += len(page) - len(left)
        together[-1] += left
    if lost:
        db.executemany("DELETE FROM recall_pages WHERE page_no = ?", removed)
        for left in together:
            _spread(db, scope_no, level, left)
        _shrink(db, scope_no, level, lost)
    return rows[most][1] if len(rows) > most else None


_NO_LEVEL = "DELETE FROM recall_levels WHERE scope_no = ? AND level = ? AND size = 0"
_NEW_PAGE = "INSERT INTO recall_pages (scope_no, level, first, size, postings) VALUES (?, ?, ?, ?, ?)"


def _capacity(level: int) -> int:
    return _LEVEL_1_POSTINGS * int(_LEVEL_RATIO ** (level - 1))


def _page_postings(level: int) -> int:
    return PAGE_POSTINGS if level > 1 else _FIRST_PAGE_POSTINGS


def _put(db: sqlite3.Connection, scope_no: int, level: int, postings: list[int]) -> None:
    """Puts postings, in order and new to the scope, on the pages of a level."""
    rows = _overlapping(db, scope_no, level, postings[0], postings[-1])
    merged = [p for _, blob in rows for p in read_postings(blob)]
    merged += postings
    merged.sort()
    db.executemany("DELETE FROM recall_pages WHERE page_no = ?", [(no,) for no, _ in rows])
    _spread(db, scope_no, level, merged)
    db.execute(
        """INSERT INTO recall_levels VALUES (?, ?, ?, NULL, random())
           ON CONFLICT DO UPDATE SET size = size + excluded.size, version = excluded.version""",
        (scope_no, level, len(postings)),
    )


def _spread(db: sqlite3.Connection, scope_no: int, level: int, postings: list[int]) -> None:
    """Makes pages of a level of postings, in order; as many as they need, all equally full."""
    pages = -(-len(postings) // _page_postings(level))
    bounds = [len(postings) * i // pages for i in range(pages + 1)] if pages else []
    packed = array("q", postings).tobytes()
    db.executemany(
        _NEW_PAGE,
        [
            (scope_no, level, postings[start], stop - start, packed[8 * start : 8 * stop])
            for start, stop in pairwise(bounds)
        ],
    )


def _shrink(db: sqlite3.Connection, scope_no: int, level: int, lost: int) -> None:
    """Counts the postings that a level lost; with the last one it goes."""
    db.execute(
        "UPDATE recall_levels SET size = size - ?, version = random() WHERE scope_no = ? AND level = ?",
        (lost, scope_no, level),
    )
    db.execute(_NO_LEVEL, (scope_no, level))


def _overlapping(
    db: sqlite3.Connection, scope_no: int, level: int, lowest: int, highest: int
) -> list[tuple[int, bytes]]:
    return db.execute(
        """SELECT page_no, postings FROM recall_pages WHERE scope_no = :scope AND level = :level AND first <= :highest
             AND first >= coalesce((SELECT max(first) FROM recall_pages
                 WHERE scope_no = :scope AND level = :level AND first <= :lowest), 0)
           ORDER BY first""",
        {"scope": scope_no, "level": level, "lowest": lowest, "highest": highest},
    ).fetchall()
