"""Folding as the store sees it: what is due, and the one write that moves summary, cursor and cost together."""

from __future__ import annotations

import json
import sqlite3

from memsvc.model import RECENT_RUNS, RunOutcome, Scope
from memsvc.rules.folding import keep_checkpoints
from memsvc.store import DueRun, Fold, FoldState, NewNotice, NewOp
from memsvc.store.sqlite.ops import insert_notice, insert_op
from memsvc.store.sqlite.scopes import find_scope

LATEST_THREADS = 200
"""How many of the latest threads tell which providers a scope's work goes to."""

MAX_RUNS = 64
MAX_CHARACTERS = 400_000
"""What one reading brings at most, beyond its first run: more than any model call takes."""


# Not of a scope that was deleted and is still being taken out: no model is shown its words any more.
_DUE = f"threads JOIN scopes USING (scope_no) WHERE run_count - folded_count > {RECENT_RUNS} AND tenant_id <> ''"


def due_threads(db: sqlite3.Connection) -> list[tuple[Scope, str]]:
    """See Store.due_threads. Those that have waited longest come first."""
    rows = db.execute(f"SELECT tenant_id, agent_id, user_id, thread_id FROM {_DUE} ORDER BY last_sequence")
    return [(Scope(*row[:3]), row[3]) for row in rows]


def debts(db: sqlite3.Connection, scope: Scope | None) -> tuple[int, set[str]]:
    """See Store.debts."""
    where, values = ("", ()) if scope is None else ("AND scope_no = ?", (find_scope(db, scope),))
    (count,) = db.execute(
        f"SELECT coalesce(sum(run_count - folded_count - {RECENT_RUNS}), 0) FROM {_DUE} {where}",
        values,
    ).fetchone()
    if scope is None:
        return int(count), set()
    latest = f"SELECT last_sequence FROM threads WHERE 1 {where} ORDER BY last_sequence DESC LIMIT {LATEST_THREADS}"
    names = db.execute(f"SELECT DISTINCT served_by FROM runs WHERE sequence IN ({latest})", values)
    return int(count), {name for (name,) in names}


def backlog(db: sqlite3.Connection) -> tuple[int, int]:
    """See Store.backlog."""
    # As in fold_state: a run is due since the run K places after it was recorded.
    runs, since_us = db.execute(
        f"SELECT coalesce(sum(run_count - folded_count - {RECENT_RUNS}), 0), min((SELECT created_us FROM runs "
        "WHERE runs.thread_no = threads.thread_no AND sequence > folded_upto ORDER BY sequence "
        f"LIMIT 1 OFFSET {RECENT_RUNS})) FROM {_DUE}"
    ).fetchone()
    return int(runs), int(since_us or 0)


def fold_state(db: sqlite3.Connection, scope: Scope, thread_id: str) -> FoldState | None:
    """See Store.fold_state."""
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT thread_no, revision, summary, summary_providers, folded_upto, folded_count, draft, draft_offset, "
        "run_count FROM threads WHERE thread_id = ? AND scope_no = ?",
        (thread_id, scope_no),
    ).fetchone()
    if not row:
        return None
    thread_no, revision, summary, providers, folded_upto, folded_count, draft, draft_offset, run_count = row
    due = run_count - folded_count - RECENT_RUNS
    if due <= 0:
        return None
    runs: list[DueRun] = []
    size = 0
    for sequence, served_by, outcome, own_offset, given, output in db.execute(
        "SELECT sequence, served_by, outcome, own_offset, input, output FROM runs "
        "WHERE thread_no = ? AND sequence > ? ORDER BY sequence LIMIT ?",
        (thread_no, folded_upto, min(due, MAX_RUNS)),
    ):
        size += len(given) + len(output)
        if runs and size > MAX_CHARACTERS:
            break
        runs.append(DueRun(sequence, served_by, RunOutcome(outcome), given[own_offset:], output))
    # The first due run left the recent window when the run K places after it was recorded.
    (due_since_us,) = db.execute(
        "SELECT created_us FROM runs WHERE thread_no = ? AND sequence > ? ORDER BY sequence LIMIT 1 OFFSET ?",
        (thread_no, folded_upto, RECENT_RUNS),
    ).fetchone()
    window = db.execute(
        "SELECT served_by, own_offset, input FROM runs WHERE thread_no = ? ORDER BY sequence DESC LIMIT ?",
        (thread_no, RECENT_RUNS),
    ).fetchall()
    return FoldState(
        scope_no=scope_no,
        revision=revision,
        summary=summary,
        summary_providers=frozenset(json.loads(providers)),
        folded_count=folded_count,
        draft=draft,
        draft_offset=draft_offset,
        latest_provider=window[0][0],
        due_since_us=due_since_us,
        runs=runs,
        window=[given[own_offset:] for _, own_offset, given in window],
    )


def commit_fold(
    db: sqlite3.Connection,
    scope: Scope,
    scope_no: int,
    thread_id: str,
    revision: int,
    fold: Fold,
    op: NewOp,
    notice: NewNotice | None,
    now_us: int,
) -> bool:
    """See Store.commit_fold."""
    if find_scope(db, scope) != scope_no:
        return False
    row = db.execute(
        "SELECT thread_no, revision FROM threads WHERE thread_id = ? AND scope_no = ?", (thread_id, scope_no)
    ).fetchone()
    thread_no = row[0] if row else None
    insert_op(db, scope_no, thread_no, op, now_us)
    insert_notice(db, scope_no, notice, now_us)
    if thread_no is None or row[1] != revision:
        return False
    if fold.draft_offset:
        db.execute(
            "UPDATE threads SET revision = revision + 1, draft = ?, draft_offset = ? WHERE thread_no = ?",
            (fold.summary, fold.draft_offset, thread_no),
        )
        return True
    providers = json.dumps(sorted(fold.providers), ensure_ascii=False)
    db.execute(
        "UPDATE threads SET revision = revision + 1, summary = ?, summary_providers = ?, folded_upto = ?, "
        "folded_count = ?, draft = '', draft_offset = 0 WHERE thread_no = ?",
        (fold.summary, providers, fold.folded_upto, fold.folded_count, thread_no),
    )
    db.execute(
        "INSERT INTO checkpoints (thread_no, folded_upto, folded_count, summary, summary_providers) "
        "VALUES (?, ?, ?, ?, ?)",
        (thread_no, fold.folded_upto, fold.folded_count, fold.summary, providers),
    )
    _thin(db, thread_no)
    return True


def _thin(db: sqlite3.Connection, thread_no: int) -> None:
    kept = [
        count
        for (count,) in db.execute(
            "SELECT folded_count FROM checkpoints WHERE thread_no = ? ORDER BY folded_count", (thread_no,)
        )
    ]
    gone = set(kept) - set(keep_checkpoints(kept))
    db.executemany(
        "DELETE FROM checkpoints WHERE thread_no = ? AND folded_count = ?",
        [(thread_no, count) for count in sorted(gone)],
    )
