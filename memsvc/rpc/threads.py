"""ThreadService: the conversations, for a user interface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from memsvc.model import BASIC_VIEW_BYTES, Scope, ThreadState
from memsvc.rpc import checks, convert
from memsvc.rpc.pages import Pager
from memsvc.store import Store
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

MAX_QUERY_BYTES = 4 << 10

Call = grpc.aio.ServicerContext[Any, Any]


class ThreadService(rpc.ThreadServiceServicer):
    """Check, call, reply. `changed` is told of threads that may owe folding after a deletion, `gone` of lost ones.

    The texts of a page of runs take at most `page_bytes`, or are those of a single run.
    """

    def __init__(
        self,
        store: Store,
        changed: Callable[[Scope, str], None],
        gone: Callable[[Scope, str], None],
        page_bytes: int,
    ) -> None:
        self._store, self._changed, self._gone, self._page_bytes = store, changed, gone, page_bytes

    async def GetThread(self, request: svc.GetThreadRequest, context: Call) -> svc.GetThreadResponse:
        """See the contract."""
        scope, thread_id = _named(request.scope, request.thread_id)
        return svc.GetThreadResponse(thread=convert.thread(await self._store.get_thread(scope, thread_id)))

    async def ListThreads(self, request: svc.ListThreadsRequest, context: Call) -> svc.ListThreadsResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        states = checks.thread_states(request.state, request.include_archived)
        query = checks.text("query", request.query, MAX_QUERY_BYTES)
        pager = Pager(self._store.secret, "threads", scope, states, query)
        page = pager.page(request.page_token, request.page_size, 20, 200)
        found, after = await self._store.list_threads(scope, states, query, page)
        return svc.ListThreadsResponse(threads=map(convert.thread, found), next_page_token=pager.token(after))

    async def ListRuns(self, request: svc.ListRunsRequest, context: Call) -> svc.ListRunsResponse:
        """See the contract."""
        scope, thread_id = _named(request.scope, request.thread_id)
        view = checks.run_view(request.view, pb.RUN_VIEW_FULL)
        pager = Pager(self._store.secret, "runs", scope, thread_id, request.newest_first)
        page = pager.page(request.page_token, request.page_size, 50, 200)
        text_limit = BASIC_VIEW_BYTES if view == pb.RUN_VIEW_BASIC else 0
        newest_first = request.newest_first
        runs, after = await self._store.list_runs(scope, thread_id, page, newest_first, text_limit, self._page_bytes)
        return svc.ListRunsResponse(runs=map(convert.run, runs), next_page_token=pager.token(after))

    async def GetRun(self, request: svc.GetRunRequest, context: Call) -> svc.GetRunResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        run = await self._store.get_run(scope, checks.required("run_id", request.run_id))
        return svc.GetRunResponse(run=convert.run(run))

    async def RenameThread(self, request: svc.RenameThreadRequest, context: Call) -> svc.RenameThreadResponse:
        """See the contract."""
        scope, thread_id = _named(request.scope, request.thread_id)
        thread = await self._store.rename_thread(scope, thread_id, checks.title(request.title))
        return svc.RenameThreadResponse(thread=convert.thread(thread))

    async def ArchiveThread(self, request: svc.ArchiveThreadRequest, context: Call) -> svc.ArchiveThreadResponse:
        """See the contract."""
        scope, thread_id = _named(request.scope, request.thread_id)
        thread = await self._store.set_thread_state(scope, thread_id, ThreadState.ARCHIVED)
        return svc.ArchiveThreadResponse(thread=convert.thread(thread))

    async def UnarchiveThread(self, request: svc.UnarchiveThreadRequest, context: Call) -> svc.UnarchiveThreadResponse:
        """See the contract."""
        scope, thread_id = _named(request.scope, request.thread_id)
        thread = await self._store.set_thread_state(scope, thread_id, ThreadState.ACTIVE)
        return svc.UnarchiveThreadResponse(thread=convert.thread(thread))

    async def DeleteThread(self, request: svc.DeleteThreadRequest, context: Call) -> svc.DeleteThreadResponse:
        """See the contract."""
        scope, thread_id = _named(request.scope, request.thread_id)
        deleted = await self._store.delete_thread(scope, thread_id)
        self._gone(scope, thread_id)
        return svc.DeleteThreadResponse(deleted_run_count=deleted)

    async def DeleteRun(self, request: svc.DeleteRunRequest, context: Call) -> svc.DeleteRunResponse:
        """See the contract."""
        scope, run_id = checks.scope(request.scope), checks.required("run_id", request.run_id)
        # A caller who leaves meanwhile leaves a thread behind whose summary is to be made anew all the same.
        await asyncio.shield(self._delete_run(scope, run_id))
        return svc.DeleteRunResponse()

    async def _delete_run(self, scope: Scope, run_id: str) -> None:
        self._changed(scope, await self._store.delete_run(scope, run_id))


def _named(scope: pb.Scope, thread_id: str) -> tuple[Scope, str]:
    return checks.scope(scope), checks.required("thread_id", thread_id)
