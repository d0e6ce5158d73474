"""What memory did and cost, and what the user interface should say of it."""

from __future__ import annotations

import sqlite3

from memsvc.errors import NoticeNotFound
from memsvc.model import MemoryOp, Notice, NoticeKind, OpKind, Scope, Usage
from memsvc.store import NewNotice, NewOp, Page, UsageRow
from memsvc.store.sqlite.scopes import find_recorded, find_scope
from memsvc.store.sqlite.staging import STAGING

MAX_UNREAD_NOTICES = 100
"""Of a scope: a runner that names a new provider with every run fills no disk with them."""


def insert_op(db: sqlite3.Connection, scope_no: int, thread_no: int | None, op: NewOp, now_us: int) -> None:
    """Writes down one model call; of a thread that is gone, without its number."""
    db.execute(
        "INSERT INTO memory_ops (scope_no, thread_no, kind, provider, model, input_tokens, output_tokens, "
        "cost_micros, error_reason, created_us, duration_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(scope_no, thread_no, op.kind, op.provider, op.model),
            *(op.usage.input_tokens, op.usage.output_tokens, op.usage.cost_micros),
            *(op.error_reason, now_us, op.duration_ms),
        ),
    )


def insert_notice(db: sqlite3.Connection, scope_no: int, notice: NewNotice | None, now_us: int) -> None:
    """Raises a notice unless it is none, the same one was raised before, or nobody reads the many there are."""
    if notice is None:
        return
    (unread,) = db.execute(
        "SELECT count(*) FROM notices WHERE scope_no = ? AND acknowledged_us IS NULL", (scope_no,)
    ).fetchone()
    if unread >= MAX_UNREAD_NOTICES:
        return
    db.execute(
        "INSERT INTO notices (scope_no, kind, from_provider, to_provider, occasion, text, created_us) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            *(scope_no, notice.kind, notice.from_provider, notice.to_provider),
            *(notice.occasion, notice.text, now_us),
        ),
    )


def record_op(
    db: sqlite3.Connection,
    scope: Scope,
    scope_no: int,
    thread_id: str,
    op: NewOp,
    notice: NewNotice | None,
    now_us: int,
) -> None:
    """See Store.record_op."""
    if find_scope(db, scope) != scope_no:
        return
    row = db.execute(
        "SELECT thread_no FROM threads WHERE thread_id = ? AND scope_no = ?", (thread_id, scope_no)
    ).fetchone()
    insert_op(db, scope_no, row[0] if row else None, op, now_us)
    insert_notice(db, scope_no, notice, now_us)


def raise_notice(db: sqlite3.Connection, scope: Scope, scope_no: int, notice: NewNotice, now_us: int) -> None:
    """See Store.raise_notice."""
    if find_scope(db, scope) == scope_no:
        insert_notice(db, scope_no, notice, now_us)


def day_tokens(db: sqlite3.Connection, since_us: int) -> list[tuple[str, str, int]]:
    """See Store.day_tokens."""
    return db.execute(
        "SELECT tenant_id, agent_id, sum(input_tokens + output_tokens) FROM memory_ops JOIN scopes USING (scope_no) "
        "WHERE created_us >= ? GROUP BY tenant_id, agent_id",
        (since_us,),
    ).fetchall()


def usage(
    db: sqlite3.Connection, scope: Scope, thread_id: str, start_us: int | None, end_us: int | None
) -> list[UsageRow]:
    """See Store.usage."""
    if thread_id:
        scope_no, thread_no = find_recorded(db, scope, thread_id)
    else:
        scope_no, thread_no = find_scope(db, scope), None
    parameters = {"scope_no": scope_no, "thread_no": thread_no, "start": start_us, "end": end_us}
    one = "AND thread_no = :thread_no" if thread_id else ""
    # What an import stages costs nothing yet, and counts once it is shown (see staging.py).
    shown = (
        "AND thread_no NOT IN (SELECT thread_no FROM threads WHERE scope_no IN "
        f"(SELECT scope_no FROM scopes WHERE tenant_id = '' AND agent_id = '{STAGING}'))"
    )
    queries = [(False, _sums("runs", "thread_no", f"{one} {shown}")), (True, _sums("memory_ops", "thread_no", one))]
    if not thread_id:
        queries.append((False, _sums("deleted_usage", "NULL", "")))
    names = {None: ""} | dict(
        db.execute(
            "SELECT thread_no, CASE state WHEN 0 THEN '' ELSE thread_id END FROM threads WHERE scope_no = ?",
            (scope_no,),
        ).fetchall()
    )
    return [
        UsageRow(created_us, provider, names[number], memory, Usage(*sums_of))
        for memory, query in queries
        for created_us, provider, number, *sums_of in db.execute(query, parameters)
    ]


def _sums(table: str, thread_no: str, condition: str) -> str:
    """Sums by the quarter of an hour: that divides every time zone's offset, so no row spans two days of any."""
    return f"""
        SELECT min(created_us), provider, {thread_no}, sum(input_tokens), sum(output_tokens), sum(cost_micros)
        FROM {table}
        WHERE scope_no = :scope_no AND (:start IS NULL OR created_us >= :start)
              AND (:end IS NULL OR created_us < :end) {condition}
        GROUP BY created_us / 900000000, provider, {thread_no}
    """


def list_ops(
    db: sqlite3.Connection,
    scope: Scope,
    thread_id: str,
    page: Page,
    start_us: int | None,
    end_us: int | None,
) -> tuple[list[MemoryOp], int]:
    """See Store.list_ops. The position is an op's number."""
    if thread_id:
        scope_no, thread_no = find_recorded(db, scope, thread_id)
    else:
        scope_no, thread_no = find_scope(db, scope), None
    rows = db.execute(
        "SELECT op_no, CASE WHEN state > 0 THEN thread_id ELSE '' END, kind, provider, model, input_tokens, "
        "output_tokens, cost_micros, error_reason, memory_ops.created_us, duration_ms "
        "FROM memory_ops LEFT JOIN threads USING (thread_no) "
        "WHERE memory_ops.scope_no = :scope_no AND (:after = 0 OR op_no < :after) "
        "AND (:start IS NULL OR memory_ops.created_us >= :start) AND (:end IS NULL OR memory_ops.created_us < :end)"
        + (" AND thread_no = :thread_no" if thread_id else "")
        + " ORDER BY op_no DESC LIMIT :most",
        {
            "scope_no": scope_no,
            "thread_no": thread_no,
            "after": page.after,
            "start": start_us,
            "end": end_us,
            "most": page.size + 1,
        },
    ).fetchall()
    ops = [
        MemoryOp(
            op_id=f"op_{number}",
            thread_id=thread,
            kind=OpKind(kind),
            provider=provider,
            model=model,
            usage=Usage(*tokens),
            error_reason=reason,
            created_us=created_us,
            duration_ms=duration_ms,
        )
        for number, thread, kind, provider, model, *tokens, reason, created_us, duration_ms in rows[: page.size]
    ]
    return ops, rows[page.size - 1][0] if len(rows) > page.size else 0


def list_notices(db: sqlite3.Connection, scope: Scope) -> list[Notice]:
    """See Store.list_notices."""
    rows = db.execute(
        "SELECT notice_no, kind, text, created_us, from_provider, to_provider FROM notices "
        "WHERE scope_no = ? AND acknowledged_us IS NULL ORDER BY notice_no",
        (find_scope(db, scope),),
    )
    return [
        Notice(f"nt_{number}", NoticeKind(kind), text, created_us, from_provider, to_provider)
        for number, kind, text, created_us, from_provider, to_provider in rows
    ]


def acknowledge_notice(db: sqlite3.Connection, scope: Scope, notice_id: str, now_us: int) -> None:
    """See Store.acknowledge_notice."""
    number = notice_id.removeprefix("nt_")
    if notice_id == number or not (number.isascii() and number.isdigit() and len(number) < 19):
        raise NoticeNotFound
    changed = db.execute(
        "UPDATE notices SET acknowledged_us = coalesce(acknowledged_us, ?) WHERE notice_no = ? AND scope_no = ?",
        (now_us, int(number), find_scope(db, scope)),
    ).rowcount
    if not changed:
        raise NoticeNotFound
