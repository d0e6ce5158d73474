"""The last write of an import: what was staged becomes visible, all of it, and short.

What is new is shown by a number in the row of its thread, whatever runs the thread has. Dearer, each by itself, is what
goes between things that are here: a run for a thread that was here changes over to it, and a tombstone is lifted for
each thing that had been deleted. docs/export.md says what each of these took.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from memsvc.model import RECENT_RUNS, Scope
from memsvc.rules.exportfile import MAX_KEYS
from memsvc.store.sqlite.deletion import shorten
from memsvc.store.sqlite.importing import Plan, standin
from memsvc.store.sqlite.importing_core import CoreImport
from memsvc.store.sqlite.scopes import find_scope, tombstone_keys
from memsvc.store.sqlite.staging import RELABELLED, STAGED, deleted_meanwhile
from memsvc.store.values import Brought


def show(
    db: sqlite3.Connection,
    secret: bytes,
    scope: Scope,
    plan: Plan,
    runs_of: Mapping[str, Sequence[str]],
    by: str,
    now_us: int,
) -> Brought:
    """Shows what was staged. Unavailable where the scope, or a thread that was to get something, was deleted since."""
    if find_scope(db, scope) != plan.scope_no:
        raise deleted_meanwhile()
    _bury(db, plan)
    if plan.placed:
        # What readers keep of runs bears this (see runs.py): the number of a deleted run is another's from now on.
        db.execute("INSERT INTO meta VALUES ('placed', randomblob(8)) ON CONFLICT DO UPDATE SET value = excluded.value")
    for thread_id, thread_no in plan.standins.items():
        _change_over(db, plan, thread_id, thread_no, runs_of[thread_id])
    db.execute(
        "UPDATE threads SET scope_no = ?, state = -state, run_count = -run_count, last_sequence = -last_sequence "
        "WHERE scope_no = ?",
        (plan.scope_no, plan.hidden_no),
    )
    db.executemany(
        # A key leads to one thread; where another has it by now, that one keeps it.
        "UPDATE threads SET thread_key = :key WHERE thread_id = :id AND NOT EXISTS (SELECT 1 FROM threads "
        "WHERE scope_no = :no AND thread_key = :key AND thread_key <> '')",
        [{"key": key, "id": thread_id, "no": plan.scope_no} for thread_id, key in plan.keys.items()],
    )
    for table in RELABELLED:
        # A notice may have been raised here meanwhile; that one stays, and the other is taken out with the rest.
        db.execute(f"UPDATE OR IGNORE {table} SET scope_no = ? WHERE scope_no = ?", (plan.scope_no, plan.hidden_no))
    db.executemany(
        "UPDATE memory_ops SET thread_no = (SELECT thread_no FROM threads WHERE thread_id = ?) WHERE op_no = ?",
        plan.reopened,
    )
    core = CoreImport(db, secret, scope, plan.scope_no)
    for line in plan.core:
        core.take(line)
    core.settle(by, now_us)
    db.execute("UPDATE scopes SET agent_id = ? WHERE scope_no = ?", (STAGED, plan.hidden_no))
    return Brought(plan.threads, plan.runs, core.facts, core.candidates, core.no_room)


def _bury(db: sqlite3.Connection, plan: Plan) -> None:
    """Brings tombstones and their keys in, then lifts those of what comes back, with what it had cost."""
    known = tombstone_keys(db, plan.scope_no)
    new = [key for key in tombstone_keys(db, plan.hidden_no) if key not in known][: MAX_KEYS - len(known)]
    db.executemany(
        "INSERT INTO tombstone_keys VALUES (?, ?, ?)",
        [(plan.scope_no, key_no, key) for key_no, key in enumerate(new, len(known) + 1)],
    )
    db.execute(
        "INSERT INTO tombstones SELECT ?, kind, digest, count FROM tombstones WHERE scope_no = ? "
        "ON CONFLICT DO UPDATE SET count = max(count, excluded.count)",
        (plan.scope_no, plan.hidden_no),
    )
    db.executemany(
        "DELETE FROM tombstones WHERE scope_no = ? AND kind = ? AND digest = ?",
        [(plan.scope_no, *lifted) for lifted in plan.lifted],
    )
    db.executemany(
        "DELETE FROM deleted_usage WHERE rowid = ? AND scope_no = ?", [(row, plan.scope_no) for row in plan.usage]
    )


def _change_over(db: sqlite3.Connection, plan: Plan, thread_id: str, thread_no: int, run_ids: Sequence[str]) -> None:
    """Gives a thread that was here what its stand-in has: runs into their places, then better summaries."""
    there = db.execute(
        "SELECT 1 FROM threads WHERE thread_no = ? AND scope_no = ? AND state > 0", (thread_no, plan.scope_no)
    ).fetchone()
    if not there:
        raise deleted_meanwhile()
    (standin_no,) = db.execute("SELECT thread_no FROM threads WHERE thread_id = ?", (standin(thread_id),)).fetchone()
    added = db.execute("SELECT sequence FROM runs WHERE thread_no = ?", (standin_no,)).fetchall()
    if added:
        db.execute("UPDATE runs SET thread_no = ? WHERE thread_no = ?", (thread_no, standin_no))
        # As after a deletion: the summary goes back to before the first run that it does not tell of.
        shorten(db, thread_no, [sequence for (sequence,) in added], -len(added))
    summaries = db.execute(
        "SELECT folded_count, summary, summary_providers FROM checkpoints WHERE thread_no = ? ORDER BY folded_count",
        (standin_no,),
    ).fetchall()
    for summary in summaries:
        _summarize(db, thread_no, run_ids, *summary)
    db.execute("DELETE FROM checkpoints WHERE thread_no = ?", (standin_no,))
    db.execute("DELETE FROM threads WHERE thread_no = ?", (standin_no,))


def _summarize(
    db: sqlite3.Connection, thread_no: int, run_ids: Sequence[str], count: int, summary: str, providers: str
) -> None:
    """Takes a summary over where the thread has exactly the runs it covers, no better one, and a window besides."""
    folded_count, run_count = db.execute(
        "SELECT folded_count, run_count FROM threads WHERE thread_no = ?", (thread_no,)
    ).fetchone()
    if not folded_count < count <= run_count - RECENT_RUNS:
        return
    covered = db.execute(
        "SELECT run_id, sequence FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT ?", (thread_no, count)
    ).fetchall()
    if [run_id for run_id, _ in covered] != list(run_ids[:count]):
        return
    told = (covered[-1][1], count, summary, providers)
    db.execute(
        "UPDATE threads SET folded_upto = ?, folded_count = ?, summary = ?, summary_providers = ?, "
        "revision = revision + 1, draft = '', draft_offset = 0 WHERE thread_no = ?",
        (*told, thread_no),
    )
    db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?)", (thread_no, *told))
