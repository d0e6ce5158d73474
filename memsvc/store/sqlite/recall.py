"""The recall index: which run has which term, written with the run, gone with the run, read by scope.

Postings are plain integers in order, on pages, in levels (see 0002_recall.sql). Whatever moves, at every commit each
posting stands on exactly one page; so a reader takes the union of the levels and needs to know of no move.
"""

from __future__ import annotations

import sqlite3
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import chain, pairwise
from operator import itemgetter, mul
from typing import NamedTuple
from zlib import crc32

from memsvc.rules.ranking import GAINS, divide, gain_level, neighbour_share, score, weight
from memsvc.rules.terms import Kind, QueryTerm, is_cjk

_GAIN_BITS = 6
_ENTRY_BITS = 23
_TERM_SHIFT = _GAIN_BITS + _ENTRY_BITS
_TERM_SPAN = 1 << _TERM_SHIFT
_CHAR_SPAN = _TERM_SPAN << 17  # all pairs that begin with one character
_GAIN_MASK = (1 << _GAIN_BITS) - 1
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1

_PAGE_POSTINGS = 500  # with its row, one fills a page of the file and spills into no second
_FIRST_PAGE_POSTINGS = 1_024  # on level 1, which a search reads whole
_MAX_WAITING = 1_024  # postings; a search reads all of them
_LEVEL_RATIO = 16
_STEP_POSTINGS = 32_768  # that one step of sinking rewrites at the most: about 10 ms of the writer's time

_MAX_READ = 800  # postings that may bring new candidates; longer lists only add to those there are
_MORE_CANDIDATES = 6  # than are wanted: neighbours and terms not read yet may change the order


class Hit(NamedTuple):
    """A recalled run by its place in the order of recording, and how much it bears on the query, 0 to 1."""

    sequence: int
    score: float


def index_run(db: sqlite3.Connection, scope_no: int, thread_no: int, sequence: int, counts: Mapping[str, int]) -> None:
    """Indexes a completed run in the transaction that records it.

    `counts` are its terms with how often each occurs (`rules.terms.count_terms`), of the user's own input without a
    context block and of the output. A scope holds 8,388,607 entries; runs beyond that are kept and not recalled.
    """
    (last_no,) = db.execute(
        "SELECT coalesce(max(entry_no), 0) FROM recall_entries WHERE scope_no = ?", (scope_no,)
    ).fetchone()
    entry_no = last_no + 1
    if entry_no > _ENTRY_MASK:
        return
    length = sum(counts.values())
    low_bits = {n: entry_no << _GAIN_BITS | gain_level(n, length) for n in set(counts.values())}
    begun = {term[0] for term in counts if len(term) == 2}
    postings = sorted([_key(term) | low_bits[n] for term, n in counts.items() if term not in begun])
    db.execute(
        "INSERT INTO recall_entries VALUES (?, ?, ?, ?, ?)",
        (scope_no, entry_no, sequence, thread_no, array("q", postings).tobytes()),
    )
    (waiting,) = db.execute(
        """INSERT INTO recall_scopes VALUES (?, 1, 0, ?)
           ON CONFLICT DO UPDATE SET entries = entries + 1, waiting = waiting + excluded.waiting RETURNING waiting""",
        (scope_no, len(postings)),
    ).fetchone()
    if waiting > _MAX_WAITING:
        _page(db, scope_no, entry_no)
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
    (paged_no,) = db.execute("SELECT paged_no FROM recall_scopes WHERE scope_no = ?", (scope_no,)).fetchone()
    gone = sorted(chain.from_iterable(_postings(blob) for no, blob in rows if no <= paged_no))
    for (level,) in db.execute("SELECT level FROM recall_levels WHERE scope_no = ?", (scope_no,)).fetchall():
        gone = _take(db, scope_no, level, gone)
    db.executemany("DELETE FROM recall_entries WHERE scope_no = ? AND entry_no = ?", [(scope_no, no) for no, _ in rows])
    waiting = sum(len(blob) // 8 for no, blob in rows if no > paged_no)
    db.execute(
        "UPDATE recall_scopes SET entries = entries - ?, waiting = waiting - ? WHERE scope_no = ?",
        (len(rows), waiting, scope_no),
    )
    db.execute("DELETE FROM recall_scopes WHERE scope_no = ? AND entries = 0", (scope_no,))


def search(
    db: sqlite3.Connection,
    scope_no: int,
    query_terms: Sequence[QueryTerm],
    limit: int,
    exclude_sequences: frozenset[int] = frozenset(),
) -> list[Hit]:
    """Returns at most `limit` runs of the scope that have any of the terms, best first, among equals the latest.

    Reads a page or two for each term and level, about `_MAX_READ` postings of the rarest terms, and the entries of a
    few dozen candidates. Whatever else the scope or the database holds costs nothing.
    """
    row = db.execute("SELECT entries, paged_no FROM recall_scopes WHERE scope_no = ?", (scope_no,)).fetchone()
    if row is None or not query_terms or limit < 1:
        return []
    leading, following = divide(query_terms)
    hits = _find(db, scope_no, row, leading, following, limit, exclude_sequences)
    if not hits and following:
        hits = _find(db, scope_no, row, query_terms, [], limit, exclude_sequences)
    return hits


def _find(
    db: sqlite3.Connection,
    scope_no: int,
    scope: tuple[int, int],
    leading: Sequence[QueryTerm],
    following: Sequence[QueryTerm],
    limit: int,
    exclude_sequences: frozenset[int],
) -> list[Hit]:
    entries, paged_no = scope
    posted = _posted(db, scope_no, paged_no, leading)
    worths = [weight(term.kind, each.size, entries) for term, each in zip(leading, posted, strict=True)]
    rest = [(weight(term.kind, 0, 1), *_span(term)) for term in following]
    total = sum(worths) + sum(worth for worth, _, _ in rest)
    read = _read(db, sorted(zip(worths, posted, strict=True), key=lambda pair: pair[1].size), rest)
    rest.sort(key=itemgetter(1))

    evidence: dict[int, float] = {}
    known = evidence.get
    for worth, gain_of in read:
        for entry_no, gain in gain_of.items():
            evidence[entry_no] = known(entry_no, 0.0) + worth * gain
    wanted = limit + len(exclude_sequences) + _MORE_CANDIDATES
    best = nlargest(wanted, evidence, key=evidence.__getitem__)
    judged = _judge(_with_neighbours(db, scope_no, best, evidence), evidence, read, rest)
    hits = [Hit(sequence, score(value, total)) for value, sequence in judged if sequence not in exclude_sequences]
    return hits[:limit]


class _Posted:
    """The postings of one term: how many there are, and where."""

    __slots__ = ("end", "pages", "postings", "size", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.size = 0
        self.postings: list[int] = []
        self.pages: list[int] = []  # that hold nothing else, not read yet, the latest last


_Gains = list[tuple[float, dict[int, float]]]
_Rest = list[tuple[float, int, int]]


def _posted(db: sqlite3.Connection, scope_no: int, paged_no: int, terms: Sequence[QueryTerm]) -> list[_Posted]:
    """Looks up each term in the waiting entries and on level 1, which are read whole, and on each level below."""
    posted = [_Posted(*_span(term)) for term in terms]
    waiting = sorted(_postings(b"".join([blob for (blob,) in db.execute(_WAITING, (scope_no, paged_no))])))
    level_1 = memoryview(b"".join([blob for (blob,) in db.execute(_FIRST_LEVEL, (scope_no,))])).cast("q")
    for each in posted:
        _slice(each, waiting)
        _slice(each, level_1)
    by_end = {each.end: each for each in posted}
    for end, level, first, blob in db.execute(_LAST_PAGES, (str(list(by_end)), scope_no)).fetchall():
        # Read from the end: of a term in very many runs the latest stand last, and it is they that are wanted.
        each = by_end[end]
        _slice(each, memoryview(blob).cast("q"))
        if first > each.start:
            each_level = (scope_no, level, each.start)
            for page_no, size in db.execute(_WHOLE_PAGES, (*each_level, first)).fetchall():
                each.pages.append(page_no)
                each.size += size
            before = db.execute(_PAGE_OF, each_level).fetchone()
            if before is not None:
                _slice(each, memoryview(before[1]).cast("q"))
    return posted


def _slice(posted: _Posted, page: Sequence[int]) -> None:
    start = bisect_left(page, posted.start)
    if start < len(page) and page[start] < posted.end:
        stop = bisect_left(page, posted.end, start)
        posted.postings += page[start:stop]
        posted.size += stop - start


def _read(db: sqlite3.Connection, lists: Sequence[tuple[float, _Posted]], rest: _Rest) -> _Gains:
    """Reads the lists while the budget lasts, of the first at least its latest; adds the others to `rest`."""
    gains: _Gains = []
    left = _MAX_READ
    for worth, posted in lists:
        if gains and posted.size > left:
            rest.append((worth, posted.start, posted.end))
            continue
        postings = posted.postings
        for page_no in reversed(posted.pages):
            if len(postings) >= left:
                break
            row = db.execute("SELECT postings FROM recall_pages WHERE page_no = ?", (page_no,)).fetchone()
            postings += _postings(row[0])
        gains.append((worth, {p >> _GAIN_BITS & _ENTRY_MASK: GAINS[p & _GAIN_MASK] for p in postings}))
        left -= len(postings)
    return gains


class _Entry(NamedTuple):
    entry_no: int
    sequence: int
    postings: bytes
    beside: tuple[int, int]


def _with_neighbours(
    db: sqlite3.Connection, scope_no: int, best: Sequence[int], evidence: Mapping[int, float]
) -> dict[int, _Entry]:
    """The best entries, and those beside them in their threads that have evidence: one may be better yet."""
    entries = _entries(db, scope_no, best)
    beside = {no for e in entries.values() for no in e.beside if no in evidence and no not in entries}
    if beside:
        entries.update(_entries(db, scope_no, beside))
    return entries


def _entries(db: sqlite3.Connection, scope_no: int, entry_nos: Iterable[int]) -> dict[int, _Entry]:
    rows = db.execute(_ENTRIES, (scope_no, str(list(entry_nos))))
    return {row[0]: _Entry(row[0], row[1], row[2], row[3:]) for row in rows.fetchall()}


def _judge(
    entries: Mapping[int, _Entry], evidence: Mapping[int, float], read: _Gains, rest: _Rest
) -> list[tuple[float, int]]:
    """The entries by evidence: a term counts where it stands in the run, and in part where it does in a neighbour."""
    worths = [worth for worth, _ in read]
    judged = []
    for entry_no, entry in entries.items():
        value = evidence[entry_no]
        beside = [no for no in entry.beside if no in evidence]
        if beside:
            share = neighbour_share(len(entry.postings) // 8)
            gains = [gain_of.get(entry_no, 0.0) for _, gain_of in read]
            for no in beside:
                gains = list(map(max, gains, [share * gain_of.get(no, 0.0) for _, gain_of in read]))
            value = sum(map(mul, worths, gains))
        if rest:
            page = memoryview(entry.postings).cast("q")
            at, size = 0, len(page)
            for worth, start, end in rest:
                at = bisect_left(page, start, at)
                if at == size:
                    break
                if page[at] < end:
                    value += worth * GAINS[page[at] & _GAIN_MASK]
        judged.append((value, entry.sequence))
    judged.sort(reverse=True)
    return judged


_WAITING = "SELECT postings FROM recall_entries WHERE scope_no = ? AND entry_no > ?"
_FIRST_LEVEL = "SELECT postings FROM recall_pages WHERE scope_no = ? AND level = 1 ORDER BY first"
_LAST_PAGES = """SELECT wanted.value, l.level, p.first, p.postings
    FROM json_each(?) AS wanted CROSS JOIN recall_levels AS l CROSS JOIN recall_pages AS p
    WHERE l.scope_no = ? AND l.level > 1 AND p.page_no = (
        SELECT page_no FROM recall_pages AS q
        WHERE q.scope_no = l.scope_no AND q.level = l.level AND q.first < wanted.value
        ORDER BY q.first DESC LIMIT 1)"""
_WHOLE_PAGES = """SELECT page_no, length(postings) / 8 FROM recall_pages
    WHERE scope_no = ? AND level = ? AND first > ? AND first < ? ORDER BY first"""
_ENTRIES = """SELECT entry_no, sequence, postings,
        (SELECT coalesce(max(entry_no), 0) FROM recall_entries AS b WHERE b.thread_no = e.thread_no
            AND b.entry_no < e.entry_no),
        (SELECT coalesce(min(entry_no), 0) FROM recall_entries AS a WHERE a.thread_no = e.thread_no
            AND a.entry_no > e.entry_no)
    FROM recall_entries AS e WHERE scope_no = ? AND entry_no IN (SELECT value FROM json_each(?))"""


def _postings(blob: bytes) -> list[int]:
    return memoryview(blob).cast("q").tolist()


def _key(term: str) -> int:
    """A posting of `term` without entry and gain: the lowest there can be.

    Of 34 bits a pair of characters takes 17 each, so that the pairs which begin with a character stand together and
    no posting of its own is kept for a character that begins one. Any other term is hashed to 32.
    """
    if len(term) <= 2 and is_cjk(term):
        key = _half(term[0]) << 17 | (_half(term[1]) if len(term) == 2 else 0)
    else:
        key = crc32(term.encode("utf-8", "surrogatepass")) << 2
    return key << _TERM_SHIFT


def _half(char: str) -> int:
    """A character in 17 bits: itself, where it is one of the first planes; the others share their places."""
    code = ord(char)
    return (code ^ code >> 17) & 0x1FFFF


def _span(term: QueryTerm) -> tuple[int, int]:
    """Between what the postings of a term stand: for a character, those of all pairs that begin with it."""
    start = _key(term.term)
    return start, start + (_CHAR_SPAN if term.kind is Kind.CHAR else _TERM_SPAN)


def _page(db: sqlite3.Connection, scope_no: int, last_no: int) -> None:
    """Puts the waiting postings, those of the entries up to `last_no`, on the pages of level 1."""
    rows = db.execute(
        """SELECT e.postings FROM recall_scopes AS s JOIN recall_entries AS e
           ON e.scope_no = s.scope_no AND e.entry_no > s.paged_no WHERE s.scope_no = ?""",
        (scope_no,),
    )
    _put(db, scope_no, 1, sorted(chain.from_iterable(_postings(blob) for (blob,) in rows.fetchall())))
    db.execute("UPDATE recall_scopes SET paged_no = ?, waiting = 0 WHERE scope_no = ?", (last_no, scope_no))


def _sink(db: sqlite3.Connection, scope_no: int) -> None:
    """Lets every level that is full sink by one bounded step, so that no run waits for more than a few."""
    rows = db.execute("SELECT level, size, sinking FROM recall_levels WHERE scope_no = ?", (scope_no,)).fetchall()
    sizes = {level: size for level, size, _ in rows}
    for level, size, sinking in rows:
        if sinking is None and size <= _MAX_WAITING * _LEVEL_RATIO**level:
            continue
        capacity = _PAGE_POSTINGS if level > 1 else _FIRST_PAGE_POSTINGS
        pages = max(1, int(_STEP_POSTINGS / (1 + sizes.get(level + 1, 0) / size) / capacity))
        found = db.execute(
            """SELECT page_no, first, postings FROM recall_pages
               WHERE scope_no = ? AND level = ? AND first >= ? ORDER BY first LIMIT ?""",
            (scope_no, level, sinking or 0, pages + 1),
        ).fetchall()
        moved, after = found[:pages], found[pages:]
        postings = list(chain.from_iterable(_postings(blob) for _, _, blob in moved))
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
_PAGE_OF = """SELECT page_no, postings FROM recall_pages WHERE scope_no = ? AND level = ? AND first <= ?
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
