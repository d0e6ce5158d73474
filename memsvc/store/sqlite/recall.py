"""The recall index: who has which term, written with the run, gone with the run, and read without a look at other scopes.

Postings are plain integers in order, on pages, in levels (see 0002_recall.sql). Whatever moves, at every commit each
posting stands on exactly one page; so a reader takes the union of the levels and needs to know of no move.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from itertools import chain
from typing import NamedTuple

from memsvc.rules.ranking import GAINS, NEIGHBOUR_SHARE, gain_level, score, weight
from memsvc.rules.terms import QueryTerm, count_terms

_GAIN_BITS = 4
_ENTRY_BITS = 23
_TERM_SHIFT = _GAIN_BITS + _ENTRY_BITS
_TERM_SPAN = 1 << _TERM_SHIFT
_GAIN_MASK = (1 << _GAIN_BITS) - 1
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1

_PAGE_POSTINGS = 490  # 3,920 bytes: with its row it fills one page of the file and spills into no second
_LEVEL_0_POSTINGS = 4_096
_LEVEL_RATIO = 8
_STEP_POSTINGS = 16_384  # that one step of sinking rewrites at the most: about 5 ms of the writer's time

_MAX_READ = 2_000  # postings that may bring new candidates; longer lists only add to those there are
_MIN_CANDIDATES = 16


class Hit(NamedTuple):
    """A recalled run by its place in the order of recording, and how much it bears on the query, 0 to 1."""

    sequence: int
    score: float


def index_run(
    db: sqlite3.Connection, scope_no: int, thread_no: int, sequence: int, input_text: str, output_text: str
) -> None:
    """Indexes a completed run in the transaction that records it.

    `input_text` is the user's own, without a context block. A scope holds at most 8,388,607 entries; runs beyond that are kept
    and not recalled.
    """
    (last_no,) = db.execute(
        "SELECT coalesce(max(entry_no), 0) FROM recall_entries WHERE scope_no = ?", (scope_no,)
    ).fetchone()
    entry_no = last_no + 1
    if entry_no > _ENTRY_MASK:
        return
    counts = count_terms(input_text, output_text)
    length = sum(counts.values())
    levels = {count: gain_level(count, length) for count in set(counts.values())}
    entry_bits = entry_no << _GAIN_BITS
    postings = sorted(_hash(term) << _TERM_SHIFT | entry_bits | levels[count] for term, count in counts.items())
    db.execute(
        "INSERT INTO recall_entries VALUES (?, ?, ?, ?, ?)",
        (scope_no, entry_no, sequence, thread_no, array("q", postings).tobytes()),
    )
    db.execute("INSERT INTO recall_scopes VALUES (?, 1) ON CONFLICT DO UPDATE SET entries = entries + 1", (scope_no,))
    if postings:
        _put(db, scope_no, 0, postings)
        _sink(db, scope_no)


def unindex_run(db: sqlite3.Connection, scope_no: int, sequence: int) -> None:
    """Takes a run out of the index, postings and counts; nothing happens when it is not in."""
    _unindex(db, scope_no, "sequence = ?", sequence)


def unindex_thread(db: sqlite3.Connection, scope_no: int, thread_no: int) -> None:
    """Takes all runs of a thread out of the index."""
    _unindex(db, scope_no, "thread_no = ?", thread_no)


def _unindex(db: sqlite3.Connection, scope_no: int, condition: str, value: int) -> None:
    rows = db.execute(
        f"SELECT entry_no, postings FROM recall_entries WHERE {condition} AND scope_no = ?", (value, scope_no)
    ).fetchall()
    if not rows:
        return
    gone = sorted(chain.from_iterable(_postings(blob) for _, blob in rows))
    for (level,) in db.execute("SELECT level FROM recall_levels WHERE scope_no = ?", (scope_no,)).fetchall():
        gone = _take(db, scope_no, level, gone)
    db.executemany("DELETE FROM recall_entries WHERE scope_no = ? AND entry_no = ?", [(scope_no, no) for no, _ in rows])
    db.execute("UPDATE recall_scopes SET entries = entries - ? WHERE scope_no = ?", (len(rows), scope_no))
    db.execute("DELETE FROM recall_scopes WHERE scope_no = ? AND entries = 0", (scope_no,))


def search(
    db: sqlite3.Connection,
    scope_no: int,
    query_terms: Sequence[QueryTerm],
    limit: int,
    exclude_sequences: frozenset[int] = frozenset(),
) -> list[Hit]:
    """Returns at most `limit` runs of the scope that have any of the terms, best first, among equals the latest.

    Reads one page a term and level, at most `_MAX_READ` postings of the rarest terms, and the entries of a few dozen
    candidates with their neighbours in the thread; whatever else the scope or the database holds costs nothing.
    """
    found = db.execute("SELECT entries FROM recall_scopes WHERE scope_no = ?", (scope_no,)).fetchone()
    if found is None or not query_terms or limit < 1:
        return []
    levels = [n for (n,) in db.execute("SELECT level FROM recall_levels WHERE scope_no = ?", (scope_no,))]
    lists = []
    total = 0.0
    for term in query_terms:
        posted = _Posted(db, scope_no, levels, _hash(term.term))
        worth = weight(term.kind, posted.size, found[0])
        total += worth
        if posted.size:
            lists.append((posted.size, worth, posted))
    lists.sort(key=lambda item: item[:2])
    gains, rest = _read(lists)
    evidence: dict[int, float] = {}
    for worth, gain_of in gains:
        for entry_no, gain in gain_of.items():
            evidence[entry_no] = evidence.get(entry_no, 0.0) + worth * gain
    wanted = max(_MIN_CANDIDATES, 2 * limit) + len(exclude_sequences)
    best = nlargest(wanted, evidence, key=evidence.__getitem__)
    judged = _judge(_with_neighbours(db, scope_no, best), gains, rest)
    judged.sort(reverse=True)
    hits = [Hit(sequence, score(value, total)) for value, sequence in judged if sequence not in exclude_sequences]
    return hits[:limit]


class _Entry(NamedTuple):
    entry_no: int
    sequence: int
    postings: bytes
    before_no: int | None
    after_no: int | None


_Gains = list[tuple[float, dict[int, float]]]
_Rest = list[tuple[float, int]]


def _read(lists: Sequence[tuple[int, float, _Posted]]) -> tuple[_Gains, _Rest]:
    """Reads the rarest terms' lists while the budget lasts, of the first at least its latest; names the others."""
    gains: _Gains = []
    rest: _Rest = []
    left = _MAX_READ
    for size, worth, posted in lists:
        if gains and size > left:
            rest.append((worth, posted.term))
            continue
        gains.append((worth, {(p >> _GAIN_BITS) & _ENTRY_MASK: GAINS[p & _GAIN_MASK] for p in posted.latest(left)}))
        left -= size
    return gains, rest


def _with_neighbours(db: sqlite3.Connection, scope_no: int, entry_nos: Iterable[int]) -> dict[int, _Entry]:
    """The entries and those before and after them in their threads, because a neighbour may turn out to be better."""
    entries = _entries(db, scope_no, entry_nos)
    beside = {no for e in entries.values() for no in (e.before_no, e.after_no) if no and no not in entries}
    entries.update(_entries(db, scope_no, beside))
    return entries


def _entries(db: sqlite3.Connection, scope_no: int, entry_nos: Iterable[int]) -> dict[int, _Entry]:
    rows = db.execute(
        f"""SELECT entry_no, sequence, postings,
               (SELECT max(b.entry_no) FROM recall_entries b WHERE b.thread_no = e.thread_no AND b.entry_no < e.entry_no),
               (SELECT min(a.entry_no) FROM recall_entries a WHERE a.thread_no = e.thread_no AND a.entry_no > e.entry_no)
            FROM recall_entries e WHERE scope_no = ? AND entry_no IN ({",".join(map(str, entry_nos))})""",
        (scope_no,),
    )
    return {row[0]: _Entry(*row) for row in rows}


def _judge(entries: dict[int, _Entry], gains: _Gains, rest: _Rest) -> list[tuple[float, int]]:
    """The evidence for each entry: a term counts where it stands in the run, and in part where in a neighbour."""
    judged = []
    for entry_no, entry in entries.items():
        value = 0.0
        for worth, gain_of in gains:
            gain = gain_of.get(entry_no, 0.0)
            beside = max(gain_of.get(entry.before_no or 0, 0.0), gain_of.get(entry.after_no or 0, 0.0))
            value += worth * max(gain, NEIGHBOUR_SHARE * beside)
        if rest:
            own = memoryview(entry.postings).cast("q")
            for worth, term in rest:
                at = bisect_left(own, term)
                if at < len(own) and own[at] < term + _TERM_SPAN:
                    value += worth * GAINS[own[at] & _GAIN_MASK]
        if value > 0:
            judged.append((value, entry.sequence))
    return judged


class _Posted:
    """Where the postings of one term stand: their number at once, themselves when asked for."""

    def __init__(self, db: sqlite3.Connection, scope_no: int, levels: Iterable[int], term_hash: int) -> None:
        self.term = term_hash << _TERM_SHIFT
        self.size = 0
        self._db = db
        self._slices: list[memoryview] = []
        self._whole_pages: list[int] = []
        end = self.term + _TERM_SPAN
        for level in levels:
            above = end
            inner = None
            # From the end: of a term in many runs the latest stand last, and it is they that are read.
            row = db.execute(_PAGE_BELOW, (scope_no, level, end)).fetchone()
            if row is None:
                continue
            first, blob = row
            self._slice(blob, end)
            if first <= self.term:
                continue
            above, inner = first, db.execute(_PAGES_BETWEEN, (scope_no, level, self.term, above)).fetchall()
            for page_no, size in inner:
                self._whole_pages.append(page_no)
                self.size += size
            row = db.execute(_PAGE_BELOW, (scope_no, level, self.term + 1)).fetchone()
            if row is not None:
                self._slice(row[1], end)

    def _slice(self, blob: bytes, end: int) -> None:
        page = memoryview(blob).cast("q")
        start = bisect_left(page, self.term)
        stop = bisect_left(page, end, start)
        if stop > start:
            self._slices.append(page[start:stop])
            self.size += stop - start

    def latest(self, limit: int) -> list[int]:
        """Returns about `limit` of the postings, all if there are no more, whole pages at a time."""
        postings = [p for piece in self._slices for p in piece.tolist()]
        for page_no in reversed(self._whole_pages):
            if len(postings) >= limit:
                break
            (blob,) = self._db.execute("SELECT postings FROM recall_pages WHERE page_no = ?", (page_no,)).fetchone()
            postings += _postings(blob)
        return postings


_PAGE_BELOW = """SELECT first, postings FROM recall_pages WHERE scope_no = ? AND level = ? AND first < ?
    ORDER BY first DESC LIMIT 1"""
_PAGES_BETWEEN = """SELECT page_no, size FROM recall_pages WHERE scope_no = ? AND level = ? AND first > ? AND first < ?
    ORDER BY first"""


def _postings(blob: bytes) -> list[int]:
    return memoryview(blob).cast("q").tolist()


@lru_cache(maxsize=65_536)
def _hash(term: str) -> int:
    """36 bits: among a million distinct terms of a scope, one absent term in 70,000 would be taken for another."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 28


def _sink(db: sqlite3.Connection, scope_no: int) -> None:
    """Lets every level that is full sink by one bounded step, so that no run waits for more than a few."""
    levels = {
        level: (size, sinking)
        for level, size, sinking in db.execute(
            "SELECT level, size, sinking FROM recall_levels WHERE scope_no = ?", (scope_no,)
        )
    }
    for level, (size, sinking) in sorted(levels.items()):
        if sinking is None and size <= _LEVEL_0_POSTINGS * _LEVEL_RATIO**level:
            continue
        below = levels.get(level + 1, (0, None))[0]
        pages = max(1, int(_STEP_POSTINGS / (1 + below / size) / _PAGE_POSTINGS))
        rows = db.execute(
            """SELECT page_no, first, postings FROM recall_pages WHERE scope_no = ? AND level = ? AND first >= ?
               ORDER BY first LIMIT ?""",
            (scope_no, level, sinking or 0, pages + 1),
        ).fetchall()
        moved, after = rows[:pages], rows[pages:]
        postings = [p for _, _, blob in moved for p in _postings(blob)]
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
    merged = [p for _, blob in rows for p in _postings(blob)]
    merged += postings
    merged.sort()
    _rewrite(db, scope_no, level, [no for no, _ in rows], merged)
    db.execute(
        """INSERT INTO recall_levels VALUES (?, ?, ?, NULL)
           ON CONFLICT DO UPDATE SET size = size + excluded.size""",
        (scope_no, level, len(postings)),
    )


def _take(db: sqlite3.Connection, scope_no: int, level: int, postings: list[int]) -> list[int]:
    """Takes postings, in order, from the pages of a level; returns those that are on none of them."""
    left = []
    at = 0
    taken = 0
    while at < len(postings):
        row = db.execute(_PAGE_OF, (scope_no, level, postings[at])).fetchone()
        after = db.execute(_NEXT_FIRST, (scope_no, level, postings[at])).fetchone()[0]
        stop = len(postings) if after is None else bisect_left(postings, after, at)
        here = postings[at:stop]
        at = stop
        if row is None:
            left += here
            continue
        page = _postings(row[1])
        gone = set(here).intersection(page)
        if gone:
            _rewrite(db, scope_no, level, [row[0]], [p for p in page if p not in gone])
            taken += len(gone)
        left += [p for p in here if p not in gone]
    db.execute("UPDATE recall_levels SET size = size - ? WHERE scope_no = ? AND level = ?", (taken, scope_no, level))
    db.execute("DELETE FROM recall_levels WHERE scope_no = ? AND level = ? AND size = 0", (scope_no, level))
    return left


_PAGE_OF = """SELECT page_no, postings FROM recall_pages WHERE scope_no = ? AND level = ? AND first <= ?
    ORDER BY first DESC LIMIT 1"""
_NEXT_FIRST = "SELECT min(first) FROM recall_pages WHERE scope_no = ? AND level = ? AND first > ?"


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
    pages = -(-len(postings) // _PAGE_POSTINGS)
    bounds = [len(postings) * i // pages for i in range(pages + 1)] if pages else [0]
    packed = array("q", postings).tobytes()
    filled = [
        (postings[start], stop - start, packed[8 * start : 8 * stop])
        for start, stop in zip(bounds, bounds[1:], strict=False)
    ]
    kept = min(len(page_nos), pages)
    db.executemany(
        "UPDATE recall_pages SET first = ?, size = ?, postings = ? WHERE page_no = ?",
        [(*page, no) for page, no in zip(filled, page_nos, strict=False)],
    )
    db.executemany(
        "INSERT INTO recall_pages (scope_no, level, first, size, postings) VALUES (?, ?, ?, ?, ?)",
        [(scope_no, level, *page) for page in filled[kept:]],
    )
    db.executemany("DELETE FROM recall_pages WHERE page_no = ?", [(no,) for no in page_nos[kept:]])
