"""What an import brings, out of sight until all of it is there: short writes before, one short write to show it, and
short writes behind.

A staging scope is a row of `scopes` that nobody can call. Under its number stands all that an import brings, each row
as it will be, but for three things. Runs bear the number of the scope that they are for, so that showing them need not
touch them: they are hidden by their thread, which is in the staging scope and has its state, its count of runs and its
latest run below zero. Runs for a thread that is there already wait under a stand-in, and change over to it in the last
write. And entries of the index wait beside it, bound to a run alone; behind the last write they enter it in order.

What became of a staging scope stands in its name, and so is seen from the database: `staging` until the last write,
`staged` from then on, and doomed (deletion.py) where the import failed or the process ended.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from functools import partial

from memsvc.errors import Unavailable
from memsvc.model import Scope
from memsvc.store.sqlite import recall
from memsvc.store.sqlite.index_view import GAIN_BITS
from memsvc.store.sqlite.pages import read_postings
from memsvc.store.sqlite.scopes import ensure_scope, find_scope, forget_names

STEP_MS = 10
"""How long one step goes on before it takes nothing more: other writes wait for a step and its last row."""
BATCH_ENTRIES = 32
BATCH_ROWS = 500
BATCH_LARGE_ROWS = 10
"""What one step takes at once: entries of the index, rows, and rows that may be of a mebibyte."""

STAGING, STAGED = "staging", "staged"

Group = tuple[tuple[str, Sequence[object]], ...]
"""Statements that belong together."""

RELABELLED = ("core_log", "notices", "memory_ops", "deleted_usage")
"""What bears the number of the staging scope, and in the last write gets that of the scope it is for."""


def begin(db: sqlite3.Connection, scope: Scope) -> tuple[int, int]:
    """Makes a staging scope; returns the number of the scope that it is for, and its own."""
    doom_left(db)
    scope_no = ensure_scope(db, scope)
    made = db.execute("INSERT INTO scopes (tenant_id, agent_id, user_id) VALUES ('', ?, '')", (STAGING,)).lastrowid
    assert made is not None
    # Whom it is for is asked once it is swept: that scope may have been made for this import alone.
    db.execute("UPDATE scopes SET user_id = ? WHERE scope_no = ?", (f"{made} {scope_no}", made))
    return scope_no, made


def write(db: sqlite3.Connection, scope: Scope, scope_no: int, groups: Sequence[Group]) -> int:
    """Writes groups for about `STEP_MS`; returns how many. Unavailable where the scope was deleted, or has them now."""
    until = time.monotonic() + STEP_MS / 1000
    if find_scope(db, scope) != scope_no:
        raise deleted_meanwhile()
    for number, group in enumerate(groups, 1):
        try:
            for statement, values in group:
                db.execute(statement, values)
        except sqlite3.IntegrityError:
            # The statement is undone, and what is raised here undoes the unit.
            raise Unavailable("something of the file was recorded meanwhile by somebody else") from None
        if time.monotonic() > until:
            return number
    return len(groups)


def deleted_meanwhile() -> Unavailable:
    """What is said where a deletion comes between the steps."""
    return Unavailable("something of this scope was deleted meanwhile, and nothing of the file was imported")


def left(db: sqlite3.Connection) -> bool:
    """Tells whether anything stages, or is still to be taken out; asked while no import is under way."""
    row = db.execute("SELECT 1 FROM scopes WHERE tenant_id = '' AND agent_id = ? LIMIT 1", (STAGING,)).fetchone()
    return row is not None


def waits(db: sqlite3.Connection) -> bool:
    """Tells whether `adopt` has something to do."""
    row = db.execute("SELECT 1 FROM scopes WHERE tenant_id = '' AND agent_id = ? LIMIT 1", (STAGED,)).fetchone()
    return row is not None


def doom_left(db: sqlite3.Connection) -> bool:
    """Gives up what stages, to be swept; returns whether there was any. Called while no import is under way."""
    rows = db.execute(
        "SELECT scope_no FROM scopes WHERE tenant_id = '' AND agent_id = ? "
        "AND scope_no NOT IN (SELECT hidden_no FROM doomed WHERE hidden_no IS NOT NULL)",
        (STAGING,),
    ).fetchall()
    # It gives its tombstones to nobody: doomed by itself.
    db.executemany("INSERT INTO doomed (scope_no, hidden_no) VALUES (?1, ?1)", rows)
    return bool(rows)


def sweep(db: sqlite3.Connection, hidden_no: int) -> bool:
    """Takes a batch of a staging scope out; True when only its row is left. Nothing of it is remembered."""
    for statement, limit in _SWEEPS:
        if db.execute(statement, {"no": hidden_no, "most": limit}).rowcount == limit:
            return False
    thread = db.execute("SELECT thread_no FROM threads WHERE scope_no = ? LIMIT 1", (hidden_no,)).fetchone()
    if thread:
        runs = "DELETE FROM runs WHERE sequence IN (SELECT sequence FROM runs WHERE thread_no = ? LIMIT ?)"
        if db.execute(runs, (*thread, BATCH_LARGE_ROWS)).rowcount < BATCH_LARGE_ROWS:
            db.execute("DELETE FROM checkpoints WHERE thread_no = ?", thread)
            db.execute("DELETE FROM threads WHERE thread_no = ?", thread)
        return False
    for_no = _for_scope(db, hidden_no)
    row = db.execute("SELECT tenant_id, agent_id, user_id FROM scopes WHERE scope_no = ?", (for_no,)).fetchone()
    if row and row[0]:
        # It may have been made for this import; then nothing refers to it.
        forget_names(db, for_no, Scope(*row))
    return True


def adopt(db: sqlite3.Connection) -> bool:
    """Lets waiting entries of the index enter it, for about `STEP_MS`; returns whether more are left.

    What is due is seen from the database, and each call leaves every entry in one place: it can be killed anywhere.
    """
    until = time.monotonic() + STEP_MS / 1000
    while _adopt_some(db):
        if time.monotonic() > until:
            return True
    return False


def _adopt_some(db: sqlite3.Connection) -> bool:
    """Settles the index by a step, or lets a few entries enter it; returns whether there was anything to do."""
    row = db.execute("SELECT scope_no FROM scopes WHERE tenant_id = '' AND agent_id = ?", (STAGED,)).fetchone()
    if row is None:
        return False
    (hidden_no,) = row
    scope_no = _for_scope(db, hidden_no)
    if recall.settle(db, scope_no):
        return True
    waiting = db.execute(
        "SELECT entry_no, sequence, postings FROM recall_entries WHERE scope_no = ? ORDER BY entry_no LIMIT ?",
        (hidden_no, BATCH_ENTRIES),
    ).fetchall()
    for entry_no, sequence, postings in waiting:
        db.execute("DELETE FROM recall_entries WHERE scope_no = ? AND entry_no = ?", (hidden_no, entry_no))
        # Not those of a scope that was deleted since: its runs are being taken out, and its index may be already.
        run = db.execute(
            "SELECT thread_no FROM runs JOIN scopes USING (scope_no) WHERE sequence = ? AND scope_no = ? "
            "AND tenant_id <> ''",
            (sequence, scope_no),
        ).fetchone()
        if run and recall.index_entry(db, scope_no, run[0], sequence, partial(_renumbered, postings, entry_no)):
            break
    if waiting:
        return True
    if sweep(db, hidden_no):
        db.execute("DELETE FROM scopes WHERE scope_no = ?", (hidden_no,))
    return True


def _renumbered(postings: bytes, before: int, entry_no: int) -> list[int]:
    """The postings of an entry under another number; their order stays."""
    moved = (entry_no - before) << GAIN_BITS
    return [posting + moved for posting in read_postings(postings)]


def _for_scope(db: sqlite3.Connection, hidden_no: int) -> int:
    """The number of the scope that a staging scope is for."""
    (name,) = db.execute("SELECT user_id FROM scopes WHERE scope_no = ?", (hidden_no,)).fetchone()
    return int(name.split()[1])


def _sweeps() -> Iterator[tuple[str, int]]:
    """The statements that take a batch of each kind but threads and their runs, and of how many."""
    for table in ("recall_entries", *RELABELLED):
        chosen = f"SELECT rowid FROM {table} WHERE scope_no = :no LIMIT :most"
        limit = BATCH_LARGE_ROWS if table == "recall_entries" else BATCH_ROWS
        yield f"DELETE FROM {table} WHERE rowid IN ({chosen})", limit
    for table, key in (("tombstones", "kind, digest"), ("tombstone_keys", "key_no")):
        chosen = f"SELECT {key} FROM {table} WHERE scope_no = :no LIMIT :most"
        yield f"DELETE FROM {table} WHERE scope_no = :no AND ({key}) IN ({chosen})", BATCH_ROWS


_SWEEPS = tuple(_sweeps())
