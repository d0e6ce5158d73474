"""The pages of the recall index: postings in order, in levels, each posting on exactly one page at every commit.

What is new enters at level 1, and a level that is full sinks into the next, eight times its size, in bounded steps
(see 0002_recall.sql). A reader takes the union of the levels and needs to know of no move.
"""

from __future__ import annotations

import sqlite3
import sys
from array import array
from bisect import bisect_left
from itertools import chain, pairwise

_PAGE_POSTINGS = 500  # with its row, one fills a page of the file and spills into no second
_FIRST_PAGE_POSTINGS = 1_024  # on level 1, which a search reads whole
MAX_WAITING = 1_024  # postings; a search reads all of them
_LEVEL_1_POSTINGS = 16_384
_LEVEL_RATIO = 8
_STEP_POSTINGS = 32_768  # that one step of sinking rewrites at the most: some milliseconds of the writer's time


def read_postings(blob: bytes) -> list[int]:
    """Returns the postings of a page or an entry, in order."""
    return memoryview(blob).cast("q").tolist()


def page_waiting(db: sqlite3.Connection, scope_no: int, last_no: int) -> None:
    """Puts the waiting postings, those of the entries up to `last_no`, on the pages of level 1."""
    rows = db.execute(
        """SELECT e.postings FROM recall_scopes AS s JOIN recall_entries AS e
           ON e.scope_no = s.scope_no AND e.entry_no > s.paged_no WHERE s.scope_no = ?""",
        (scope_no,),
    )
    _put(db, scope_no, 1, sorted(chain.from_iterable(read_postings(blob) for (blob,) in rows.fetchall())))
    db.execute("UPDATE recall_scopes SET paged_no = ?, waiting = 0 WHERE scope_no = ?", (last_no, scope_no))


def sink(db: sqlite3.Connection, scope_no: int) -> None:
    """Lets every level that is full sink by one bounded step, so that no run waits for more than a few."""
    rows = db.execute("SELECT level, size, sinking FROM recall_levels WHERE scope_no = ?", (scope_no,)).fetchall()
    sizes = {level: size for level, size, _ in rows}
    for level, size, sinking in rows:
        if sinking is None and size <= _LEVEL_1_POSTINGS * _LEVEL_RATIO ** (level - 1):
            continue
        capacity = _PAGE_POSTINGS if level > 1 else _FIRST_PAGE_POSTINGS
        pages = max(1, int(_STEP_POSTINGS / (1 + sizes.get(level + 1, 0) / size) / capacity))
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
            "UPDATE recall_levels SET size = size - ?, sinking = ? WHERE scope_no = ? AND level = ?",
            (len(postings), after[0][1] if after else None, scope_no, level),
        )


def _put(db: sqlite3.Connection, scope_no: int, level: int, postings: list[int]) -> None:
    """Puts postings, in order and new to the scope, on the pages of a level."""
    rows = _overlapping(db, scope_no, level, postings[0], postings[-1])
    merged = [p for _, blob in rows for p in read_postings(blob)]
    merged += postings
    merged.sort()
    _rewrite(db, scope_no, level, [no for no, _ in rows], merged)
    db.execute(
        """INSERT INTO recall_levels VALUES (?, ?, ?, NULL)
           ON CONFLICT DO UPDATE SET size = size + excluded.size""",
        (scope_no, level, len(postings)),
    )


def take(db: sqlite3.Connection, scope_no: int, level: int, postings: list[int]) -> list[int]:
    """Takes postings, in order, from the pages of a level; returns those that are on none of them."""
    on_page: dict[int, list[int]] = {}
    for p, page_no in db.execute(_PAGES_OF, (scope_no, level, str(postings))).fetchall():
        on_page.setdefault(page_no, []).append(p)
    gone: set[int] = set()
    for page_no, here in on_page.items():
        (blob,) = db.execute("SELECT postings FROM recall_pages WHERE page_no = ?", (page_no,)).fetchone()
        page = memoryview(blob).cast("q")
        places = [at for p in here if (at := bisect_left(page, p)) < len(page) and page[at] == p]
        if not places:
            continue
        gone.update(page[at] for at in places)
        bounds = [-1, *sorted(places), len(page)]
        rest = b"".join([blob[8 * (before + 1) : 8 * after] for before, after in pairwise(bounds)])
        if rest:
            first = int.from_bytes(rest[:8], sys.byteorder)
            db.execute("UPDATE recall_pages SET first = ?, postings = ? WHERE page_no = ?", (first, rest, page_no))
        else:
            db.execute("DELETE FROM recall_pages WHERE page_no = ?", (page_no,))
    db.execute(
        "UPDATE recall_levels SET size = size - ? WHERE scope_no = ? AND level = ?", (len(gone), scope_no, level)
    )
    db.execute("DELETE FROM recall_levels WHERE scope_no = ? AND level = ? AND size = 0", (scope_no, level))
    return [p for p in postings if p not in gone]


_PAGES_OF = """SELECT wanted.value, (SELECT page_no FROM recall_pages WHERE scope_no = ?1 AND level = ?2
        AND first <= wanted.value ORDER BY first DESC LIMIT 1) AS page FROM json_each(?3) AS wanted
    WHERE page IS NOT NULL"""
PAGE_OF = """SELECT page_no, postings FROM recall_pages WHERE scope_no = ? AND level = ? AND first <= ?
    ORDER BY first DESC LIMIT 1"""


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


def _rewrite(db: sqlite3.Connection, scope_no: int, level: int, page_nos: list[int], postings: list[int]) -> None:
    """Replaces neighbouring pages of a level by as many, evenly filled, as the postings take."""
    pages = -(-len(postings) // (_PAGE_POSTINGS if level > 1 else _FIRST_PAGE_POSTINGS))
    bounds = [len(postings) * i // pages for i in range(pages + 1)] if pages else [0]
    packed = array("q", postings).tobytes()
    filled = [(postings[start], packed[8 * start : 8 * stop]) for start, stop in pairwise(bounds)]
    kept = min(len(page_nos), pages)
    db.executemany(
        "UPDATE recall_pages SET first = ?, postings = ? WHERE page_no = ?",
        [(*page, no) for page, no in zip(filled, page_nos, strict=False)],
    )
    db.executemany(
        "INSERT INTO recall_pages (scope_no, level, first, postings) VALUES (?, ?, ?, ?)",
        [(scope_no, level, *page) for page in filled[kept:]],
    )
    db.executemany("DELETE FROM recall_pages WHERE page_no = ?", [(no,) for no in page_nos[kept:]])
