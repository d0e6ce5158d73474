"""The Store over SQLite: each method hands one unit of work to the writer or to a reader, and that is all it does.

The units are functions of a connection, in the files beside this one, by subject.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from memsvc.errors import Unavailable
from memsvc.model import Candidate, Fact, MemoryOp, Notice, Run, Scope, Thread, ThreadState
from memsvc.rules.seentime import SeenTime
from memsvc.rules.shown import Renderer
from memsvc.rules.terms import QueryTerm
from memsvc.store import (
    Brought,
    ContextRead,
    DeletedScope,
    ExportBounds,
    ExportPage,
    ExportPosition,
    ExtractState,
    FactChange,
    Fold,
    FoldState,
    Found,
    Imported,
    ImportedFact,
    NewCandidate,
    NewFact,
    NewNotice,
    NewOp,
    Page,
    Prepared,
    PreparedRun,
    Question,
    Recorded,
    ThreadRef,
    UsageRow,
)
from memsvc.store.sqlite import clock, core, deletion, erased, export, extraction, folding, ops, runs, scopes, threads
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.importer import Importer
from memsvc.store.sqlite.janitor import Janitor
from memsvc.store.sqlite.quick import QuickReads
from memsvc.store.sqlite.settler import Settler

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore:
    """One file, one writer, a few readers. The contract of each method stands in memsvc.store.Store."""

    def __init__(self, db: Database, renderer: Renderer) -> None:
        self._db, self._renderer = db, renderer
        self._read, self._write = db.read, db.write
        self._cache = Cache()
        self._janitor = Janitor(db)
        self._settler = Settler(db)
        self._importer = Importer(db, self._janitor, self._settler)
        self._breaks: Counter[Scope] = Counter()  # how often something was deleted, or shown by an import
        self._breaking: Counter[Scope] = Counter()  # such writes that are under way
        self._quick = QuickReads(db)

    @classmethod
    async def open(cls, path: Path, renderer: Renderer, readers: int) -> SqliteStore:
        """Opens or makes the file; the errors are Database.open's."""
        return cls(await Database.open(path, readers), renderer)

    @property
    def secret(self) -> bytes:
        """See Store."""
        return self._db.secret

    async def close(self) -> None:
        """See Store."""
        await self._importer.stop()
        await self._settler.stop()
        await self._janitor.stop()
        self._quick.close()
        await self._db.close()

    # -- the runner's two calls

    async def read_context(self, scope: Scope, ref: ThreadRef, question: Question) -> ContextRead:
        """See Store."""
        return await self._quick.read(
            scope, runs.read_context, self.secret, self._renderer, self._cache, scope, ref, question
        )

    async def record_run(self, scope: Scope, ref: ThreadRef, prepared: PreparedRun, now_us: int) -> Recorded:
        """See Store."""
        recorded, unsettled = await self._write(runs.record_run, self.secret, scope, ref, prepared, now_us)
        if unsettled:
            self._settler.ask(unsettled)
        return recorded

    async def search(
        self, scope: Scope, terms: Sequence[QueryTerm], top_k: int, min_score: float, text_limit: int
    ) -> list[Found]:
        """See Store."""
        return await self._read(threads.search, self._cache, scope, terms, top_k, min_score, text_limit)

    # -- threads

    async def get_thread(self, scope: Scope, thread_id: str) -> Thread:
        """See Store."""
        return await self._read(threads.get_thread, scope, thread_id)

    async def list_threads(
        self, scope: Scope, states: Collection[ThreadState], query: str, page: Page
    ) -> tuple[list[Thread], int]:
        """See Store."""
        # A query reads every word of the scope until a page is full.
        read = self._db.read_slowly if query else self._read
        return await read(threads.list_threads, scope, states, query, page)

    async def list_runs(
        self, scope: Scope, thread_id: str, page: Page, newest_first: bool, text_limit: int, byte_limit: int
    ) -> tuple[list[Run], int]:
        """See Store."""
        return await self._read(threads.list_runs, scope, thread_id, page, newest_first, text_limit, byte_limit)

    async def get_run(self, scope: Scope, run_id: str) -> Run:
        """See Store."""
        return await self._read(threads.get_run, scope, run_id)

    async def rename_thread(self, scope: Scope, thread_id: str, title: str) -> Thread:
        """See Store."""
        return await self._write(threads.rename_thread, scope, thread_id, title)

    async def set_thread_state(self, scope: Scope, thread_id: str, state: ThreadState) -> Thread:
        """See Store."""
        return await self._write(threads.set_thread_state, scope, thread_id, state)

    async def delete_thread(self, scope: Scope, thread_id: str) -> int:
        """See Store."""
        return await self._delete(scope, deletion.delete_thread, self.secret, scope, thread_id)

    async def delete_run(self, scope: Scope, run_id: str) -> str:
        """See Store."""
        return await self._delete(scope, deletion.delete_run, self.secret, scope, run_id)

    async def delete_scope(self, scope: Scope) -> DeletedScope:
        """See Store."""
        return await self._delete(scope, deletion.delete_scope, self.secret, scope)

    async def scopes(self) -> list[Scope]:
        """See Store."""
        return await self._db.read_slowly(scopes.scopes)

    async def look_at_clock(self, clock_us: int, awake_us: int) -> SeenTime:
        """See Store."""
        return await self._write(clock.look_at_clock, clock_us, awake_us)

    async def aged_threads(self, scope: Scope, before_us: int) -> list[str]:
        """See Store."""
        return await self._db.read_slowly(deletion.aged_threads, scope, before_us)

    async def expire(self, scope: Scope, thread_id: str, before_us: int) -> bool:
        """See Store."""
        # Nobody waits for the files here: the words leave them behind the batches, once for many.
        more, _ = await self._take_out(scope, deletion.expire, self.secret, scope, thread_id, before_us)
        return more

    async def _delete(
        self, scope: Scope, unit: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a unit that deletes, and answers when its words are gone from the files as well, or are owed."""
        deleted, asked = await self._take_out(scope, unit, *args, **kwargs)
        await self._janitor.done(asked)
        return deleted

    async def _take_out(
        self, scope: Scope, unit: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[T, int]:
        """Runs a unit that deletes; returns what it returned, and what the janitor calls it."""

        async def taken_out() -> tuple[T, int]:
            with self._breaks_exports(scope), self._janitor.coming():
                deleted = await self._write(erased.forgetting, unit, *args, **kwargs)
                return deleted, self._janitor.ask()

        # Whoever leaves in mid-write may leave a deletion behind; what it owes is seen to all the same.
        return await asyncio.shield(taken_out())

    @contextmanager
    def _breaks_exports(self, scope: Scope) -> Iterator[None]:
        """Around a write that deletes or shows: what an export reads meanwhile may be from before or from behind it."""
        self._breaking[scope] += 1
        try:
            yield
            self._breaks[scope] += 1  # else nothing was done, and no export need end for it
        finally:
            self._breaking -= Counter((scope,))

    def erasure_owed(self) -> bool:
        """See Store."""
        return self._janitor.owes

    # -- folding

    async def due_threads(self) -> list[tuple[Scope, str]]:
        """See Store."""
        return await self._read(folding.due_threads)

    async def fold_state(self, scope: Scope, thread_id: str) -> FoldState | None:
        """See Store."""
        return await self._read(folding.fold_state, scope, thread_id)

    async def commit_fold(
        self,
        scope: Scope,
        scope_no: int,
        thread_id: str,
        revision: int,
        fold: Fold,
        op: NewOp,
        notice: NewNotice | None,
        now_us: int,
    ) -> bool:
        """See Store."""
        return await self._write(folding.commit_fold, scope, scope_no, thread_id, revision, fold, op, notice, now_us)

    async def record_op(
        self, scope: Scope, scope_no: int, thread_id: str, op: NewOp, notice: NewNotice | None, now_us: int
    ) -> None:
        """See Store."""
        await self._write(ops.record_op, scope, scope_no, thread_id, op, notice, now_us)

    async def raise_notice(self, scope: Scope, scope_no: int, notice: NewNotice, now_us: int) -> None:
        """See Store."""
        await self._write(ops.raise_notice, scope, scope_no, notice, now_us)

    # -- core

    async def list_facts(self, scope: Scope) -> list[Fact]:
        """See Store."""
        return await self._read(core.list_facts, scope)

    async def create_fact(self, scope: Scope, new: NewFact, now_us: int) -> FactChange:
        """See Store."""
        return await self._write(core.create_fact, self.secret, scope, new, now_us)

    async def update_fact(self, scope: Scope, fact_id: str, text: str, by: str, now_us: int) -> Fact:
        """See Store."""
        return await self._write(core.update_fact, self.secret, scope, fact_id, text, by, now_us)

    async def delete_fact(self, scope: Scope, fact_id: str, by: str, now_us: int) -> None:
        """See Store."""
        await self._delete(scope, core.delete_fact, self.secret, scope, fact_id, by, now_us)

    async def list_candidates(self, scope: Scope, page: Page) -> tuple[list[Candidate], int]:
        """See Store."""
        return await self._read(core.list_candidates, scope, page)

    async def confirm_candidate(self, scope: Scope, candidate_id: str, new: NewFact, now_us: int) -> FactChange:
        """See Store."""
        return await self._write(core.confirm_candidate, self.secret, scope, candidate_id, new, now_us)

    async def reject_candidate(self, scope: Scope, candidate_id: str, by: str, now_us: int) -> None:
        """See Store."""
        await self._delete(scope, core.reject_candidate, self.secret, scope, candidate_id, by, now_us)

    async def touch_facts(self, scope: Scope, fact_ids: Sequence[str], now_us: int) -> None:
        """See Store."""
        await self._write(core.touch_facts, scope, fact_ids, now_us)

    async def unread_threads(self) -> list[tuple[Scope, str]]:
        """See Store."""
        return await self._read(extraction.unread_threads)

    async def extract_state(self, scope: Scope, thread_id: str) -> ExtractState | None:
        """See Store."""
        return await self._read(extraction.extract_state, scope, thread_id)

    async def commit_extraction(
        self,
        scope: Scope,
        thread_id: str,
        state: ExtractState,
        upto: int,
        candidates: Sequence[NewCandidate],
        op: NewOp | None,
        notice: NewNotice | None,
        now_us: int,
    ) -> bool:
        """See Store."""
        return await self._write(
            extraction.commit_extraction, self.secret, scope, thread_id, state, upto, candidates, op, notice, now_us
        )

    async def import_core(
        self,
        scope: Scope,
        facts: Sequence[ImportedFact],
        candidates: Sequence[ImportedFact],
        by: str,
        now_us: int,
    ) -> Imported:
        """See Store."""
        return await self._write(extraction.import_core, self.secret, scope, facts, candidates, by, now_us)

    async def fact_origins(self, scope: Scope) -> dict[str, frozenset[str]]:
        """See Store."""
        return await self._read(extraction.fact_origins, scope)

    # -- operations

    async def debts(self, scope: Scope | None) -> tuple[int, set[str]]:
        """See Store."""
        return await self._read(folding.debts, scope)

    async def backlog(self) -> tuple[int, int]:
        """See Store."""
        return await self._db.read_slowly(folding.backlog)

    async def day_tokens(self, since_us: int) -> list[tuple[str, str, int]]:
        """See Store."""
        return await self._read(ops.day_tokens, since_us)

    async def usage(self, scope: Scope, thread_id: str, start_us: int | None, end_us: int | None) -> list[UsageRow]:
        """See Store."""
        return await self._read(ops.usage, scope, thread_id, start_us, end_us)

    async def list_ops(
        self, scope: Scope, thread_id: str, page: Page, start_us: int | None, end_us: int | None
    ) -> tuple[list[MemoryOp], int]:
        """See Store."""
        return await self._read(ops.list_ops, scope, thread_id, page, start_us, end_us)

    async def list_notices(self, scope: Scope) -> list[Notice]:
        """See Store."""
        return await self._read(ops.list_notices, scope)

    async def list_scopes(self, tenants: Collection[str] | None, page: Page) -> tuple[list[Scope], int]:
        """See Store."""
        return await self._read(scopes.list_scopes, tenants, page)

    async def begin_export(self, scope: Scope) -> ExportBounds:
        """See Store."""
        if await self._read(deletion.hides, scope):
            # What is hidden has left no tombstone yet, and an export without it would bring deleted runs back.
            await self._janitor.done(self._janitor.ask())
        breaks = self._breaks[scope]
        if await self._read(deletion.hides, scope):
            raise Unavailable("what was deleted in this scope is still being taken out")
        return replace(await self._db.read_slowly(export.bounds, scope), breaks=breaks)

    async def export_page(self, scope: Scope, bounds: ExportBounds, position: ExportPosition) -> ExportPage:
        """See Store."""
        page = await self._db.read_slowly(export.page, bounds, position)
        if self._breaking[scope] or self._breaks[scope] != bounds.breaks:
            raise Unavailable("something of this scope was deleted or imported meanwhile: what came is no export")
        return page

    async def import_scope(self, scope: Scope, prepared: Prepared, by: str, now_us: int) -> Brought:
        """See Store."""
        return await self._importer.bring(scope, prepared, by, now_us, lambda: self._breaks_exports(scope))

    async def acknowledge_notice(self, scope: Scope, notice_id: str, now_us: int) -> None:
        """See Store."""
        await self._write(ops.acknowledge_notice, scope, notice_id, now_us)
