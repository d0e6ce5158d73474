"""Takes threads out of the recall index: one walk through the pages of their scope, in steps as short as one likes.

Each posting of a run stands on a page among those of thousands of other runs. Taken out run by run, every page of the
scope would be rewritten once for each of them; so the pages are gone through once for all that is to leave.

The walk goes from level 1 downwards, and on a level from the lowest posting up. Whatever moves meanwhile moves from a
level to the one below it, and what enters at level 1 is not of a hidden thread (`pages.page_waiting` leaves that out):
so nothing gets behind the walk. Its place is a value in memory. A process that is killed begins another walk, which
only reads the pages that the first one has been to; what is due stands in `doomed` until nothing is left.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from memsvc.store.sqlite import pages
from memsvc.store.sqlite.index_view import ENTRY_MASK, GAIN_BITS
from memsvc.store.sqlite.pages import read_postings

WALK_ENTRIES = 100_000
"""Most entries that leave in one walk: their numbers are read at once, in some 30 ms. More take another walk."""
FEW_ENTRIES = 500
FEW_POSTINGS = 65_536
"""Up to so many, if they are fewer than the pages, the pages that hold a posting are looked up, and no other read."""
PAGES_AT_ONCE = 8
"""A walk looks at the clock after so many."""


class Walk(NamedTuple):
    """Entries that leave the index of a scope, and how far its pages have been gone through for them."""

    scope_no: int
    thread_nos: frozenset[int]
    leaving: bytes
    """A 1 at the number of each entry that leaves; the last byte is one."""
    wanted: Sequence[int] | None
    """The postings to take out, in order, where they are few."""
    level: int
    """On which level it goes on; None is left when all have been gone through."""
    posting: int
    """Up to which posting it has gone there."""
    done: bool = False
    """Whether no posting of them is left on any page."""

    def leaves(self, entry_no: int) -> bool:
        """Tells whether an entry is one of those."""
        return entry_no < len(self.leaving) and self.leaving[entry_no] == 1


def begin(db: sqlite3.Connection, scope_no: int, thread_nos: Sequence[int]) -> Walk | None:
    """Begins a walk for the entries of hidden threads of a scope; None where they have none."""
    entries: list[int] = []
    for thread_no in thread_nos:
        rows = db.execute(
            "SELECT entry_no FROM recall_entries WHERE thread_no = ? ORDER BY entry_no LIMIT ?",
            (thread_no, WALK_ENTRIES - len(entries)),
        )
        entries += [entry_no for (entry_no,) in rows]
    if not entries:
        return None
    leaving = bytearray(max(entries) + 1)
    for entry_no in entries:
        leaving[entry_no] = 1
    return Walk(scope_no, frozenset(thread_nos), bytes(leaving), _wanted(db, scope_no, entries), 0, 0)


def go_on(db: sqlite3.Connection, walk: Walk) -> Walk:
    """Takes what leaves from the next few pages; returns how far the walk is then."""
    after = _sift(db, walk) if walk.level else None
    if after is not None:
        return walk._replace(posting=after)
    (level,) = db.execute(
        "SELECT min(level) FROM recall_levels WHERE scope_no = ? AND level > ?", (walk.scope_no, walk.level)
    ).fetchone()
    return walk._replace(done=True) if level is None else walk._replace(level=level, posting=0)


def remove(db: sqlite3.Connection, scope_no: int, entries: Sequence[tuple[int, int]]) -> None:
    """Deletes entries no posting of which is on a page any more, given by number and count of postings."""
    if not entries:
        return
    db.executemany(
        "DELETE FROM recall_entries WHERE scope_no = ? AND entry_no = ?", [(scope_no, no) for no, _ in entries]
    )
    for (paged_no,) in db.execute("SELECT paged_no FROM recall_scopes WHERE scope_no = ?", (scope_no,)).fetchall():
        waiting = sum(size for no, size in entries if no > paged_no)
        db.execute(
            "UPDATE recall_scopes SET entries = entries - ?, waiting = waiting - ?, state = random() "
            "WHERE scope_no = ?",
            (len(entries), waiting, scope_no),
        )
    db.execute("DELETE FROM recall_scopes WHERE scope_no = ? AND entries = 0", (scope_no,))


def _sift(db: sqlite3.Connection, walk: Walk) -> int | None:
    """Sifts the next pages of the level; returns where it goes on, None where the level has been gone through."""
    start, most = walk.posting, PAGES_AT_ONCE
    if walk.wanted is not None:
        at = bisect_left(walk.wanted, start)
        if at == len(walk.wanted):
            return None
        start, most = walk.wanted[at], 1
    leaving, size = walk.leaving, len(walk.leaving)

    def stay(postings: list[int]) -> list[int]:
        return [p for p in postings if (no := p >> GAIN_BITS & ENTRY_MASK) >= size or not leaving[no]]

    return pages.sift(db, walk.scope_no, walk.level, start, most, stay)


def _wanted(db: sqlite3.Connection, scope_no: int, entries: Sequence[int]) -> list[int] | None:
    """The postings of entries, in order, where looking for each is less than going through all pages."""
    if len(entries) > FEW_ENTRIES:
        return None
    of_them = "FROM recall_entries WHERE scope_no = ? AND entry_no IN (SELECT value FROM json_each(?))"
    chosen = (scope_no, str(entries))
    (count,) = db.execute(f"SELECT sum(length(postings)) / 8 {of_them}", chosen).fetchone()
    (there,) = db.execute("SELECT sum(size) FROM recall_levels WHERE scope_no = ?", (scope_no,)).fetchone()
    if count > min((there or 0) // pages.PAGE_POSTINGS, FEW_POSTINGS):
        return None
    rows = db.execute(f"SELECT postings {of_them}", chosen).fetchall()
    return sorted(chain.from_iterable(read_postings(blob) for (blob,) in rows))
