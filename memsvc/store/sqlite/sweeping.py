"""Takes out what is hidden (see deletion.py), in steps between which others write.

What stands in `doomed` is due whatever happens meanwhile. A step goes on from what it finds there, and from how far the
one before had come in the index of a scope; without that, after a start, only the index is gone through again. A run
leaves with its entry in the index, once no posting of that is left, and leaves a tombstone behind.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import NamedTuple

from memsvc.model import Scope
from memsvc.store.sqlite import erased, recall, staging, unindexing
from memsvc.store.sqlite.scopes import bury, forget_names
from memsvc.store.sqlite.staging import BATCH_ROWS, STEP_MS
from memsvc.store.sqlite.unindexing import Walk

THREADS_AT_ONCE = 1_000
"""Most hidden threads of a scope that are taken out of its index together."""
ROWS_AT_ONCE = 64
"""Rows that are looked up at once; each is taken out by itself, because it may be of a mebibyte."""


class Swept(NamedTuple):
    """How far a step has come: whether anything is left, and in which walk through an index it is."""

    more: bool
    walk: Walk | None = None


class Grave(NamedTuple):
    """Where tombstones go: the scope by its names and its number."""

    secret: bytes
    scope: Scope
    scope_no: int

    def bury(self, db: sqlite3.Connection, kind: str, name: str) -> None:
        """Leaves a tombstone: a keyed hash of an id, none of its words."""
        bury(db, self.secret, self.scope, self.scope_no, kind, name)


def sweep(db: sqlite3.Connection, secret: bytes, walk: Walk | None) -> Swept:
    """Takes out some of what is doomed, for about `STEP_MS`; `walk` is what the step before returned."""
    until = time.monotonic() + STEP_MS / 1000
    while row := db.execute(
        # The threads of a hidden scope go with it.
        "SELECT doomed.scope_no, tenant_id, agent_id, user_id, hidden_no, threads.scope_no FROM doomed "
        "JOIN scopes ON scopes.scope_no = doomed.scope_no LEFT JOIN threads USING (thread_no) WHERE thread_no IS NULL "
        "OR threads.scope_no NOT IN (SELECT hidden_no FROM doomed WHERE hidden_no > 0) ORDER BY doomed_no LIMIT 1"
    ).fetchone():
        erased.forget(db)
        scope_no, *names, hidden_no, thread_scope_no = row
        grave = Grave(secret, Scope(*names), scope_no)
        if hidden_no is None:
            walk = _sweep_threads(db, grave, thread_scope_no, walk, until)
        elif staging.sweep(db, hidden_no) if hidden_no == scope_no else _sweep_scope(db, grave, hidden_no, until):
            db.execute("DELETE FROM doomed WHERE hidden_no = ?", (hidden_no,))
            db.execute("DELETE FROM scopes WHERE scope_no = ?", (hidden_no,))
            forget_names(db, scope_no, grave.scope)
        if time.monotonic() > until:
            return Swept(True, walk)
    return Swept(False)


def _sweep_threads(db: sqlite3.Connection, grave: Grave, scope_no: int, walk: Walk | None, until: float) -> Walk | None:
    """Goes on with the hidden threads of a scope; returns the walk that is under way."""
    rows = db.execute(
        "SELECT thread_no FROM doomed JOIN threads USING (thread_no) WHERE threads.scope_no = ? ORDER BY doomed_no "
        "LIMIT ?",
        (scope_no, THREADS_AT_ONCE),
    ).fetchall()
    thread_nos = [thread_no for (thread_no,) in rows]
    # What it was begun for may have gone with a scope since.
    if walk is None or walk.scope_no != scope_no or not walk.thread_nos.issubset(thread_nos):
        walk = unindexing.begin(db, scope_no, thread_nos)
    if walk is None:
        _take_out_threads(db, grave, thread_nos, until)
        return None
    while not walk.done:
        walk = unindexing.go_on(db, walk)
        if time.monotonic() > until:
            return walk
    return walk if _take_out_indexed(db, grave, walk, until) else None


def _take_out_indexed(db: sqlite3.Connection, grave: Grave, walk: Walk, until: float) -> bool:
    """Takes out runs whose entries a walk has been through for; returns whether more of them are left."""
    for thread_no in sorted(walk.thread_nos):
        while rows := db.execute(
            "SELECT entry_no, sequence, length(postings) / 8 FROM recall_entries WHERE thread_no = ? "
            "ORDER BY entry_no LIMIT ?",
            (thread_no, ROWS_AT_ONCE),
        ).fetchall():
            taken: list[tuple[int, int]] = []
            for entry_no, sequence, size in rows:
                if not walk.leaves(entry_no) or (taken and time.monotonic() > until):
                    break
                _take_out_run(db, grave, sequence)
                taken.append((entry_no, size))
            unindexing.remove(db, walk.scope_no, taken)
            if len(taken) < len(rows):
                return walk.leaves(rows[len(taken)][0])
            if time.monotonic() > until:
                return True
    return False


def _take_out_threads(db: sqlite3.Connection, grave: Grave, thread_nos: Sequence[int], until: float) -> None:
    """Takes out threads none of whose runs is in the index."""
    for thread_no in thread_nos:
        while runs := db.execute(
            "SELECT sequence FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT ?", (thread_no, ROWS_AT_ONCE)
        ).fetchall():
            for (sequence,) in runs:
                recall.drop_waiting(db, [sequence])
                _take_out_run(db, grave, sequence)
                if time.monotonic() > until:
                    return
        ops = "SELECT op_no FROM memory_ops WHERE thread_no = ? LIMIT ?"
        while _let_go_of_threads(db, ops, thread_no) == BATCH_ROWS:
            if time.monotonic() > until:
                return
        db.execute("DELETE FROM doomed WHERE thread_no = ?", (thread_no,))
        db.execute("DELETE FROM threads WHERE thread_no = ?", (thread_no,))
        if time.monotonic() > until:
            return


def _let_go_of_threads(db: sqlite3.Connection, ops: str, of: int | str) -> int:
    """Has calls of memory's name no thread any more: those of `ops`, at most `BATCH_ROWS`. Returns how many."""
    return db.execute(f"UPDATE memory_ops SET thread_no = NULL WHERE op_no IN ({ops})", (of, BATCH_ROWS)).rowcount


def _take_out_run(db: sqlite3.Connection, grave: Grave, sequence: int) -> None:
    """Deletes a run that has no sources any more; keeps a tombstone of its id, and what it had cost."""
    rows = db.execute(
        "DELETE FROM runs WHERE sequence = ? "
        "RETURNING run_id, created_us, provider, input_tokens, output_tokens, cost_micros",
        (sequence,),
    ).fetchall()
    for run_id, *usage in rows:
        grave.bury(db, "run", run_id)
        db.execute("INSERT INTO deleted_usage VALUES (?, ?, ?, ?, ?, ?)", (grave.scope_no, *usage))


def _take_out_large_rows(db: sqlite3.Connection, grave: Grave, hidden_no: int, until: float) -> bool:
    """Takes out the index and the runs of a hidden scope, a row at a time; returns whether none is left."""
    for table in ("recall_pages", "recall_entries"):
        chosen = f"SELECT rowid FROM {table} WHERE scope_no = ? LIMIT ?"
        while rows := db.execute(chosen, (hidden_no, ROWS_AT_ONCE)).fetchall():
            for row in rows:
                db.execute(f"DELETE FROM {table} WHERE rowid = ?", row)
                if time.monotonic() > until:
                    return False
    chosen = "SELECT sequence, run_id, state FROM runs JOIN threads USING (thread_no) WHERE runs.scope_no = ? LIMIT ?"
    while runs := db.execute(chosen, (hidden_no, ROWS_AT_ONCE)).fetchall():
        for sequence, run_id, state in runs:
            if state >= 0:
                # What an import had not shown yet was never there.
                grave.bury(db, "run", run_id)
            recall.drop_waiting(db, [sequence])
            db.execute("DELETE FROM runs WHERE sequence = ?", (sequence,))
            if time.monotonic() > until:
                return False
    return True


def _sweep_scope(db: sqlite3.Connection, grave: Grave, hidden_no: int, until: float) -> bool:
    """Goes on with a hidden scope; True when only its row is left.

    What refers to rows goes before them; of runs and threads a tombstone stays, and of the scope's names a keyed hash.
    """
    for table in ("fact", "candidate"):
        numbers = f"SELECT {table}_no FROM {table}s WHERE scope_no = ?"
        db.execute(f"DELETE FROM {table}_sources WHERE {table}_no IN ({numbers})", (hidden_no,))
    for table in ("fact_candidates", "facts", "candidates", "recall_scopes", "recall_levels"):
        db.execute(f"DELETE FROM {table} WHERE scope_no = ?", (hidden_no,))
    if not _take_out_large_rows(db, grave, hidden_no, until):
        return False
    for table in ("core_log", "notices", "memory_ops", "deleted_usage"):
        chosen = f"SELECT rowid FROM {table} WHERE scope_no = ? LIMIT ?"
        if db.execute(f"DELETE FROM {table} WHERE rowid IN ({chosen})", (hidden_no, BATCH_ROWS)).rowcount == BATCH_ROWS:
            return False
    if _sweep_hidden_threads(db, grave, hidden_no):
        return False
    older = "FROM tombstones WHERE scope_no = ? LIMIT ?"
    for kind, digest, count in db.execute(f"SELECT kind, digest, count {older}", (hidden_no, BATCH_ROWS)).fetchall():
        db.execute(
            "INSERT INTO tombstones VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (grave.scope_no, kind, digest, count),
        )
        db.execute("DELETE FROM tombstones WHERE scope_no = ? AND kind = ? AND digest = ?", (hidden_no, kind, digest))
    return db.execute(f"SELECT 1 {older}", (hidden_no, 1)).fetchone() is None


def _sweep_hidden_threads(db: sqlite3.Connection, grave: Grave, hidden_no: int) -> bool:
    """Takes a batch of the threads of a hidden scope out, none of which has a run; False where there is none left."""
    threads = db.execute(
        "SELECT thread_no, thread_id, thread_key, state FROM threads WHERE scope_no = ? LIMIT ?",
        (hidden_no, BATCH_ROWS),
    ).fetchall()
    # Those of the scope are gone; an import that was under way may have staged some, of threads that were here.
    staged = "SELECT op_no FROM memory_ops WHERE thread_no IN (SELECT value FROM json_each(?)) LIMIT ?"
    if _let_go_of_threads(db, staged, str([thread_no for thread_no, *_ in threads])) == BATCH_ROWS:
        return True
    for thread_no, thread_id, key, state in threads:
        if state:
            grave.bury(db, "thread", thread_id)
        if key:
            grave.bury(db, "key", key)
        db.execute("DELETE FROM doomed WHERE thread_no = ?", (thread_no,))
        db.execute("DELETE FROM checkpoints WHERE thread_no = ?", (thread_no,))
        db.execute("DELETE FROM threads WHERE thread_no = ?", (thread_no,))
    return bool(threads)
