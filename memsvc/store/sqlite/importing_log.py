"""What an export says of what memory did, cost and told, and of who changed what, into a scope: lines without an id,
of which as many come in as the file has more than the scope.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator

from memsvc.rules.exportfile import (
    NOTICE_KINDS,
    OP_KINDS,
    ChangeLine,
    DeletedUsageLine,
    Line,
    NoticeLine,
    OpLine,
)
from memsvc.store.sqlite.staging import Group

_OP = "kind, provider, model, input_tokens, output_tokens, cost_micros, error_reason, created_us, duration_ms"
_USAGE = "created_us, provider, input_tokens, output_tokens, cost_micros"
_CHANGE = "created_us, actor, change, item_id, text_before, text_after"
_NEW_OP = f"""INSERT INTO memory_ops (scope_no, thread_no, {_OP})
    VALUES (?, (SELECT thread_no FROM threads WHERE thread_id = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_NEW_USAGE = f"INSERT INTO deleted_usage (scope_no, {_USAGE}) VALUES (?, ?, ?, ?, ?, ?)"
_NEW_CHANGE = f"INSERT INTO core_log (scope_no, {_CHANGE}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_NEW_NOTICE = """INSERT OR IGNORE INTO notices (scope_no, kind, from_provider, to_provider, occasion, text, created_us,
    acknowledged_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""


class LogImport:
    """Knows what is here by hashes; adds to `reopened` the calls whose thread comes back."""

    def __init__(self, numbers: tuple[int, int], reopened: list[tuple[str, int]]) -> None:
        self._scope_no, self._hidden_no = numbers
        self._reopened = reopened
        self._ops: dict[int, list[tuple[int, bool]]] = {}
        self._here: Counter[int] = Counter()

    def begin(self, db: sqlite3.Connection) -> None:
        """Learns what is here."""
        ops = defaultdict(list)
        of_scope = "WHERE scope_no = ?"
        for op_no, thread_no, *told in db.execute(
            f"SELECT op_no, thread_no, {_OP} FROM memory_ops {of_scope} ORDER BY op_no DESC", (self._scope_no,)
        ):
            ops[hash(tuple(told))].append((op_no, thread_no is not None))
        self._ops = dict(ops)
        for columns, table in ((_USAGE, "deleted_usage"), (_CHANGE, "core_log")):
            rows = db.execute(f"SELECT {columns} FROM {table} {of_scope}", (self._scope_no,))
            self._here.update(hash((table, *told)) for told in rows)

    def line(self, line: Line) -> Iterator[Group]:
        """Returns what a line has written, where the scope has not as many of its kind as the file up to it."""
        match line:
            case OpLine():
                yield from self._op(line)
            case DeletedUsageLine():
                usage = (line.created_us, line.provider, line.input_tokens, line.output_tokens, line.cost_micros)
                if not self._is_here("deleted_usage", *usage):
                    yield ((_NEW_USAGE, (self._hidden_no, *usage)),)
            case NoticeLine():
                notice = (NOTICE_KINDS[line.notice], line.from_provider, line.to_provider, line.occasion, line.text)
                yield ((_NEW_NOTICE, (self._hidden_no, *notice, line.created_us, line.acknowledged_us)),)
            case ChangeLine():
                change = (line.created_us, line.actor, line.change, line.item_id, line.text_before, line.text_after)
                # The words of a fact that was deleted here since are gone from its entries, and come back with nothing
                # but the fact.
                if not (self._is_here("core_log", *change) or self._is_here("core_log", *change[:4], "", "")):
                    yield ((_NEW_CHANGE, (self._hidden_no, *change)),)

    def _is_here(self, *told: object) -> bool:
        """Takes one of those that are here; False where they are all taken."""
        if not self._here[hash(told)]:
            return False
        self._here[hash(told)] -= 1
        return True

    def _op(self, line: OpLine) -> Iterator[Group]:
        told = (
            *(OP_KINDS[line.op], line.provider, line.model, line.input_tokens, line.output_tokens, line.cost_micros),
            *(line.error_reason, line.created_us, line.duration_ms),
        )
        if not (here := self._ops.get(hash(told))):
            yield ((_NEW_OP, (self._hidden_no, line.thread_id, *told)),)
            return
        op_no, has_thread = here.pop()
        if line.thread_id and not has_thread:
            # Its thread had been deleted, and is back.
            self._reopened.append((line.thread_id, op_no))
