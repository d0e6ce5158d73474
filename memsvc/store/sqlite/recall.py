"""The recall index: which run has which term, written with the run, gone with the run, read by scope.

Postings are plain integers in order, on pages, in levels (see 0002_recall.sql). Whatever moves, at every commit each
posting stands on exactly one page; so a reader takes the union of the levels and needs to know of no move.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter, or_
from typing import NamedTuple
from zlib import crc32

from memsvc.rules.bearing import Bearing
from memsvc.rules.ranking import GAINS, divide, gain_level, neighbour_share, steady, weight
from memsvc.rules.terms import Kind, QueryTerm, is_cjk
from memsvc.store.sqlite import pages
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.index_view import ENTRY_BITS, ENTRY_MASK, GAIN_BITS, Entry, Postings, Span, View

USUAL_WAITING = 4_096
"""Postings of a scope that may wait in their entries: some 26 runs of a kilobyte. Beyond it, `settle` is due."""
MAX_WAITING = 16_384
"""Where so many wait, because nobody settles, recording a run does the work: what a search reads stays bounded."""

_TERM_SHIFT = GAIN_BITS + ENTRY_BITS
_TERM_SPAN = 1 << _TERM_SHIFT
_CHAR_SPAN = _TERM_SPAN << 17  # all pairs that begin with one character
_NOT_ALONE = (1 << 33 << _TERM_SHIFT) + _CHAR_SPAN - _TERM_SPAN  # a word has the first bit, a pair one of the others
_GAIN_MASK = (1 << GAIN_BITS) - 1

_MAX_READ = 500  # postings that may bring new candidates; longer lists only add to those there are
_MORE_CANDIDATES = 6  # than are wanted: neighbours and terms not read yet may change the order


class Hit(NamedTuple):
    """A recalled run by its place in the order of recording, and how much it bears on the query, 0 to 1."""

    sequence: int
    score: float


def index_run(db: sqlite3.Connection, scope_no: int, thread_no: int, sequence: int, counts: Mapping[str, int]) -> bool:
    """Indexes a completed run in the transaction that records it; returns whether `settle` is due.

    `counts` are its terms with how often each occurs (`rules.terms.count_terms`), of the user's own input without a
    context block and of the output. A scope holds 8,388,607 entries; runs beyond that are kept and not recalled.
    """
    return index_entry(db, scope_no, thread_no, sequence, lambda entry_no: postings_of(entry_no, counts))


def index_entry(
    db: sqlite3.Connection, scope_no: int, thread_no: int, sequence: int, postings_at: Callable[[int], list[int]]
) -> bool:
    """Does what `index_run` does for postings that are made for the number which the entry gets."""
    # An entry's number tells whether its postings are on pages: the number of a deleted one must not be given again.
    (last_no,) = db.execute(
        """SELECT max(coalesce((SELECT max(entry_no) FROM recall_entries WHERE scope_no = :no), 0),
                      coalesce((SELECT paged_no FROM recall_scopes WHERE scope_no = :no), 0))""",
        {"no": scope_no},
    ).fetchone()
    entry_no = last_no + 1
    if entry_no > ENTRY_MASK:
        return False
    postings = postings_at(entry_no)
    db.execute(
        "INSERT INTO recall_entries VALUES (?, ?, ?, ?, ?)",
        (scope_no, entry_no, sequence, thread_no, array("q", postings).tobytes()),
    )
    (waiting,) = db.execute(
        """INSERT INTO recall_scopes VALUES (?, 1, 0, ?, random())
           ON CONFLICT DO UPDATE SET entries = entries + 1, waiting = waiting + excluded.waiting RETURNING waiting""",
        (scope_no, len(postings)),
    ).fetchone()
    if waiting > MAX_WAITING:
        pages.page_waiting(db, scope_no)
    elif waiting > MAX_WAITING // 2:
        pages.sink(db, scope_no)
    return bool(waiting > USUAL_WAITING)


def settle(db: sqlite3.Connection, scope_no: int) -> bool:
    """Puts waiting postings on pages, or lets a full level sink by one step; returns whether it is to be called again.

    What is due is seen from the database, and each call leaves every posting in one place: it can be killed anywhere.
    """
    row = db.execute("SELECT waiting FROM recall_scopes WHERE scope_no = ?", (scope_no,)).fetchone()
    if row is None:
        return False
    if row[0] > USUAL_WAITING:
        pages.page_waiting(db, scope_no)
        return True
    return pages.sink(db, scope_no)


def unsettled(db: sqlite3.Connection) -> list[int]:
    """Returns the scopes in which `settle` is due."""
    rows = db.execute("SELECT scope_no FROM recall_scopes WHERE waiting > ?", (USUAL_WAITING,)).fetchall()
    return sorted({no for (no,) in rows}.union(pages.full_scopes(db)))


def drop_waiting(db: sqlite3.Connection, sequences: Sequence[int]) -> None:
    """Drops the entries of runs that an import brought and that wait beside the index (see staging.py)."""
    db.executemany("DELETE FROM recall_entries WHERE sequence = ?", [(sequence,) for sequence in sequences])


def search(
    db: sqlite3.Connection,
    cache: Cache,
    scope_no: int,
    query_terms: Sequence[QueryTerm],
    limit: int,
    exclude_sequences: frozenset[int] = frozenset(),
) -> list[Hit]:
    """Returns at most `limit` runs of the scope that have any of the terms, best first, among equals the latest.

    No run scores higher than one before it.

    Looks at a page or two for each term and level, about `_MAX_READ` postings of the rarest terms, and the entries of a
    few dozen candidates; what `cache` does not hold is read. Whatever else scope or database hold costs nothing.
    """
    if not query_terms or limit < 1:
        return []
    view = View(db, cache, scope_no)
    if not view.entries:
        return []
    leading, following = divide(query_terms)
    hits = _find(view, leading, following, limit, exclude_sequences)
    if not hits and len(leading) < len(query_terms):
        # Where no word or pair is found, a character may be.
        hits = _find(view, query_terms, [], limit, exclude_sequences)
    return hits


def _find(
    view: View,
    leading: Sequence[QueryTerm],
    following: Sequence[QueryTerm],
    limit: int,
    exclude_sequences: frozenset[int],
) -> list[Hit]:
    posted = view.find([_span(term.term, term.kind is Kind.CHAR) for term in leading])
    worths = [weight(term.kind, each.size, view.entries) for term, each in zip(leading, posted, strict=True)]
    worths += [weight(term.kind, 0, 1) for term in following]
    rest = [_Rest(*_span(term.term, term.kind is Kind.CHAR), at) for at, term in enumerate(following, len(leading))]
    lists = _read(view, posted, rest)

    evidence: dict[int, float] = {}
    known = evidence.get
    for at, gain_of in lists:
        worth = worths[at]
        for entry_no, gain in gain_of.items():
            evidence[entry_no] = known(entry_no, 0.0) + worth * gain
    wanted = limit + len(exclude_sequences)
    # All in order: of some hundred, a heap takes twice as long to find the first.
    best = view.first_shown(sorted(evidence, key=evidence.__getitem__, reverse=True), wanted + _MORE_CANDIDATES)
    enough = evidence[best[wanted - 1]] if len(best) >= wanted else 0.0
    terms = [*leading, *following]
    bearing, found = Bearing(terms, worths), []
    for entry_no, entry in _with_neighbours(view, best, evidence, enough).items():
        beside = [no for no in entry.beside if no in evidence]
        gains = _gains(entry_no, entry, beside, lists, rest)
        size = len(entry.postings)
        found.append((bearing.score(gains, size), entry.sequence, gains, size))
    found.sort(key=itemgetter(0, 1), reverse=True)
    shown = [each for each in found if each[1] not in exclude_sequences][:limit]
    steadied = [steady(term.kind, worth) for term, worth in zip(terms, worths, strict=True)]
    scale = bearing if steadied == worths else bearing.weighed(steadied)
    scores = accumulate((scale.score(gains, size) for _, _, gains, size in shown), min)
    return [Hit(sequence, score) for (_, sequence, _, _), score in zip(shown, scores, strict=True)]


class _Rest(NamedTuple):
    """A term that is looked up in the candidates alone: between what its postings stand, and its place in the query."""

    start: int
    end: int
    at: int


_Lists = list[tuple[int, dict[int, float]]]
"""The gains of entries for each term whose postings were read, by the term's place in the query."""


def _read(view: View, posted: Sequence[Postings], rest: list[_Rest]) -> _Lists:
    """Reads the shortest lists while the budget lasts, of the first at least its latest; adds the others to `rest`."""
    lists: _Lists = []
    left = _MAX_READ
    shift, mask, gain_mask, gain_of = GAIN_BITS, ENTRY_MASK, _GAIN_MASK, GAINS  # some hundred times below
    for at in sorted(range(len(posted)), key=[each.size for each in posted].__getitem__):
        each = posted[at]
        if lists and each.size > left:
            rest.append(_Rest(each.start, each.end, at))
            continue
        if not each.size:
            continue
        postings = view.read(each, left)
        lists.append((at, {p >> shift & mask: gain_of[p & gain_mask] for p in postings}))
        left -= len(postings)
    rest.sort()
    return lists


def _with_neighbours(view: View, best: Sequence[int], evidence: Mapping[int, float], enough: float) -> dict[int, Entry]:
    """The best entries, and those beside them in their threads that may reach `enough` with what these lend."""
    entries = view.read_entries(best)
    lent = neighbour_share(0)
    beside = {
        no
        for entry_no, entry in entries.items()
        for no in entry.beside
        if no not in entries and no in evidence and evidence[no] + lent * evidence[entry_no] > enough
    }
    if beside:
        entries.update(view.read_entries(beside))
    return entries


def _gains(
    entry_no: int, entry: Entry, beside: Sequence[int], lists: _Lists, rest: Sequence[_Rest]
) -> dict[int, float]:
    """How much each term counts in an entry: where it stands there, and in part where it does in one beside it."""
    gains = {}
    page = entry.postings
    share = neighbour_share(len(page)) if beside else 0.0
    for at, gain_of in lists:
        gain = gain_of.get(entry_no, 0.0)
        for no in beside:
            if no in gain_of and (lent := share * gain_of[no]) > gain:
                gain = lent
        if gain:
            gains[at] = gain
    found, size = 0, len(page)
    for start, end, at in rest:
        found = bisect_left(page, start, found)
        if found == size:
            break
        if (posting := page[found]) < end:
            gains[at] = GAINS[posting & _GAIN_MASK]
    return gains


def postings_of(entry_no: int, counts: Mapping[str, int]) -> list[int]:
    """Returns the postings of an entry, in order."""
    length = sum(counts.values())
    low_bits = {n: entry_no << GAIN_BITS | gain_level(n, length) for n in set(counts.values())}
    postings = sorted(map(or_, map(_key, counts), map(low_bits.__getitem__, counts.values())))
    # A character's own posting stands before those of the pairs that begin with it, which say the same.
    after = [*postings[1:], 0]
    return [p for p, q in zip(postings, after, strict=False) if p & _NOT_ALONE or p ^ q >= _CHAR_SPAN]


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


@lru_cache(maxsize=65_536)
def _span(term: str, is_character: bool) -> Span:
    """Between what the postings of a term stand: for a character, those of all pairs that begin with it."""
    start = _key(term)
    return start, start + (_CHAR_SPAN if is_character else _TERM_SPAN)
