"""The recall index of one scope as one snapshot has it, read through a cache, under names that never mean two things.

A page's number is never given again and what is on it never changes; a level draws another `version` with every page
that comes or goes; a scope draws another `state` with every entry that leaves. A reader learns versions and state from
its own snapshot, in one row or a few, so whatever is kept under other names, older or newer, is not looked at.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.pages import read_postings

_MAX_PLACES = 4_096  # terms whose places on a level are remembered
_PLACES_BYTES = 256 * _MAX_PLACES

GAIN_BITS = 6
ENTRY_BITS = 23
ENTRY_MASK = (1 << ENTRY_BITS) - 1

Span = tuple[int, int]
"""Between what the postings of a term stand, the end left out."""


class Place(NamedTuple):
    """Where a term stands on a level: from `start` on page `first` to `stop` on page `last`, `size` postings."""

    first: int
    start: int
    last: int
    stop: int
    size: int


class Level(NamedTuple):
    """The pages of a level in order: their first postings, their numbers, and how many postings stand before each."""

    level: int
    version: int
    firsts: array[int]
    numbers: array[int]
    before: array[int]
    places: dict[int, Place | None]


class Entry(NamedTuple):
    """One run's entry; `beside` are the entries before and after it in its thread (0: none) as of `last_no`."""

    sequence: int
    thread_no: int
    postings: memoryview
    beside: tuple[int, int]
    last_no: int


class _Tail(NamedTuple):
    """The postings of the entries that wait, in order: of those after `paged_no` up to `last_no`."""

    state: int
    paged_no: int
    last_no: int
    postings: list[int]


class View:
    """The index of one scope as one snapshot has it, read through a cache. Lives as long as its transaction."""

    def __init__(self, db: sqlite3.Connection, cache: Cache, scope_no: int) -> None:
        self._db, self._cache, self._scope_no = db, cache, scope_no
        rows = db.execute(_SCOPE, (scope_no,)).fetchall()
        self.entries = 0
        """How many runs are in the index."""
        if not rows:
            return
        self.entries, paged_no, self._state, last_no, doomed = rows[0][:5]
        self._doomed = {int(number) for number in doomed.split(",")} if doomed else ()
        self._last_no = last_no or 0
        self._waiting = self._tail(paged_no).postings
        self._levels = [self._level(*row[5:]) for row in rows if row[5] is not None]

    def find(self, spans: Sequence[Span]) -> list[Postings]:
        """Looks up terms, in the waiting entries and on each level."""
        self._place(spans)
        waiting = self._waiting
        posted = []
        for start, end in spans:
            low = bisect_left(waiting, start)
            high = low
            if low < len(waiting) and waiting[low] < end:
                high = bisect_left(waiting, end, low)
            places = []
            size = high - low
            for level in self._levels:
                if place := level.places[start]:
                    places.append((level, place))
                    size += place.size
            posted.append(Postings(start, end, size, low, high, places))
        return posted

    def read(self, posted: Postings, most: int) -> list[int]:
        """Returns the postings of a term: all, or where they are many at least the latest `most`.

        The ends first: of a term in very many runs the latest stand last, on the deepest level's last pages.
        """
        postings = self._waiting[posted.low : posted.high]
        wanted: list[tuple[int, int | None, int | None]] = []
        size = posted.high - posted.low
        whole: list[tuple[int, int]] = []
        for level, place in posted.places:
            numbers = level.numbers
            if place.first == place.last:
                number = numbers[place.last]
                if page := self._cache.get(number):  # as nearly all are
                    postings += page[place.start : place.stop].tolist()
                else:
                    wanted.append((number, place.start, place.stop))
                size += place.size
            elif level.level == 1:
                wanted.append((numbers[place.first], place.start, None))
                wanted += [(number, None, None) for number in numbers[place.first + 1 : place.last]]
                wanted.append((numbers[place.last], None, place.stop))
                size += place.size
            else:
                before, next_page = level.before, place.first
                wanted.append((numbers[place.last], None, place.stop))
                if level.firsts[next_page] <= posted.start:
                    wanted.append((numbers[next_page], place.start, None))
                    next_page += 1
                size += place.size - before[place.last] + before[next_page]
                whole += [(numbers[i], before[i + 1] - before[i]) for i in range(next_page, place.last)]
        for number, page_size in reversed(whole):
            if size >= most:
                break
            wanted.append((number, None, None))
            size += page_size
        if not wanted:
            return postings
        pages = self._pages({number for number, _, _ in wanted})
        for number, start, stop in wanted:
            postings += pages[number][start:stop].tolist()
        return postings

    def read_entries(self, numbers: Iterable[int]) -> dict[int, Entry]:
        """Returns entries by their numbers, without those of threads that are being taken out."""
        entries: dict[int, Entry] = {}
        missing = []
        for number in numbers:
            entry = self._cache.get((self._state, number))
            if entry is None or not (entry.beside[1] or entry.last_no == self._last_no):
                missing.append(number)
            else:
                entries[number] = entry
        if missing:
            rows = self._db.execute(_ENTRIES, (self._scope_no, str(missing)))
            for number, sequence, thread_no, blob, before, after in rows.fetchall():
                entry = Entry(sequence, thread_no, memoryview(blob).cast("q"), (before, after), self._last_no)
                self._cache.put((self._state, number), entry, len(blob))
                entries[number] = entry
        if self._doomed:
            return {number: entry for number, entry in entries.items() if entry.thread_no not in self._doomed}
        return entries

    def first_shown(self, numbers: Sequence[int], most: int) -> Sequence[int]:
        """Returns the first `most` of some entries, without those of threads that are being taken out."""
        if not self._doomed:
            return numbers[:most]
        found: list[int] = []
        for start in range(0, len(numbers), most):
            shown = self.read_entries(numbers[start : start + most])
            found += [number for number in numbers[start : start + most] if number in shown]
            if len(found) >= most:
                break
        return found[:most]

    def _tail(self, paged_no: int) -> _Tail:
        key = ("waiting", self._scope_no)
        known = self._cache.get(key)
        if known is not None and known.state == self._state:
            if known.paged_no == paged_no and known.last_no == self._last_no:
                return known  # type: ignore[no-any-return]
            if known.paged_no > paged_no or known.last_no > self._last_no:
                known = None  # an older snapshot than that of whoever was here last
        else:
            known = None
        kept: list[int] = []
        after = paged_no
        if known is not None:
            kept = known.postings
            if known.paged_no < paged_no:
                kept = [p for p in kept if p >> GAIN_BITS & ENTRY_MASK > paged_no]
            after = max(paged_no, known.last_no)
        rows = self._db.execute(_WAITING, (self._scope_no, after)).fetchall()
        postings = [*kept, *chain.from_iterable([read_postings(blob) for (blob,) in rows])]
        postings.sort()
        tail = _Tail(self._state, paged_no, self._last_no, postings)
        self._cache.put(key, tail, 40 * len(postings))
        return tail

    def _level(self, level: int, version: int) -> Level:
        key = ("level", self._scope_no, level)
        known: Level | None = self._cache.get(key)
        if known is not None and known.version == version:
            if len(known.places) > _MAX_PLACES:
                # Another thread may be using them.
                known = known._replace(places={})
                self._cache.put(key, known, 24 * len(known.firsts) + _PLACES_BYTES)
            return known
        rows = self._db.execute(_LEVEL, (self._scope_no, level)).fetchall()
        firsts = array("q", [first for first, _, _ in rows])
        numbers = array("q", [number for _, number, _ in rows])
        before = array("q", accumulate((size for _, _, size in rows), initial=0))
        found = Level(level, version, firsts, numbers, before, {})
        self._cache.put(key, found, 24 * len(rows) + _PLACES_BYTES)
        return found

    def _place(self, spans: Sequence[Span]) -> None:
        """Finds where the terms stand on each level, unless that is remembered."""
        found = []
        needed: set[int] = set()
        starts = {start for start, _ in spans}
        for level in self._levels:
            places = level.places
            if starts <= places.keys():
                continue
            for start, end in spans:
                if start not in places:
                    last = bisect_left(level.firsts, end) - 1
                    first = max(bisect_left(level.firsts, start + 1) - 1, 0)
                    if last < 0:
                        level.places[start] = None
                        continue
                    needed.add(level.numbers[first])
                    needed.add(level.numbers[last])
                    found.append((level, start, end, first, last))
        pages = self._pages(needed) if found else {}
        for level, span_start, span_end, first, last in found:
            start = bisect_left(pages[level.numbers[first]], span_start)
            stop = bisect_left(pages[level.numbers[last]], span_end)
            size = level.before[last] - level.before[first] + stop - start
            level.places[span_start] = Place(first, start, last, stop, size) if size else None

    def _pages(self, numbers: Collection[int]) -> Mapping[int, memoryview]:
        """Returns pages by their numbers; what is missing is read in one statement."""
        get = self._cache.get
        pages = {number: get(number) for number in numbers}
        missing = [number for number, page in pages.items() if page is None]
        if missing:
            for number, blob in self._db.execute(_PAGES, (str(missing),)).fetchall():
                pages[number] = memoryview(blob).cast("q")
                self._cache.put(number, pages[number], len(blob))
        return pages


class Postings(NamedTuple):
    """The postings of one term: how many there are, and where in the waiting ones and on the levels."""

    start: int
    end: int
    size: int
    low: int
    high: int
    places: list[tuple[Level, Place]]


_SCOPE = """SELECT s.entries, s.paged_no, s.state,
        (SELECT max(entry_no) FROM recall_entries WHERE scope_no = s.scope_no),
        (SELECT group_concat(thread_no) FROM doomed WHERE doomed.scope_no = s.scope_no),
        l.level, l.version
    FROM recall_scopes AS s LEFT JOIN recall_levels AS l USING (scope_no) WHERE s.scope_no = ? ORDER BY l.level"""
_WAITING = "SELECT postings FROM recall_entries WHERE scope_no = ? AND entry_no > ?"
_LEVEL = "SELECT first, page_no, size FROM recall_pages WHERE scope_no = ? AND level = ? ORDER BY first"
_PAGES = "SELECT page_no, postings FROM recall_pages WHERE page_no IN (SELECT value FROM json_each(?))"
_ENTRIES = """SELECT entry_no, sequence, thread_no, postings,
        (SELECT coalesce(max(entry_no), 0) FROM recall_entries AS b WHERE b.thread_no = e.thread_no
            AND b.entry_no < e.entry_no),
        (SELECT coalesce(min(entry_no), 0) FROM recall_entries AS a WHERE a.thread_no = e.thread_no
            AND a.entry_no > e.entry_no)
    FROM recall_entries AS e WHERE scope_no = ? AND entry_no IN (SELECT value FROM json_each(?))"""
