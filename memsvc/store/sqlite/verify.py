"""What must hold of every database, whatever was said to it: `findings` tells what does not, and never a word that was.

Reads, in the transaction that it is called in. Threads and scopes that are hidden (see deletion.py) are left out: they
are being taken out. So are threads with a state below 0: an import stages them (see staging.py), and their runs bear
the scope's number already.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC
from itertools import pairwise

from memsvc.model import RECENT_RUNS
from memsvc.rules import dates
from memsvc.rules.terms import count_terms
from memsvc.store.sqlite import migrate
from memsvc.store.sqlite.index_view import ENTRY_MASK, GAIN_BITS
from memsvc.store.sqlite.recall import postings_of

MAX_FINDINGS = 100
"""Of one kind; a database with more is not described better by more lines."""

_DAY_US = 86_400_000_000
_THREADS = "threads AS t JOIN scopes USING (scope_no) WHERE state > 0 AND tenant_id <> '' AND"
_COVERED = "(SELECT count(*) FROM runs AS r WHERE r.thread_no = t.thread_no AND r.sequence <= {upto})"
_NEVER = {
    "thread {}: its count of runs is {}, it has {}": f"SELECT thread_id, run_count, n FROM (SELECT thread_id, "
    "run_count, (SELECT count(*) FROM runs AS r WHERE r.thread_no = t.thread_no) AS n "
    f"FROM {_THREADS} 1) WHERE run_count <> n",
    "thread {}: its latest run is another than it says": f"SELECT thread_id FROM {_THREADS} "
    "last_sequence <> coalesce((SELECT max(sequence) FROM runs AS r WHERE r.thread_no = t.thread_no), 0)",
    "thread {}: its summary covers other runs than it counts": f"SELECT thread_id FROM {_THREADS} "
    f"folded_count <> {_COVERED.format(upto='folded_upto')}",
    "thread {}: it has a summary without a cursor, or a cursor without a summary": f"SELECT thread_id FROM {_THREADS} "
    "((summary = '') <> (folded_count = 0) OR (folded_count = 0) <> (folded_upto = 0))",
    "thread {}: its summary covers runs that are shown word for word": f"SELECT thread_id FROM {_THREADS} "
    f"folded_count > max(0, run_count - {RECENT_RUNS})",
    "thread {}: it has a draft without its place, or a place without a draft": f"SELECT thread_id FROM {_THREADS} "
    "(draft = '') <> (draft_offset = 0)",
    "thread {}: an earlier summary covers other runs than it counts": "SELECT DISTINCT thread_id FROM checkpoints AS c "
    f"JOIN {_THREADS.replace(' JOIN', ' USING (thread_no) JOIN', 1)} "
    f"(c.folded_upto > t.folded_upto OR c.folded_count <> {_COVERED.format(upto='c.folded_upto')})",
    "run {}: it is of another scope than its thread": "SELECT run_id FROM runs JOIN threads USING (thread_no) "
    "WHERE runs.scope_no <> threads.scope_no AND state >= 0",
    "run {}: it is completed and not in the index": "SELECT run_id FROM runs JOIN scopes USING (scope_no) "
    "WHERE outcome = 1 AND tenant_id <> '' AND sequence NOT IN (SELECT sequence FROM recall_entries) "
    f"AND {ENTRY_MASK} > (SELECT coalesce(max(entry_no), 0) FROM recall_entries AS e "
    "WHERE e.scope_no = runs.scope_no)",
    "scope {}: the index has an entry (number {}) without a completed run": "SELECT scope_no, entry_no "
    "FROM recall_entries WHERE sequence NOT IN (SELECT sequence FROM runs WHERE outcome = 1)",
    "scope {}: the index counts {} entries, it has {}": "SELECT scope_no, entries, n FROM (SELECT scope_no, entries, "
    "(SELECT count(*) FROM recall_entries AS e WHERE e.scope_no = s.scope_no) AS n FROM recall_scopes AS s "
    "JOIN scopes USING (scope_no) WHERE tenant_id <> '') WHERE entries <> n",
    "scope {}: the index counts {} postings as waiting, {} are": "SELECT scope_no, waiting, n FROM (SELECT scope_no, "
    "waiting, (SELECT coalesce(sum(length(postings) / 8), 0) FROM recall_entries AS e "
    "WHERE e.scope_no = s.scope_no AND e.entry_no > s.paged_no) AS n FROM recall_scopes AS s "
    "JOIN scopes USING (scope_no) WHERE tenant_id <> '') WHERE waiting <> n",
    "scope {}: level {} of the index counts {} postings, it has {}": "SELECT scope_no, level, size, n FROM (SELECT "
    "scope_no, level, l.size, (SELECT coalesce(sum(length(postings) / 8), 0) FROM recall_pages AS p "
    "WHERE p.scope_no = l.scope_no AND p.level = l.level) AS n FROM recall_levels AS l "
    "JOIN scopes USING (scope_no) WHERE tenant_id <> '') WHERE size <> n",
}


def findings(db: sqlite3.Connection) -> Iterator[str]:
    """Gives a line for each thing that is not as it must be. Of an earlier schema, the file alone is looked at."""
    damaged = False
    for (line,) in db.execute(f"PRAGMA integrity_check({MAX_FINDINGS})"):
        if line != "ok":
            damaged = True
            yield f"damage: {' '.join(line.split())[:200]}"
    for table, row, parent, _ in db.execute("PRAGMA foreign_key_check").fetchmany(MAX_FINDINGS):
        yield f"table {table}, row {row}: refers to nothing in table {parent}"
    # What a damaged file says of itself would only repeat the damage, in worse words.
    if damaged or schema(db) < len(migrate.shipped()):
        return
    for told, query in _NEVER.items():
        for values in db.execute(query).fetchmany(MAX_FINDINGS):
            yield told.format(*values)
    for (scope_no,) in db.execute(
        "SELECT scope_no FROM recall_scopes JOIN scopes USING (scope_no) WHERE tenant_id <> ''"
    ).fetchall():
        yield from _pages(db, scope_no)
        yield from _postings(db, scope_no)
    yield from _terms(db)


def schema(db: sqlite3.Connection) -> int:
    """Returns how many migrations a database has had."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone():
        return 0
    return int(db.execute("SELECT count(*) FROM migrations").fetchone()[0])


def counts(db: sqlite3.Connection) -> tuple[int, int, int]:
    """Returns how many scopes, threads and runs there are, of those that are not hidden."""
    if not schema(db):
        return 0, 0, 0
    hidden = "AND state > 0"
    scopes, threads, runs = db.execute(
        "SELECT (SELECT count(*) FROM scopes WHERE tenant_id <> ''), "
        f"(SELECT count(*) FROM threads JOIN scopes USING (scope_no) WHERE tenant_id <> '' {hidden}), "
        "(SELECT count(*) FROM runs JOIN threads USING (thread_no) JOIN scopes ON scopes.scope_no = runs.scope_no "
        f"WHERE tenant_id <> '' {hidden})"
    ).fetchone()
    return scopes, threads, runs


def _pages(db: sqlite3.Connection, scope_no: int) -> Iterator[str]:
    """The pages of a level in order: each begins as it says, and ends before the next one begins."""
    rows = db.execute(
        "SELECT level, first, size, postings FROM recall_pages WHERE scope_no = ? ORDER BY level, first", (scope_no,)
    )
    before: tuple[int, int] = (0, -1)
    for level, first, size, blob in rows:
        postings = _unpacked(blob)
        if not postings or postings[0] != first or len(postings) != size:
            yield f"scope {scope_no}: a page of level {level} of the index holds something else than it says"
        elif any(one >= other for one, other in pairwise(postings)) or before >= (level, postings[0]):
            yield f"scope {scope_no}: level {level} of the index is out of order"
        if postings:
            before = (level, postings[-1])


def _postings(db: sqlite3.Connection, scope_no: int) -> Iterator[str]:
    """Each posting of an entry that has left the waiting ones stands on one page, and nothing else does.

    But for those of hidden threads, which may have left some pages and not others.
    """
    hidden = {
        entry_no
        for (entry_no,) in db.execute(
            "SELECT entry_no FROM recall_entries JOIN doomed USING (thread_no) WHERE recall_entries.scope_no = ?",
            (scope_no,),
        )
    }
    entries = (
        "SELECT e.postings FROM recall_entries AS e JOIN recall_scopes AS s USING (scope_no) "
        "WHERE scope_no = ? AND entry_no <= paged_no"
    )
    due = _told(db, entries, scope_no, hidden)
    there = _told(db, "SELECT postings FROM recall_pages WHERE scope_no = ?", scope_no, hidden)
    if due != there:
        yield f"scope {scope_no}: {there[0]} postings stand on the pages of the index, and not the {due[0]} that should"


def _told(db: sqlite3.Connection, query: str, scope_no: int, hidden: Collection[int]) -> tuple[int, int, int]:
    """How many postings there are, and two sums that tell them apart from others, whatever their order."""
    count = total = squares = 0
    for (blob,) in db.execute(query, (scope_no,)):
        postings: Sequence[int] = _unpacked(blob)
        if hidden:
            postings = [p for p in postings if p >> GAIN_BITS & ENTRY_MASK not in hidden]
        count += len(postings)
        total += sum(postings)
        squares += sum(p * p for p in postings)
    return count, total, squares


def _terms(db: sqlite3.Connection) -> Iterator[str]:
    """Each entry is of its own run: it has most of the terms that the run has. Not all, because a later version may
    read other terms out of a text than the one that recorded it. Those of the day are let be: no row says its zone.
    """
    rows = db.execute(
        "SELECT run_id, entry_no, postings, own_offset, input, output, ended_us FROM recall_entries "
        "JOIN runs USING (sequence) JOIN scopes ON scopes.scope_no = runs.scope_no WHERE tenant_id <> ''"
    )
    for run_id, entry_no, blob, own_offset, given, output, ended_us in rows:
        days = {day: 1 for near in (-_DAY_US, 0, _DAY_US) for day in dates.of_time(ended_us + near, UTC)}
        kept = {p >> GAIN_BITS for p in _unpacked(blob)} - {p >> GAIN_BITS for p in postings_of(entry_no, days)}
        wanted = {p >> GAIN_BITS for p in postings_of(entry_no, count_terms(given[own_offset:], output))}
        if 2 * len(kept & wanted) < max(len(kept), len(wanted)):
            yield f"run {run_id}: its entry in the index is not of its words"


def _unpacked(blob: bytes) -> array[int]:
    postings = array("q")
    postings.frombytes(blob)
    return postings
