"""A scope as lines, page by page: no read lasts longer than a page, however slowly the caller takes what it is given.

Nothing recorded after the first page is in an export: each table is read up to where it ended then. What people change
meanwhile (a title, a fact) is told as it is when its page is read, and what is deleted meanwhile ends the export, so
that no word of it is told any more (the store counts deletions, see store.py). An import that shows what it staged ends
one as well: its rows have numbers from before.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from memsvc.model import NoticeKind, OpKind, RunOutcome, Scope, ThreadState
from memsvc.rules.exportfile import (
    VERSION,
    CandidateLine,
    ChangeLine,
    DeletedUsageLine,
    End,
    FactLine,
    Header,
    Key,
    Line,
    NoticeLine,
    OpLine,
    RunLine,
    SummaryLine,
    ThreadLine,
    Tombstone,
    encode,
)
from memsvc.store.sqlite.core import MILLION
from memsvc.store.sqlite.scopes import find_scope, tombstone_keys
from memsvc.store.values import ExportBounds, ExportPage, ExportPosition

PAGE_BYTES = 256 << 10
PAGE_ROWS = 1_000
"""What a page holds at most, beyond its last line."""

Placed = tuple[int | str | None, Line]
Stage = Callable[[sqlite3.Connection, ExportBounds, Any], Iterable[Placed]]


def bounds(db: sqlite3.Connection, scope: Scope) -> ExportBounds:
    """See Store.begin_export."""
    scope_no = find_scope(db, scope)
    ends = [
        db.execute(f"SELECT coalesce(max({number}), 0) FROM {table} WHERE scope_no = ?", (scope_no,)).fetchone()[0]
        for table, number in (
            *(("threads", "thread_no"), ("memory_ops", "op_no"), ("notices", "notice_no"), ("core_log", "entry_no")),
        )
    ]
    # Their order is of the whole table, not of a scope: put in order once, they need not be again for each page.
    runs = db.execute(
        "SELECT sequence FROM runs JOIN threads USING (thread_no) WHERE runs.scope_no = ? AND state > 0", (scope_no,)
    )
    sequences = array("q", sorted(sequence for (sequence,) in runs))
    return ExportBounds(scope, scope_no, sequences, *ends)


def page(db: sqlite3.Connection, upto: ExportBounds, position: ExportPosition) -> ExportPage:
    """See Store.export_page."""
    stage, after, lines = position
    parts: list[bytes] = []
    size = 0
    while stage < len(_STAGES):
        for placed, line in _STAGES[stage](db, upto, after):
            encoded = encode(line)
            parts.append(encoded)
            size += len(encoded)
            if placed is None:
                continue
            after = placed
            if size >= PAGE_BYTES or len(parts) >= PAGE_ROWS:
                return ExportPage(b"".join(parts), ExportPosition(stage, after, lines + len(parts)))
        stage, after = stage + 1, 0
    parts.append(encode(End(lines + len(parts))))
    return ExportPage(b"".join(parts), None)


# Each stage gives lines with a place; asked anew with a place, it goes on behind it. Behind a line without one no page
# ends.


def _head(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    if not after:
        yield 1, Header(VERSION, *upto.scope)
    keys = tombstone_keys(db, upto.scope_no)
    yield from list(enumerate((Key(key.hex()) for key in keys), 2))[max(after - 1, 0) :]


def _tombstones(db: sqlite3.Connection, upto: ExportBounds, after: int | str) -> Iterator[Placed]:
    kind, _, digest = str(after).partition(" ") if after else ("", "", "")
    rows = db.execute(
        "SELECT kind, digest, count FROM tombstones WHERE scope_no = ? AND (kind, digest) > (?, ?) "
        "ORDER BY kind, digest",
        (upto.scope_no, kind, bytes.fromhex(digest)),
    )
    for kind, key, count in rows:
        yield f"{kind} {key.hex()}", Tombstone(kind, key.hex(), count)


def _threads(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    rows = db.execute(
        "SELECT thread_no, thread_id, thread_key, title, title_named, state, locale, created_us, "
        "coalesce((SELECT created_us FROM runs WHERE thread_no = t.thread_no AND sequence <= :runs "
        "          ORDER BY sequence DESC LIMIT 1), updated_us), "
        "(SELECT count(*) FROM runs WHERE thread_no = t.thread_no AND sequence <= min(t.extracted_upto, :runs)) "
        "FROM threads AS t WHERE scope_no = :scope_no AND state > 0 AND thread_no > :after AND thread_no <= :threads "
        "ORDER BY thread_no",
        {"scope_no": upto.scope_no, "after": after, "threads": upto.threads, "runs": upto.runs},
    )
    for thread_no, thread_id, key, title, named, state, *rest in rows:
        archived = state == ThreadState.ARCHIVED
        yield thread_no, ThreadLine(thread_id, key, title, bool(named), archived, *rest)


def _runs(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    for place in range(after, len(upto.sequences)):
        row = db.execute(_RUN, (upto.sequences[place],)).fetchone()
        if row is None:
            return  # deleted meanwhile: nobody is given this page
        run_id, thread_id, outcome, *texts_and_costs, labels, created_us, ended_us = row
        times = (created_us, ended_us)
        values = (run_id, thread_id, RunOutcome(outcome).name, *texts_and_costs, json.loads(labels), *times)
        yield place + 1, RunLine(*values)


_RUN = """SELECT run_id, thread_id, outcome, input, output, own_offset, provider, served_by, model, input_tokens,
        output_tokens, cost_micros, context_token_count, labels, runs.created_us, ended_us
    FROM runs JOIN threads USING (thread_no) WHERE sequence = ?"""


def _summaries(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    """Of a thread that was folded beyond the last run meanwhile, those from before it."""
    threads = db.execute(
        "SELECT thread_no, thread_id FROM threads WHERE scope_no = ? AND state > 0 AND thread_no > ? "
        "AND thread_no <= ? AND folded_upto > 0 ORDER BY thread_no",
        (upto.scope_no, after, upto.threads),
    )
    for thread_no, thread_id in threads:
        rows = db.execute(
            "SELECT folded_count, summary, summary_providers FROM checkpoints WHERE thread_no = :no "
            "AND folded_upto <= :runs UNION SELECT folded_count, summary, summary_providers FROM threads "
            "WHERE thread_no = :no AND folded_upto <= :runs ORDER BY folded_count",
            {"no": thread_no, "runs": upto.runs},
        ).fetchall()
        for at, (count, summary, providers) in enumerate(rows, 1 - len(rows)):
            yield (None if at else thread_no), SummaryLine(thread_id, count, summary, _names(providers))


def _facts(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    rows = db.execute(
        "SELECT fact_no, fact_id, text, served_by, confirmed_by, created_us, last_used_us FROM facts "
        "WHERE scope_no = ? AND fact_no > ? ORDER BY fact_no",
        (upto.scope_no, after),
    ).fetchall()
    for fact_no, fact_id, text, served_by, *rest in rows:
        candidates = db.execute(
            "SELECT candidate_id FROM fact_candidates WHERE fact_no = ? ORDER BY candidate_id", (fact_no,)
        )
        sources = _sources(db, upto, "fact", fact_no)
        values = (fact_id, text, _names(served_by), *rest, sources, tuple(each for (each,) in candidates))
        yield fact_no, FactLine(*values)


def _candidates(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    rows = db.execute(
        "SELECT candidate_no, candidate_id, text, doubt, supersedes, served_by, created_us FROM candidates "
        "WHERE scope_no = ? AND candidate_no > ? ORDER BY candidate_no",
        (upto.scope_no, after),
    ).fetchall()
    for number, candidate_id, text, doubt, supersedes, served_by, created_us in rows:
        sources = _sources(db, upto, "candidate", number)
        if not sources and _has_sources(db, number):
            continue  # drawn from what was recorded since
        confidence = round(1 - doubt / MILLION, 6)
        yield (
            number,
            CandidateLine(candidate_id, text, confidence, supersedes, _names(served_by), created_us, sources),
        )


def _sources(db: sqlite3.Connection, upto: ExportBounds, table: str, number: int) -> tuple[str, ...]:
    rows = db.execute(
        f"SELECT run_id FROM {table}_sources JOIN runs USING (sequence) WHERE {table}_no = ? AND sequence <= ? "
        "ORDER BY sequence",
        (number, upto.runs),
    )
    return tuple(run_id for (run_id,) in rows)


def _has_sources(db: sqlite3.Connection, number: int) -> bool:
    return bool(db.execute("SELECT 1 FROM candidate_sources WHERE candidate_no = ? LIMIT 1", (number,)).fetchone())


def _ops(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    rows = db.execute(
        # A thread that is newer than the export, or hidden, has no line to be named by.
        "SELECT op_no, CASE WHEN state > 0 AND thread_no <= ? THEN thread_id END, kind, provider, model, input_tokens, "
        "output_tokens, cost_micros, error_reason, memory_ops.created_us, duration_ms "
        "FROM memory_ops LEFT JOIN threads USING (thread_no) "
        "WHERE memory_ops.scope_no = ? AND op_no > ? AND op_no <= ? ORDER BY op_no",
        (upto.threads, upto.scope_no, after, upto.ops),
    )
    for op_no, thread_id, kind, *rest in rows:
        yield op_no, OpLine(thread_id, OpKind(kind).name, *rest)


def _deleted_usage(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    # A place is one in their order, which stays: only deletions add to them, and they end an export.
    rows = db.execute(
        "SELECT created_us, provider, input_tokens, output_tokens, cost_micros FROM deleted_usage "
        "WHERE scope_no = ? ORDER BY created_us, rowid LIMIT -1 OFFSET ?",
        (upto.scope_no, after),
    )
    for place, row in enumerate(rows, after + 1):
        yield place, DeletedUsageLine(*row)


def _notices(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    rows = db.execute(
        "SELECT notice_no, kind, from_provider, to_provider, occasion, text, created_us, acknowledged_us FROM notices "
        "WHERE scope_no = ? AND notice_no > ? AND notice_no <= ? ORDER BY notice_no",
        (upto.scope_no, after, upto.notices),
    )
    for number, kind, *rest in rows:
        yield number, NoticeLine(NoticeKind(kind).name, *rest)


def _changes(db: sqlite3.Connection, upto: ExportBounds, after: int) -> Iterator[Placed]:
    rows = db.execute(
        "SELECT entry_no, created_us, actor, change, item_id, text_before, text_after FROM core_log "
        "WHERE scope_no = ? AND entry_no > ? AND entry_no <= ? ORDER BY entry_no",
        (upto.scope_no, after, upto.changes),
    )
    for number, *rest in rows:
        yield number, ChangeLine(*rest)


def _names(kept: str) -> tuple[str, ...]:
    return tuple(json.loads(kept))


_STAGES: Sequence[Stage] = (
    *(_head, _tombstones, _threads, _runs, _summaries, _facts, _candidates),
    *(_ops, _deleted_usage, _notices, _changes),
)
