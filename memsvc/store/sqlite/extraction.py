"""Extraction as the store sees it: what was not looked at yet, and the write that moves cursor, candidates and cost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from memsvc.model import RunOutcome, Scope
from memsvc.rules.facts import MAX_CANDIDATES, key
from memsvc.store.core import ExtractState, Imported, ImportedFact, KnownFact, NewCandidate, NewFact
from memsvc.store.sqlite.core import (
    MILLION,
    add_sources,
    become,
    drop_candidates,
    equal_candidates,
    insert_fact,
    json_names,
    room,
)
from memsvc.store.sqlite.ops import insert_notice, insert_op
from memsvc.store.sqlite.scopes import buried, ensure_scope, find_scope, lift
from memsvc.store.sqlite.trail import note
from memsvc.store.values import DueRun, NewNotice, NewOp

MAX_RUNS = 32
MAX_CHARACTERS = 200_000
"""What one reading brings at most, beyond its first run: more than any model call takes."""


def unread_threads(db: sqlite3.Connection) -> list[tuple[Scope, str]]:
    """See Store.unread_threads. Those that have waited longest come first."""
    rows = db.execute(
        "SELECT tenant_id, agent_id, user_id, thread_id FROM threads JOIN scopes USING (scope_no) "
        # As in folding.py: not of a scope that was deleted.
        "WHERE last_sequence > extracted_upto AND tenant_id <> '' ORDER BY last_sequence"
    )
    return [(Scope(*row[:3]), row[3]) for row in rows]


def extract_state(db: sqlite3.Connection, scope: Scope, thread_id: str) -> ExtractState | None:
    """See Store.extract_state."""
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT thread_no, revision, extracted_upto, last_sequence FROM threads WHERE thread_id = ? AND scope_no = ?",
        (thread_id, scope_no),
    ).fetchone()
    if not row or row[2] >= row[3]:
        return None
    thread_no, revision, upto, last_sequence = row
    runs, cursors = _next_runs(db, thread_no, upto, last_sequence)
    (latest,) = db.execute(
        "SELECT served_by FROM runs WHERE thread_no = ? ORDER BY sequence DESC LIMIT 1", (thread_no,)
    ).fetchone()
    known = db.execute("SELECT fact_id, text, served_by FROM facts WHERE scope_no = ? ORDER BY fact_no", (scope_no,))
    return ExtractState(
        scope_no=scope_no,
        revision=revision,
        extracted_upto=upto,
        latest_provider=latest,
        runs=runs,
        cursors=cursors,
        end=last_sequence,
        known=[KnownFact(fact_id, text, frozenset(json.loads(names))) for fact_id, text, names in known],
    )


def _next_runs(db: sqlite3.Connection, thread_no: int, upto: int, last_sequence: int) -> tuple[list[DueRun], list[int]]:
    """Returns completed runs behind the cursor for as long as one provider served them, and a cursor for each.

    A cursor stands before the next completed run, so that what failed or was stopped in between is never looked at.
    """
    runs: list[DueRun] = []
    cursors: list[int] = []
    size = 0
    for sequence, served_by, own_offset, given, output in db.execute(
        "SELECT sequence, served_by, own_offset, input, output FROM runs "
        "WHERE thread_no = ? AND sequence > ? AND outcome = ? ORDER BY sequence LIMIT ?",
        (thread_no, upto, RunOutcome.COMPLETED, MAX_RUNS + 1),
    ):
        if runs:
            cursors.append(sequence - 1)
        size += len(given) + len(output)
        if runs and (served_by != runs[0].served_by or len(runs) == MAX_RUNS or size > MAX_CHARACTERS):
            return runs, cursors
        runs.append(DueRun(sequence, served_by, RunOutcome.COMPLETED, given[own_offset:], output))
    return runs, [*cursors, last_sequence] if runs else []


def commit_extraction(
    db: sqlite3.Connection,
    secret: bytes,
    scope: Scope,
    thread_id: str,
    state: ExtractState,
    upto: int,
    candidates: Sequence[NewCandidate],
    op: NewOp | None,
    notice: NewNotice | None,
    now_us: int,
) -> bool:
    """See Store.commit_extraction."""
    scope_no = state.scope_no
    if find_scope(db, scope) != scope_no:
        return False
    row = db.execute(
        "SELECT thread_no, revision, extracted_upto FROM threads WHERE thread_id = ? AND scope_no = ?",
        (thread_id, scope_no),
    ).fetchone()
    if op is not None:
        insert_op(db, scope_no, row[0] if row else None, op, now_us)
    insert_notice(db, scope_no, notice, now_us)
    # A deletion raises the revision, and folding, which raises it too, is never done at the same time.
    if not row or row[1:] != (state.revision, state.extracted_upto):
        return False
    db.execute("UPDATE threads SET extracted_upto = ? WHERE thread_no = ?", (upto, row[0]))
    for candidate in candidates:
        _propose(db, secret, scope, scope_no, candidate, now_us)
    bound_candidates(db, scope_no)
    return True


def _propose(
    db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, new: NewCandidate, now_us: int
) -> bool:
    """Adds a candidate, or its sources to the one that says the same; returns whether it is a new one."""
    wording = key(new.text)
    if db.execute("SELECT 1 FROM facts WHERE scope_no = ? AND wording = ?", (scope_no, wording)).fetchone():
        return False
    if buried(db, secret, scope, scope_no, "fact", wording):
        return False
    superseded = db.execute(
        "SELECT fact_id FROM facts WHERE scope_no = ? AND fact_id = ?", (scope_no, new.supersedes_fact_id)
    ).fetchone()
    doubt = round((1 - new.confidence) * MILLION)
    row = db.execute(
        "SELECT candidate_no, served_by FROM candidates WHERE scope_no = ? AND wording = ?", (scope_no, wording)
    ).fetchone()
    if row:
        names = frozenset(json.loads(row[1])) | new.served_by
        db.execute(
            "UPDATE candidates SET doubt = min(doubt, ?), served_by = ?, "
            "supersedes = CASE supersedes WHEN '' THEN ? ELSE supersedes END WHERE candidate_no = ?",
            (doubt, json_names(names), superseded[0] if superseded else "", row[0]),
        )
        add_sources(db, "candidate", row[0], new.sequences)
        return False
    made = db.execute(
        "INSERT INTO candidates (scope_no, candidate_id, wording, text, doubt, supersedes, served_by, created_us) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(scope_no, new.candidate_id, wording, new.text, doubt),
            *(superseded[0] if superseded else "", json_names(new.served_by), now_us),
        ),
    ).lastrowid
    assert made is not None
    add_sources(db, "candidate", made, new.sequences)
    return True


def bound_candidates(db: sqlite3.Connection, scope_no: int) -> None:
    """Lets the least confident candidates go that are too many, among equals the oldest."""
    (count,) = db.execute("SELECT count(*) FROM candidates WHERE scope_no = ?", (scope_no,)).fetchone()
    if count > MAX_CANDIDATES:
        rows = db.execute(
            "SELECT candidate_no FROM candidates WHERE scope_no = ? ORDER BY doubt DESC, candidate_no LIMIT ?",
            (scope_no, count - MAX_CANDIDATES),
        ).fetchall()
        drop_candidates(db, [number for (number,) in rows])


def import_core(
    db: sqlite3.Connection,
    secret: bytes,
    scope: Scope,
    facts: Sequence[ImportedFact],
    candidates: Sequence[ImportedFact],
    by: str,
    now_us: int,
) -> Imported:
    """See Store.import_core."""
    scope_no = ensure_scope(db, scope)
    added = proposed = no_room = 0
    for item in facts:
        wording = key(item.text)
        if db.execute("SELECT 1 FROM facts WHERE scope_no = ? AND wording = ?", (scope_no, wording)).fetchone():
            continue
        if room(db, scope_no) <= 0:
            no_room += 1
            continue
        lift(db, secret, scope, scope_no, "fact", wording)
        taken = db.execute("SELECT 1 FROM facts WHERE scope_no = ? AND fact_id = ?", (scope_no, item.named_id))
        fact_id = item.fresh_id if not item.named_id or taken.fetchone() else item.named_id
        new = NewFact(fact_id, item.text, item.confirmed_by or by)
        fact_no = insert_fact(db, scope_no, new, item.served_by, item.created_us, item.last_used_us)
        add_sources(db, "fact", fact_no, sequences_of(db, scope_no, item.source_run_ids))
        for waiting in equal_candidates(db, scope_no, item.text):
            become(db, scope_no, *waiting, fact_no)
        note(db, scope_no, by, "imported", fact_id, now_us, "", item.text)
        added += 1
    for item in candidates:
        sequences = sequences_of(db, scope_no, item.source_run_ids)
        if not sequences and any(buried(db, secret, scope, scope_no, "run", r) for r in item.source_run_ids):
            continue
        candidate = NewCandidate(
            item.fresh_id, item.text, item.confidence, sequences, item.supersedes_fact_id, item.served_by
        )
        proposed += _propose(db, secret, scope, scope_no, candidate, item.created_us)
    bound_candidates(db, scope_no)
    return Imported(added, proposed, no_room)


def sequences_of(db: sqlite3.Connection, scope_no: int, run_ids: Sequence[str]) -> list[int]:
    """Returns the sequences of those of the runs that are there; what is hidden or staged is no source of anything."""
    query = (
        "SELECT sequence FROM runs JOIN threads USING (thread_no) WHERE runs.scope_no = ? AND run_id = ? AND state > 0"
    )
    found = [db.execute(query, (scope_no, run_id)).fetchone() for run_id in run_ids]
    return [row[0] for row in found if row]


def fact_origins(db: sqlite3.Connection, scope: Scope) -> dict[str, frozenset[str]]:
    """See Store.fact_origins."""
    scope_no = find_scope(db, scope)
    rows = db.execute(
        "SELECT fact_id, served_by FROM facts WHERE scope_no = ? "
        "UNION ALL SELECT candidate_id, served_by FROM candidates WHERE scope_no = ?",
        (scope_no, scope_no),
    )
    return {item_id: frozenset(json.loads(names)) for item_id, names in rows}
