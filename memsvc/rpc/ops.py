"""OpsService: cost, background work and notices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from zoneinfo import ZoneInfo

import grpc

from memsvc import exchange
from memsvc.config import Settings
from memsvc.errors import InvalidField, ScopeDenied
from memsvc.model import Scope
from memsvc.rpc import checks, convert
from memsvc.rpc.guard import caller
from memsvc.rpc.pages import Pager
from memsvc.rules.usage import Group, add_up
from memsvc.status import Status
from memsvc.store import Store
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

Call = grpc.aio.ServicerContext[Any, Any]
Bring = Callable[[Scope, AsyncIterator[bytes], str], Awaitable[exchange.Import]]


class OpsService(rpc.OpsServiceServicer):
    """Check, call, reply. `status` tells of the worker and the providers, `gone` is told of deleted scopes.

    `bring` imports the bytes of a file into a scope, in the name of somebody.
    """

    def __init__(
        self, store: Store, settings: Settings, status: Status, gone: Callable[[Scope], None], bring: Bring
    ) -> None:
        self._store, self._settings, self._status, self._gone = store, settings, status, gone
        self._bring = bring

    async def GetUsage(self, request: svc.GetUsageRequest, context: Call) -> svc.GetUsageResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        if request.group_by not in svc.UsageGroup.values():
            raise InvalidField("group_by", "is no grouping that this daemon knows")
        zone = ZoneInfo(checks.time_zone(request.time_zone) or self._settings.time_zone)
        rows = await self._store.usage(scope, request.thread_id, *_span(request))
        total, buckets = add_up(rows, Group(request.group_by), zone)
        return svc.GetUsageResponse(
            runs=convert.usage(total.runs),
            memory=convert.usage(total.memory),
            total=convert.usage(total.runs + total.memory),
            buckets=[
                svc.UsageBucket(key=b.key, runs=convert.usage(b.runs), memory=convert.usage(b.memory)) for b in buckets
            ],
            currency_code=self._settings.currency,
        )

    async def ListMemoryOps(self, request: svc.ListMemoryOpsRequest, context: Call) -> svc.ListMemoryOpsResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        span = _span(request)
        pager = Pager(self._store.secret, "ops", scope, request.thread_id, span)
        page = pager.page(request.page_token, request.page_size, 50, 200)
        ops, after = await self._store.list_ops(scope, request.thread_id, page, *span)
        return svc.ListMemoryOpsResponse(memory_ops=map(convert.memory_op, ops), next_page_token=pager.token(after))

    async def GetWorkerStatus(self, request: svc.GetWorkerStatusRequest, context: Call) -> svc.GetWorkerStatusResponse:
        """See the contract."""
        scope = checks.scope(request.scope) if request.HasField("scope") else None
        who = caller.get()
        if scope is None and not (who.sees_all and who.role == "admin"):
            raise ScopeDenied
        report = await self._status.report(scope)
        return svc.GetWorkerStatusResponse(
            pending_jobs=report.pending_jobs,
            unfolded_runs=report.unfolded_runs,
            failed_jobs=[
                svc.FailedJob(
                    thread_id=failure.job.thread_id,
                    kind=pb.MemoryOpKind.ValueType(failure.job.kind),
                    error_reason=failure.reason,
                    attempts=failure.attempts,
                    next_attempt_time=convert.timestamp(failure.next_attempt_us),
                )
                for failure in report.failures
            ],
            providers=[
                svc.ProviderStatus(
                    provider=p.name,
                    local=p.local,
                    usable=p.usable,
                    last_error_reason=p.last_error_reason,
                    retry_time=None if p.retry_us is None else convert.timestamp(p.retry_us),
                )
                for p in report.providers
            ],
        )

    async def ListNotices(self, request: svc.ListNoticesRequest, context: Call) -> svc.ListNoticesResponse:
        """See the contract."""
        found = await self._store.list_notices(checks.scope(request.scope))
        return svc.ListNoticesResponse(notices=map(convert.notice, found))

    async def AcknowledgeNotice(
        self, request: svc.AcknowledgeNoticeRequest, context: Call
    ) -> svc.AcknowledgeNoticeResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        await self._status.acknowledge(scope, checks.required("notice_id", request.notice_id))
        return svc.AcknowledgeNoticeResponse()

    async def ListScopes(self, request: svc.ListScopesRequest, context: Call) -> svc.ListScopesResponse:
        """See the contract."""
        who = caller.get()
        tenants = None if who.sees_all else sorted(who.tenants)
        # A token is good for the tenants it was given for: a credential with others starts over.
        pager = Pager(self._store.secret, "scopes", tenants)
        page = pager.page(request.page_token, request.page_size, 100, 1000)
        found, after = await self._store.list_scopes(tenants, page)
        return svc.ListScopesResponse(scopes=map(convert.scope, found), next_page_token=pager.token(after))

    async def ExportScope(
        self, request: svc.ExportScopeRequest, context: Call
    ) -> AsyncIterator[svc.ExportScopeResponse]:
        """See the contract."""
        async for data in exchange.export(self._store, checks.scope(request.scope)):
            yield svc.ExportScopeResponse(data=data)

    async def ImportScope(
        self, request: AsyncIterator[svc.ImportScopeRequest], context: Call
    ) -> svc.ImportScopeResponse:
        """See the contract."""
        first = await anext(request, svc.ImportScopeRequest())
        scope = checks.scope(first.scope)
        done = await self._bring(scope, _data(scope, first, request), caller.get().name or "import")
        return svc.ImportScopeResponse(
            thread_count=done.brought.threads,
            run_count=done.brought.runs,
            fact_count=done.brought.facts,
            candidate_count=done.brought.candidates,
            refused_count=done.refused,
            no_room_count=done.brought.no_room,
        )

    async def DeleteScope(self, request: svc.DeleteScopeRequest, context: Call) -> svc.DeleteScopeResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        deleted = await self._store.delete_scope(scope)
        self._gone(scope)
        return svc.DeleteScopeResponse(
            deleted_thread_count=deleted.threads,
            deleted_run_count=deleted.runs,
            deleted_fact_count=deleted.facts,
        )


async def _data(
    scope: Scope, first: svc.ImportScopeRequest, rest: AsyncIterator[svc.ImportScopeRequest]
) -> AsyncIterator[bytes]:
    """The bytes of an import's messages; a later one that names a scope names the same."""
    yield first.data
    async for part in rest:
        if part.HasField("scope") and checks.scope(part.scope) != scope:
            raise InvalidField("scope", "names another one than the first message; send it with the first alone")
        yield part.data


def _span(request: svc.GetUsageRequest | svc.ListMemoryOpsRequest) -> tuple[int | None, int | None]:
    return checks.span(
        request.start_time if request.HasField("start_time") else None,
        request.end_time if request.HasField("end_time") else None,
    )
