"""MemoryService: the runner's two calls."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import grpc

from memsvc.memory import DEFAULT_RECALL_TOP_K, ContextQuery, Memory
from memsvc.rpc import checks, convert
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

MAX_RECALL_TOP_K = 10

Call = grpc.aio.ServicerContext[Any, Any]


class MemoryService(rpc.MemoryServiceServicer):
    """Check, call, reply."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def GetContext(self, request: svc.GetContextRequest, context: Call) -> svc.GetContextResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        budget, reserved = checks.token_budget(request.token_budget, request.reserved_tokens)
        query = ContextQuery(
            ref=checks.thread_ref(request.thread_id, request.thread_key),
            input=checks.text("input", request.input, checks.MAX_INPUT_BYTES),
            token_budget=budget,
            reserved_tokens=reserved,
            knowledge=checks.text("knowledge", request.knowledge, checks.MAX_TEXT_BYTES),
            recall_top_k=checks.capped("recall_top_k", request.recall_top_k, DEFAULT_RECALL_TOP_K, MAX_RECALL_TOP_K),
            locale=checks.locale(request.locale),
            time_zone=checks.time_zone(request.time_zone),
            preview=request.preview,
        )
        return convert.context(await self._memory.get_context(scope, query))

    async def RecordRun(self, request: svc.RecordRunRequest, context: Call) -> svc.RecordRunResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        ref = checks.thread_ref(request.thread_id, request.thread_key)
        run = checks.new_run(request)
        if not run.run_id:
            run = dataclasses.replace(run, run_id=f"run_{uuid.uuid4().hex}")
        recorded = await self._memory.record_run(scope, ref, run)
        return svc.RecordRunResponse(
            run_id=recorded.run_id,
            thread_id=recorded.thread_id,
            created=recorded.created,
            sequence=recorded.sequence,
        )
