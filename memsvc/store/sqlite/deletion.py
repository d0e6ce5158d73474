"""Deleted means deleted: what is deleted is hidden in one short transaction, then taken out in batches.

Hiding writes a few rows, however many runs there are, so no other write waits long for it. A hidden thread has lost its
id, its title, its summary and its count; a hidden scope its names, and whoever asks for them finds a new, empty one.
What stands in `doomed` is due whatever happens meanwhile: `sweep` takes it out step by step, and a start goes on with
it. Tombstones are left as the runs go; until then the run itself, hidden, is the sign that it was deleted (scopes.py).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import NamedTuple

from memsvc.errors import RunNotFound
from memsvc.model import RECENT_RUNS, Scope
from memsvc.rules.shown import title
from memsvc.store.sqlite import core, recall, staging
from memsvc.store.sqlite.scopes import bury, ensure_scope, find_recorded, find_scope, forget_names
from memsvc.store.values import DeletedScope

STEP_MS = 20
"""How long one step of sweeping goes on before it takes no further batch: other writes wait for a step and a batch."""
BATCH_RUNS = 2
"""Measured on a busy machine: four of the heaviest, with 1,900 terms each, take 54 ms to leave the index."""
BATCH_LARGE_ROWS = 10
BATCH_ROWS = 500
"""Rows of a scope that go at once: those that may be of a mebibyte, and all others."""


class _Grave(NamedTuple):
    """Where tombstones go: the scope by its names and its number."""

    secret: bytes
    scope: Scope
    scope_no: int

    def bury(self, db: sqlite3.Connection, kind: str, name: str) -> None:
        bury(db, self.secret, self.scope, self.scope_no, kind, name)


def delete_run(db: sqlite3.Connection, secret: bytes, scope: Scope, run_id: str) -> str:
    """See Store.delete_run."""
    row = db.execute(
        "SELECT runs.scope_no, thread_no, sequence, thread_id FROM runs JOIN threads USING (thread_no) "
        "WHERE runs.scope_no = ? AND run_id = ? AND state > 0",
        (find_scope(db, scope), run_id),
    ).fetchone()
    if not row:
        raise RunNotFound
    scope_no, thread_no, sequence, thread_id = row
    _take_out(db, _Grave(secret, scope, scope_no), scope_no, [(sequence, run_id)])
    shorten(db, thread_no, [sequence], 1)
    return str(thread_id)


def delete_thread(db: sqlite3.Connection, secret: bytes, scope: Scope, thread_id: str) -> int:
    """See Store.delete_thread. The thread is hidden and doomed."""
    scope_no, thread_no = find_recorded(db, scope, thread_id)
    return _hide_thread(db, _Grave(secret, scope, scope_no), thread_no)


def delete_scope(db: sqlite3.Connection, secret: bytes, scope: Scope) -> DeletedScope:
    """See Store.delete_scope. The scope is hidden and doomed."""
    hidden_no = find_scope(db, scope)
    runs = "(SELECT coalesce(sum(run_count), 0) FROM threads WHERE scope_no = :no)"
    threads = "(SELECT count(*) FROM threads WHERE scope_no = :no AND run_count > 0)"
    facts = "(SELECT count(*) FROM facts WHERE scope_no = :no)"
    deleted = DeletedScope(*db.execute(f"SELECT {threads}, {runs}, {facts}", {"no": hidden_no}).fetchone())
    if hidden_no:
        # Nobody can call a scope without a tenant; the names lead to a new row from now on.
        nameless = ("", "", str(hidden_no), hidden_no)
        db.execute("UPDATE scopes SET tenant_id = ?, agent_id = ?, user_id = ? WHERE scope_no = ?", nameless)
        scope_no = ensure_scope(db, scope)
        # A hash of words is forgotten with them; hashes of ids stay, so that no retry brings anything back.
        db.execute("DELETE FROM tombstones WHERE scope_no = ? AND kind = 'fact'", (hidden_no,))
        db.execute("UPDATE tombstone_keys SET scope_no = ? WHERE scope_no = ?", (scope_no, hidden_no))
        db.execute("UPDATE doomed SET scope_no = ? WHERE scope_no = ?", (scope_no, hidden_no))
        db.execute("INSERT INTO doomed (scope_no, hidden_no) VALUES (?, ?)", (scope_no, hidden_no))
    return deleted


def aged_threads(db: sqlite3.Connection, scope: Scope, before_us: int) -> list[str]:
    """See Store.aged_threads."""
    rows = db.execute(
        "SELECT thread_id FROM threads AS t WHERE scope_no = ? AND run_count > 0 AND (SELECT created_us FROM runs "
        "WHERE thread_no = t.thread_no ORDER BY sequence LIMIT 1) < ? ORDER BY last_sequence",
        (find_scope(db, scope), before_us),
    )
    return [thread_id for (thread_id,) in rows]


def expire(db: sqlite3.Connection, secret: bytes, scope: Scope, thread_id: str, before_us: int) -> bool:
    """See Store.expire: one batch."""
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT thread_no FROM threads WHERE scope_no = ? AND thread_id = ? AND run_count > 0", (scope_no, thread_id)
    ).fetchone()
    if not row:
        return False
    grave, thread_no = _Grave(secret, scope, scope_no), row[0]
    # From the first on, as long as they are old: where the clock had stepped back, what was recorded before a run
    # vouches for it.
    first = db.execute(
        "SELECT sequence, run_id, created_us FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT ?",
        (thread_no, BATCH_RUNS + 1),
    ).fetchall()
    old = next((at for at, (_, _, created_us) in enumerate(first) if created_us >= before_us), len(first))
    if old == len(first) <= BATCH_RUNS:
        _hide_thread(db, grave, thread_no)
        return False
    taken = [(sequence, run_id) for sequence, run_id, _ in first[: min(old, BATCH_RUNS)]]
    if taken:
        _take_out(db, grave, scope_no, taken)
        shorten(db, thread_no, [sequence for sequence, _ in taken], len(taken))
    return old > BATCH_RUNS


def owes(db: sqlite3.Connection) -> bool:
    """Tells whether anything that was deleted is still to be taken out."""
    return db.execute("SELECT 1 FROM doomed LIMIT 1").fetchone() is not None


def hides(db: sqlite3.Connection, scope: Scope) -> bool:
    """Tells whether anything of a scope is hidden and still to be taken out; its runs have no tombstones yet."""
    row = db.execute("SELECT 1 FROM doomed WHERE scope_no = ? LIMIT 1", (find_scope(db, scope),)).fetchone()
    return row is not None


def sweep(db: sqlite3.Connection, secret: bytes) -> bool:
    """Takes out some of what is doomed, for about `STEP_MS`; returns whether more is left."""
    until = time.monotonic() + STEP_MS / 1000
    while row := db.execute(
        "SELECT doomed_no, scope_no, tenant_id, agent_id, user_id, thread_no, hidden_no FROM doomed "
        "JOIN scopes USING (scope_no) LIMIT 1"
    ).fetchone():
        doomed_no, scope_no, *names, thread_no, hidden_no = row
        grave = _Grave(secret, Scope(*names), scope_no)
        if hidden_no == scope_no:
            done = staging.sweep(db, hidden_no)
        else:
            done = _sweep_thread(db, grave, thread_no) if hidden_no is None else _sweep_scope(db, grave, hidden_no)
        if done:
            db.execute("DELETE FROM doomed WHERE doomed_no = ?", (doomed_no,))
            db.execute("DELETE FROM threads WHERE thread_no = ?", (thread_no,))
            db.execute("DELETE FROM scopes WHERE scope_no = ?", (hidden_no,))
            if hidden_no is not None:
                forget_names(db, scope_no, grave.scope)
        if time.monotonic() > until:
            return owes(db)
    return False


def _hide_thread(db: sqlite3.Connection, grave: _Grave, thread_no: int) -> int:
    """Takes from a thread all that it is found by and all it says of its runs; returns how many those are."""
    thread_id, key, count = db.execute(
        "SELECT thread_id, thread_key, run_count FROM threads WHERE thread_no = ?", (thread_no,)
    ).fetchone()
    grave.bury(db, "thread", thread_id)
    if key:
        grave.bury(db, "key", key)
    core.drop_sources(db, "SELECT sequence FROM runs WHERE thread_no = ?", thread_no)
    db.execute("DELETE FROM checkpoints WHERE thread_no = ?", (thread_no,))
    db.execute(
        "UPDATE threads SET thread_id = 'hidden ' || thread_no, thread_key = '', title = '', state = 0, run_count = 0, "
        "last_sequence = 0, revision = revision + 1, summary = '', summary_providers = '[]', folded_upto = 0, "
        "folded_count = 0, draft = '', draft_offset = 0, extracted_upto = 0 WHERE thread_no = ?",
        (thread_no,),
    )
    db.execute("INSERT INTO doomed (scope_no, thread_no) VALUES (?, ?)", (grave.scope_no, thread_no))
    return int(count)


def _sweep_thread(db: sqlite3.Connection, grave: _Grave, thread_no: int) -> bool:
    """Takes a batch of a hidden thread out; True when only its row is left."""
    (scope_no,) = db.execute("SELECT scope_no FROM threads WHERE thread_no = ?", (thread_no,)).fetchone()
    runs = db.execute(
        "SELECT sequence, run_id FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT ?", (thread_no, BATCH_RUNS)
    ).fetchall()
    _take_out(db, grave, scope_no, runs)
    kept = db.execute(
        "UPDATE memory_ops SET thread_no = NULL WHERE op_no IN "
        "(SELECT op_no FROM memory_ops WHERE thread_no = ? LIMIT ?)",
        (thread_no, BATCH_ROWS),
    ).rowcount
    return len(runs) < BATCH_RUNS and kept < BATCH_ROWS


def _sweep_scope(db: sqlite3.Connection, grave: _Grave, hidden_no: int) -> bool:
    """Takes a batch of a hidden scope out; True when only its row is left.

    What refers to rows goes before them; of runs and threads a tombstone stays, and of the scope's names a keyed hash.
    """
    for table in ("fact", "candidate"):
        numbers = f"SELECT {table}_no FROM {table}s WHERE scope_no = ?"
        db.execute(f"DELETE FROM {table}_sources WHERE {table}_no IN ({numbers})", (hidden_no,))
    for table in ("fact_candidates", "facts", "candidates", "recall_scopes", "recall_levels"):
        db.execute(f"DELETE FROM {table} WHERE scope_no = ?", (hidden_no,))
    for table in ("recall_pages", "recall_entries", "core_log", "notices", "memory_ops", "deleted_usage"):
        chosen = f"SELECT rowid FROM {table} WHERE scope_no = ? LIMIT ?"
        limit = BATCH_LARGE_ROWS if table.startswith("recall_") else BATCH_ROWS
        if db.execute(f"DELETE FROM {table} WHERE rowid IN ({chosen})", (hidden_no, limit)).rowcount == limit:
            return False
    runs = db.execute(
        "SELECT sequence, run_id, state FROM runs JOIN threads USING (thread_no) WHERE runs.scope_no = ? LIMIT ?",
        (hidden_no, BATCH_LARGE_ROWS),
    ).fetchall()
    for sequence, run_id, state in runs:
        if state >= 0:
            # What an import had not shown yet was never there.
            grave.bury(db, "run", run_id)
        recall.drop_waiting(db, [sequence])
        db.execute("DELETE FROM runs WHERE sequence = ?", (sequence,))
    if runs:
        return False
    threads = db.execute(
        "SELECT thread_no, thread_id, thread_key, state FROM threads WHERE scope_no = ? LIMIT ?",
        (hidden_no, BATCH_ROWS),
    ).fetchall()
    for thread_no, thread_id, key, state in threads:
        if state:
            grave.bury(db, "thread", thread_id)
        if key:
            grave.bury(db, "key", key)
        db.execute("DELETE FROM doomed WHERE thread_no = ?", (thread_no,))
        db.execute("DELETE FROM checkpoints WHERE thread_no = ?", (thread_no,))
        db.execute("DELETE FROM threads WHERE thread_no = ?", (thread_no,))
    if threads:
        return False
    older = "FROM tombstones WHERE scope_no = ? LIMIT ?"
    for kind, digest, count in db.execute(f"SELECT kind, digest, count {older}", (hidden_no, BATCH_ROWS)).fetchall():
        db.execute(
            "INSERT INTO tombstones VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (grave.scope_no, kind, digest, count),
        )
        db.execute("DELETE FROM tombstones WHERE scope_no = ? AND kind = ? AND digest = ?", (hidden_no, kind, digest))
    return db.execute(f"SELECT 1 {older}", (hidden_no, 1)).fetchone() is None


def _take_out(db: sqlite3.Connection, grave: _Grave, scope_no: int, runs: Sequence[tuple[int, str]]) -> None:
    """Deletes runs of a scope, given by sequence and id, with their sources and index entries; keeps the costs."""
    if not runs:
        return
    chosen = str([sequence for sequence, _ in runs])
    for _, run_id in runs:
        grave.bury(db, "run", run_id)
    core.drop_sources(db, "SELECT value FROM json_each(?)", chosen)
    recall.unindex_runs(db, scope_no, [sequence for sequence, _ in runs])
    recall.drop_waiting(db, [sequence for sequence, _ in runs])
    which = "WHERE sequence IN (SELECT value FROM json_each(?))"
    db.execute(
        "INSERT INTO deleted_usage SELECT scope_no, created_us, provider, input_tokens, output_tokens, cost_micros "
        f"FROM runs {which}",
        (chosen,),
    )
    db.execute(f"DELETE FROM runs {which}", (chosen,))


def shorten(db: sqlite3.Connection, thread_no: int, changed: Sequence[int], lost: int) -> None:
    """Takes a thread's summary back to before the first run that was deleted (or came back), and out of the window.

    `lost` is how many runs fewer the thread has.

    When a run of the window goes, an older one moves into it; shown word for word, it must not be in the summary too.
    """
    (folded_upto,) = db.execute("SELECT folded_upto FROM threads WHERE thread_no = ?", (thread_no,)).fetchone()
    window = db.execute(
        "SELECT sequence FROM runs WHERE thread_no = ? ORDER BY sequence DESC LIMIT ?",
        (thread_no, RECENT_RUNS),
    ).fetchall()
    bounds = [sequence for (sequence,) in window] + [sequence for sequence in changed if sequence <= folded_upto]
    # The draft may hold words of a deleted run; whatever it holds is made again.
    db.execute(
        "UPDATE threads SET run_count = run_count - ?, revision = revision + 1, draft = '', draft_offset = 0 "
        "WHERE thread_no = ?",
        (lost, thread_no),
    )
    if not bounds or folded_upto >= min(bounds):
        db.execute(
            "DELETE FROM checkpoints WHERE thread_no = ? AND folded_upto >= ?", (thread_no, min(bounds, default=0))
        )
        kept = db.execute(
            "SELECT summary, summary_providers, folded_upto, folded_count FROM checkpoints "
            "WHERE thread_no = ? ORDER BY folded_upto DESC LIMIT 1",
            (thread_no,),
        ).fetchone()
        db.execute(
            "UPDATE threads SET summary = ?, summary_providers = ?, folded_upto = ?, folded_count = ? "
            "WHERE thread_no = ?",
            (*(kept or ("", "[]", 0, 0)), thread_no),
        )
    _redraw(db, thread_no)


def _redraw(db: sqlite3.Connection, thread_no: int) -> None:
    """Draws the title and the place in lists anew, from the runs that are left."""
    # Cut here and not by SQLite, whose substr() ends at a NUL.
    first = db.execute(
        "SELECT input, own_offset FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT 1", (thread_no,)
    ).fetchone()
    db.execute(
        """
        UPDATE threads SET title = CASE WHEN title_named THEN title ELSE :title END,
            last_sequence = coalesce((SELECT max(sequence) FROM runs WHERE thread_no = :thread_no), 0),
            updated_us = coalesce((SELECT created_us FROM runs WHERE thread_no = :thread_no
                                   ORDER BY sequence DESC LIMIT 1), updated_us)
        WHERE thread_no = :thread_no
        """,
        {"title": title(first[0][first[1] :]) if first else "", "thread_no": thread_no},
    )
