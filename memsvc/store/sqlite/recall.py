"""The recall index: which run has which term, written with the run, gone with the run, read by scope.

Postings are plain integers in order, on pages, in levels (see 0002_recall.sql). Whatever moves, at every commit each
posting stands on exactly one page; so a reader takes the union of the levels and needs to know of no move.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from typing import NamedTuple
from zlib import crc32

from memsvc.rules.ranking import GAINS, divide, gain_level, neighbour_share, score, weight
from memsvc.rules.terms import Kind, QueryTerm, is_cjk
from memsvc.store.sqlite import pages
from memsvc.store.sqlite.pages import read_postings

_GAIN_BITS = 6
_ENTRY_BITS = 23
_TERM_SHIFT = _GAIN_BITS + _ENTRY_BITS
_TERM_SPAN = 1 << _TERM_SHIFT
_CHAR_SPAN = _TERM_SPAN << 17  # all pairs that begin with one character
_NOT_ALONE = (1 << 33 << _TERM_SHIFT) + _CHAR_SPAN - _TERM_SPAN  # a word has the first bit, a pair one of the others
_GAIN_MASK = (1 << _GAIN_BITS) - 1
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1

_MAX_READ = 500  # postings that may bring new candidates; longer lists only add to those there are
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
    # An entry's number tells whether its postings are on pages: the number of a deleted one must not be given again.
    (last_no,) = db.execute(
        """SELECT max(coalesce((SELECT max(entry_no) FROM recall_entries WHERE scope_no = :no), 0),
                      coalesce((SELECT paged_no FROM recall_scopes WHERE scope_no = :no), 0))""",
        {"no": scope_no},
    ).fetchone()
    entry_no = last_no + 1
    if entry_no > _ENTRY_MASK:
        return
    length = sum(counts.values())
    low_bits = {n: entry_no << _GAIN_BITS | gain_level(n, length) for n in set(counts.values())}
    postings = sorted([_key(term) | low_bits[n] for term, n in counts.items()])
    # A character's own posting stands before those of the pairs that begin with it, which say the same.
    after = [*postings[1:], 0]
    postings = [p for p, q in zip(postings, after, strict=False) if p & _NOT_ALONE or p ^ q >= _CHAR_SPAN]
    db.execute(
        "INSERT INTO recall_entries VALUES (?, ?, ?, ?, ?)",
        (scope_no, entry_no, sequence, thread_no, array("q", postings).tobytes()),
    )
    (waiting,) = db.execute(
        """INSERT INTO recall_scopes VALUES (?, 1, 0, ?)
           ON CONFLICT DO UPDATE SET entries = entries + 1, waiting = waiting + excluded.waiting RETURNING waiting""",
        (scope_no, len(postings)),
    ).fetchone()
    if waiting > pages.MAX_WAITING:
        pages.page_waiting(db, scope_no, entry_no)
    pages.sink(db, scope_no)


def unindex_runs(db: sqlite3.Connection, scope_no: int, sequences: Sequence[int]) -> None:
    """Takes runs out of the index, postings and counts; nothing happens for those that are not in."""
    rows = db.execute(
        "SELECT entry_no, postings FROM recall_entries WHERE scope_no = ? AND sequence IN "
        "(SELECT value FROM json_each(?))",
        (scope_no, str(list(sequences))),
    ).fetchall()
    if not rows:
        return
    (paged_no,) = db.execute("SELECT paged_no FROM recall_scopes WHERE scope_no = ?", (scope_no,)).fetchone()
    gone = sorted(chain.from_iterable(read_postings(blob) for no, blob in rows if no <= paged_no))
    for (level,) in db.execute("SELECT level FROM recall_levels WHERE scope_no = ?", (scope_no,)).fetchall():
        gone = pages.take(db, scope_no, level, gone)
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
    if not hits and len(leading) < len(query_terms):
        # Where no word or pair is found, a character may be.
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
    wanted = limit + len(exclude_sequences)
    best = nlargest(wanted + _MORE_CANDIDATES, evidence, key=evidence.__getitem__)
    enough = evidence[best[wanted - 1]] if len(best) >= wanted else 0.0
    judged = _judge(_with_neighbours(db, scope_no, best, evidence, enough), evidence, read, rest)
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
    waiting = sorted(read_postings(b"".join([blob for (blob,) in db.execute(_WAITING, (scope_no, paged_no))])))
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
            before = db.execute(pages.PAGE_OF, each_level).fetchone()
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
            postings += read_postings(row[0])
        gains.append((worth, {p >> _GAIN_BITS & _ENTRY_MASK: GAINS[p & _GAIN_MASK] for p in postings}))
        left -= len(postings)
    return gains


class _Entry(NamedTuple):
    entry_no: int
    sequence: int
    postings: bytes
    beside: tuple[int, int]


def _with_neighbours(
    db: sqlite3.Connection, scope_no: int, best: Sequence[int], evidence: Mapping[int, float], enough: float
) -> dict[int, _Entry]:
    """The best entries, and those beside them in their threads that may reach `enough` with what these lend."""
    entries = _entries(db, scope_no, best)
    beside = {
        no
        for e in entries.values()
        for no in e.beside
        if no not in entries and no in evidence and evidence[no] + neighbour_share(0) * evidence[e.entry_no] > enough
    }
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
    judged = []
    for entry_no, entry in entries.items():
        value = evidence[entry_no]
        beside = [no for no in entry.beside if no in evidence]
        if beside:
            share = neighbour_share(len(entry.postings) // 8)
            for worth, gain_of in read:
                lent = share * max([gain_of.get(no, 0.0) for no in beside])
                if lent and lent > (own := gain_of.get(entry_no, 0.0)):
                    value += worth * (lent - own)
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
    FROM recall_entries AS e WHERE scope_no = ? AND entry_no IN (SELECT value FROM json_each(?))
        AND thread_no NOT IN (SELECT thread_no FROM doomed WHERE thread_no IS NOT NULL)"""


@lru_cache(maxsize=65_536)
def _key(term: str) -> int:
    """A posting of `term` without entry and gain: the lowest there can be.

    The pairs which begin with a character stand together, so that none of its own is kept for a character that begins
    one. Any other term is hashed to 32 bits, apart from those: among a million distinct ones of a scope, one absent
    term in 4,300 would be taken for another.
    """
    first, last = term[0], term[-1]
    if len(term) <= 2 and ("\u4e00" <= first <= "\u9fff" >= last >= "\u4e00" or is_cjk(term)):
        key = _half(first) << 17 | (_half(last) if len(term) == 2 else 0)
    else:
        key = 1 << 33 | crc32(term.encode("utf-8", "surrogatepass")) << 1
    return key << _TERM_SHIFT


def _half(char: str) -> int:
    """A character in 16 bits, never 0: its own number, or for the rare ones beyond the first plane a shared one."""
    return ord(char) % 0xFFFF + 1


def _span(term: QueryTerm) -> tuple[int, int]:
    """Between what the postings of a term stand: for a character, those of all pairs that begin with it."""
    start = _key(term.term)
    return start, start + (_CHAR_SPAN if term.kind is Kind.CHAR else _TERM_SPAN)
