"""The request path: what a context block reads, and how a run is recorded. One snapshot, one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from memsvc.errors import Deleted, RunConflict, Unavailable
from memsvc.model import RECENT_RUNS, RunOutcome, Scope, ThreadState
from memsvc.rules.context import Hit, Memory, PastRun
from memsvc.rules.shown import Renderer
from memsvc.store import ContextRead, PreparedRun, Question, Recorded, ThreadRef
from memsvc.store.sqlite import core, recall
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.scopes import Found, ensure_scope, find_scope, find_thread, run_is_gone

MAX_WAITING = 160
"""Unfolded runs that a block looks at; more than that many lines do not fit into the thread section."""

_USUAL_LISTED = 4  # of the runs listed, how many recall makes room for at first
_MOST_ALIKE = 60  # others that say the same, for how many it makes room at last

# Long texts stay on disk: where the run is not shown as it is, `shown` holds what is.
_PAST_RUNS = """
    SELECT sequence, run_id, outcome, ended_us, renderer, shown, own_offset,
           CASE WHEN whole & 1 OR renderer <> :renderer THEN input ELSE '' END,
           CASE WHEN whole & 2 OR renderer <> :renderer THEN output ELSE '' END
    FROM runs WHERE sequence IN (SELECT value FROM json_each(:sequences))
"""


def read_context(
    db: sqlite3.Connection,
    secret: bytes,
    renderer: Renderer,
    cache: Cache,
    scope: Scope,
    ref: ThreadRef,
    question: Question,
) -> ContextRead:
    """Reads all that a context block needs; see Store.read_context."""
    scope_no = find_scope(db, scope)
    found = find_thread(db, secret, scope, scope_no, ref) if any(ref) else Found("")
    if not scope_no:
        return ContextRead(found.thread_id, True, "", Memory())
    locale, summary, runs, waiting = "", "", [], 0
    if found.thread_no:
        row = db.execute(
            "SELECT locale, summary, folded_upto, run_count - folded_count FROM threads WHERE thread_no = ?",
            (found.thread_no,),
        ).fetchone()
        locale, summary, folded_upto, waiting = row
        rows = db.execute(
            "SELECT sequence FROM runs WHERE thread_no = ? AND sequence > ? ORDER BY sequence DESC LIMIT ?",
            (found.thread_no, folded_upto, RECENT_RUNS + MAX_WAITING),
        ).fetchall()
        runs = _past_runs(db, cache, renderer, [sequence for (sequence,) in rows])
    hits = _hits(db, cache, scope_no, question, renderer, runs)
    facts = core.facts_of(db, scope_no)
    memory = Memory(summary=summary, runs=runs, waiting_count=waiting, facts=facts, hits=hits)
    return ContextRead(found.thread_id, not runs and not summary, locale, memory)


def record_run(
    db: sqlite3.Connection,
    secret: bytes,
    scope: Scope,
    ref: ThreadRef,
    prepared: PreparedRun,
    now_us: int,
) -> tuple[Recorded, int]:
    """Records a run; see Store.record_run. Also returns the number of the scope where its index is to be settled."""
    run = prepared.run
    scope_no = ensure_scope(db, scope)
    if again := _recorded_before(db, secret, scope, scope_no, ref, prepared):
        return again, 0
    if run_is_gone(db, secret, scope, scope_no, run.run_id):
        raise Deleted("run")
    opened = ref if any(ref) else ThreadRef(prepared.fresh_thread_id)
    found = find_thread(db, secret, scope, scope_no, opened)
    thread_no = found.thread_no or _open_thread(db, scope_no, found.thread_id, prepared, now_us)
    served_by = run.provider or _last_provider(db, thread_no)
    usage = run.usage
    sequence = db.execute(
        """
        INSERT INTO runs (scope_no, thread_no, run_id, outcome, served_by, provider, model, input_tokens,
                          output_tokens, cost_micros, context_token_count, labels, created_us, ended_us,
                          own_offset, renderer, whole, shown, input, output)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            *(scope_no, thread_no, run.run_id, run.outcome, served_by, run.provider, run.model),
            *(usage.input_tokens, usage.output_tokens, usage.cost_micros, run.context_token_count),
            json.dumps(run.labels, ensure_ascii=False, sort_keys=True),
            *(now_us, now_us if run.ended_us is None else run.ended_us, prepared.own_offset),
            *(prepared.renderer, prepared.whole, prepared.shown, run.input, run.output),
        ),
    ).lastrowid
    assert sequence is not None
    due = db.execute(
        """
        UPDATE threads SET run_count = run_count + 1, last_sequence = ?, updated_us = ?, state = ?,
               thread_key = CASE WHEN thread_key = '' THEN ? ELSE thread_key END,
               title = CASE WHEN run_count = 0 AND NOT title_named THEN ? ELSE title END,
               locale = CASE WHEN run_count = 0 THEN ? ELSE locale END
        WHERE thread_no = ? RETURNING run_count - folded_count > ?
        """,
        (
            *(sequence, now_us, ThreadState.ACTIVE, ref.thread_key, prepared.title, prepared.locale),
            *(thread_no, RECENT_RUNS),
        ),
    ).fetchone()[0]
    recorded = Recorded(run.run_id, found.thread_id, True, sequence, bool(due))
    if prepared.terms is not None and recall.index_run(db, scope_no, thread_no, sequence, prepared.terms):
        return recorded, scope_no
    return recorded, 0


def _recorded_before(
    db: sqlite3.Connection,
    secret: bytes,
    scope: Scope,
    scope_no: int,
    ref: ThreadRef,
    prepared: PreparedRun,
) -> Recorded | None:
    run = prepared.run
    row = db.execute(
        "SELECT sequence, input, output, outcome, thread_id, state FROM runs JOIN threads USING (thread_no) "
        "WHERE runs.scope_no = ? AND run_id = ?",
        (scope_no, run.run_id),
    ).fetchone()
    if not row:
        return None
    sequence, given, output, outcome, thread_id, state = row
    if state < 0:
        raise Unavailable("a run of that id is being imported")
    if not state:
        raise Deleted("run")
    named = find_thread(db, secret, scope, scope_no, ref).thread_id if any(ref) else thread_id
    if (given, output, outcome, thread_id) != (run.input, run.output, run.outcome, named):
        raise RunConflict
    return Recorded(run.run_id, thread_id, False, sequence, False)


def _open_thread(db: sqlite3.Connection, scope_no: int, thread_id: str, prepared: PreparedRun, now_us: int) -> int:
    made = db.execute(
        "INSERT INTO threads (scope_no, thread_id, title, locale, created_us, updated_us) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (thread_id) DO NOTHING RETURNING thread_no",
        (scope_no, thread_id, prepared.title, prepared.locale, now_us, now_us),
    ).fetchone()
    if not made:
        # It was looked for in vain before: what has it is staged (see staging.py).
        raise Unavailable("the thread is being imported")
    return int(made[0])


def _last_provider(db: sqlite3.Connection, thread_no: int) -> str:
    row = db.execute(
        "SELECT served_by FROM runs WHERE thread_no = ? ORDER BY sequence DESC LIMIT 1", (thread_no,)
    ).fetchone()
    return row[0] if row else ""


def _hits(
    db: sqlite3.Connection,
    cache: Cache,
    scope_no: int,
    question: Question,
    renderer: Renderer,
    listed: list[PastRun],
) -> list[Hit]:
    """Returns recalled runs, best first: enough that `recall_top_k` are left when those listed have been shown.

    Of those that say the same the best alone, but all that are listed: what is may find no room there.
    """
    if not question.terms:
        return []
    known = {run.sequence: run for run in listed}
    top_k = question.recall_top_k
    told: list[Hit] = []
    # Seldom more than a few of those listed bear on the question, or more than a few others say the same; where they
    # crowd the rest out, more are asked for.
    for room in sorted({min(len(listed), _USUAL_LISTED), len(listed), len(listed) + _MOST_ALIKE}):
        found = recall.search(db, cache, scope_no, question.terms, top_k + room)
        bearing = [hit for hit in found if hit.score > question.recall_threshold]
        told, fresh = _distinct(db, cache, renderer, bearing, known, top_k)
        if len(bearing) < top_k + room or fresh == top_k:
            break
    return told


def _distinct(
    db: sqlite3.Connection,
    cache: Cache,
    renderer: Renderer,
    bearing: list[recall.Hit],
    listed: Mapping[int, PastRun],
    top_k: int,
) -> tuple[list[Hit], int]:
    """Returns those listed, and of the others at most `top_k` that say something new; with how many these are."""
    others = [hit.sequence for hit in bearing if hit.sequence not in listed]
    said = {listed[hit.sequence].shown.gist for hit in bearing if hit.sequence in listed}
    read: dict[int, PastRun] = {}
    told: list[Hit] = []
    fresh = 0
    for sequence, score in bearing:
        if fresh == top_k:
            break
        if sequence in listed:
            told.append(Hit(listed[sequence], score))
            continue
        if sequence not in read:
            more = _past_runs(db, cache, renderer, others[len(read) : len(read) + top_k])
            read.update((run.sequence, run) for run in more)
        if read[sequence].shown.gist not in said:
            said.add(read[sequence].shown.gist)
            told.append(Hit(read[sequence], score))
            fresh += 1
    return told, fresh


def _past_runs(db: sqlite3.Connection, cache: Cache, renderer: Renderer, sequences: list[int]) -> list[PastRun]:
    """Returns recorded runs, in the order given. A run never changes, so what was read of one is kept."""
    if not sequences:
        return []
    # But a number may come to mean another: an import puts runs where deleted ones stood (see showing.py).
    placed = db.execute("SELECT value FROM meta WHERE name = 'placed'").fetchone()
    runs = {sequence: cache.get(("run", placed, sequence)) for sequence in sequences}
    if missing := [sequence for sequence, run in runs.items() if run is None]:
        rows = db.execute(_PAST_RUNS, {"renderer": renderer.renderer_id, "sequences": str(missing)})
        for row in rows.fetchall():
            run = _past_run(row, renderer)
            lines = (run.shown.input, run.shown.output, run.shown.gist_input, run.shown.gist_output)
            size_bytes = sum(4 * (len(line.text.before) + len(line.text.after)) for line in lines)
            cache.put(("run", placed, run.sequence), run, size_bytes)
            runs[run.sequence] = run
    return [run for sequence in sequences if (run := runs[sequence]) is not None]


def _past_run(row: tuple[int, str, int, int, int, str, int, str, str], renderer: Renderer) -> PastRun:
    sequence, run_id, number, ended_us, made_by, kept, own_offset, given, output = row
    outcome = RunOutcome(number)
    shown = renderer.restore(made_by, kept, given[own_offset:], output, outcome)
    return PastRun(sequence, run_id, outcome, ended_us, shown)
