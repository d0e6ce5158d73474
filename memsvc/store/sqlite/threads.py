"""Threads and their runs as people see and name them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from memsvc.errors import RunNotFound
from memsvc.model import Run, RunOutcome, Scope, Thread, ThreadState, Usage
from memsvc.rules.terms import QueryTerm
from memsvc.store import Found, Page
from memsvc.store.sqlite import recall
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.scopes import find_recorded, find_scope

_THREAD = """
    SELECT thread_id, title, state, run_count, summary, folded_count, created_us, updated_us, thread_key FROM threads
"""
_RUN = """
    SELECT sequence, thread_id, run_id, input, output, outcome, provider, model, input_tokens, output_tokens,
           cost_micros, runs.created_us, ended_us, context_token_count, labels
    FROM runs JOIN threads USING (thread_no)
"""
# A context block of ours at the start of an input is nobody's words: no search finds a thread by it.
_HOLDS = """
    (instr(lower(title), :query) OR EXISTS (
        SELECT 1 FROM runs WHERE runs.thread_no = threads.thread_no AND (
            instr(lower(CASE own_offset WHEN 0 THEN input ELSE own_words(input, own_offset) END), :query)
            OR instr(lower(output), :query))))
"""


def get_thread(db: sqlite3.Connection, scope: Scope, thread_id: str) -> Thread:
    """See Store.get_thread."""
    find_recorded(db, scope, thread_id)
    return _thread(db, scope, thread_id)


def list_threads(
    db: sqlite3.Connection, scope: Scope, states: Collection[ThreadState], query: str, page: Page
) -> tuple[list[Thread], int]:
    """See Store.list_threads. The position is the latest run's sequence, which renaming and archiving leave alone."""
    if query:  # SQLite's own substr() ends at a NUL.
        db.create_function("own_words", 2, lambda text, offset: text[offset:], deterministic=True)
    rows = db.execute(
        _THREAD.replace("FROM", ", last_sequence FROM")
        + "WHERE scope_no = :scope_no AND run_count > 0 AND (state = :one OR state = :other)"
        + " AND (:after = 0 OR last_sequence < :after)"
        + (f" AND {_HOLDS}" if query else "")
        + " ORDER BY last_sequence DESC LIMIT :most",
        {
            "scope_no": find_scope(db, scope),
            "one": min(states),
            "other": max(states),
            "after": page.after,
            # lower() folds ASCII alone, in the column; the query is folded alike.
            "query": "".join(c.lower() if c.isascii() else c for c in query),
            "most": page.size + 1,
        },
    ).fetchall()
    more = rows[page.size - 1][-1] if len(rows) > page.size else 0
    return [_to_thread(scope, row[:-1]) for row in rows[: page.size]], more


def list_runs(
    db: sqlite3.Connection,
    scope: Scope,
    thread_id: str,
    page: Page,
    newest_first: bool,
    text_limit: int,
    byte_limit: int,
) -> tuple[list[Run], int]:
    """See Store.list_runs. The position is a sequence."""
    _, thread_no = find_recorded(db, scope, thread_id)
    rows = db.execute(
        _RUN
        + "WHERE runs.thread_no = :thread_no AND "
        + (
            "(:after = 0 OR sequence < :after) ORDER BY sequence DESC"
            if newest_first
            else "sequence > :after ORDER BY sequence"
        )
        + " LIMIT :most",
        {"thread_no": thread_no, "after": page.after, "most": page.size + 1},
    )
    runs: list[Run] = []
    size = 0
    for row in rows:  # fetched one by one: a page of long runs is not read to its end
        run = _to_run(row, text_limit)
        size += len(run.input.encode()) + len(run.output.encode())
        if runs and (len(runs) == page.size or size > byte_limit):
            return runs, runs[-1].sequence
        runs.append(run)
    return runs, 0


def get_run(db: sqlite3.Connection, scope: Scope, run_id: str) -> Run:
    """See Store.get_run."""
    row = db.execute(
        _RUN + "WHERE runs.scope_no = ? AND run_id = ? AND state > 0", (find_scope(db, scope), run_id)
    ).fetchone()
    if not row:
        raise RunNotFound
    return _to_run(row, 0)


def search(
    db: sqlite3.Connection,
    cache: Cache,
    scope: Scope,
    terms: Sequence[QueryTerm],
    top_k: int,
    min_score: float,
    text_limit: int,
) -> list[Found]:
    """See Store.search."""
    found = []
    for sequence, score in recall.search(db, cache, find_scope(db, scope), terms, top_k):
        if score < min_score:
            break
        # A context block of ours that came back in an input is nobody's words, here as in the index.
        row = db.execute(_RUN.replace("FROM", ", own_offset FROM", 1) + "WHERE sequence = ?", (sequence,)).fetchone()
        *before, given, output = row[:5]
        own_input = given[row[-1] :]
        run = _to_run((*before, own_input, output, *row[5:-1]), text_limit)
        found.append(Found(run, score, own_input, output))
    return found


def rename_thread(db: sqlite3.Connection, scope: Scope, thread_id: str, new_title: str) -> Thread:
    """See Store.rename_thread."""
    _, thread_no = find_recorded(db, scope, thread_id)
    db.execute("UPDATE threads SET title = ?, title_named = 1 WHERE thread_no = ?", (new_title, thread_no))
    return _thread(db, scope, thread_id)


def set_thread_state(db: sqlite3.Connection, scope: Scope, thread_id: str, state: ThreadState) -> Thread:
    """See Store.set_thread_state."""
    _, thread_no = find_recorded(db, scope, thread_id)
    db.execute("UPDATE threads SET state = ? WHERE thread_no = ?", (state, thread_no))
    return _thread(db, scope, thread_id)


def _thread(db: sqlite3.Connection, scope: Scope, thread_id: str) -> Thread:
    return _to_thread(scope, db.execute(_THREAD + "WHERE thread_id = ?", (thread_id,)).fetchone())


def _to_thread(scope: Scope, row: tuple[str, str, int, int, str, int, int, int, str]) -> Thread:
    thread_id, named, state, run_count, summary, folded_count, created_us, updated_us, thread_key = row
    return Thread(
        scope=scope,
        thread_id=thread_id,
        title=named,
        state=ThreadState(state),
        run_count=run_count,
        summary=summary,
        folded_count=folded_count,
        created_us=created_us,
        updated_us=updated_us,
        thread_key=thread_key,
    )


def _to_run(row: tuple[Any, ...], text_limit: int) -> Run:
    """Builds a run from a row of `_RUN`, its texts cut to `text_limit` bytes each (0: whole)."""
    sequence, thread_id, run_id, given, output, outcome, provider, model, *numbers, labels = row
    input_tokens, output_tokens, cost_micros, created_us, ended_us, context_token_count = numbers
    shown_input, shown_output = _cut(str(given), text_limit), _cut(str(output), text_limit)
    return Run(
        sequence=sequence,
        thread_id=thread_id,
        run_id=run_id,
        input=shown_input,
        output=shown_output,
        outcome=RunOutcome(outcome),
        provider=provider,
        model=model,
        usage=Usage(input_tokens, output_tokens, cost_micros),
        created_us=created_us,
        ended_us=ended_us,
        context_token_count=context_token_count,
        labels=json.loads(str(labels)),
        truncated=shown_input != given or shown_output != output,
    )


def _cut(text: str, limit: int) -> str:
    if not limit or len(text) * 4 <= limit:
        return text
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[:limit].decode("utf-8", "ignore")
