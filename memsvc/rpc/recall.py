"""RecallService: the episodes, for inspection and for tools."""

from __future__ import annotations

import math
from typing import Any

import grpc

from memsvc.errors import InvalidField
from memsvc.memory import DEFAULT_RECALL_TOP_K, Memory
from memsvc.rpc import checks, convert
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

MAX_TOP_K = 100

Call = grpc.aio.ServicerContext[Any, Any]


class RecallService(rpc.RecallServiceServicer):
    """Check, call, reply."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def Search(self, request: svc.SearchRequest, context: Call) -> svc.SearchResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        query = checks.text("query", request.query, checks.MAX_INPUT_BYTES)
        top_k = checks.capped("top_k", request.top_k, DEFAULT_RECALL_TOP_K, MAX_TOP_K)
        if math.isnan(request.min_score) or not 0 <= request.min_score <= 1:
            raise InvalidField("min_score", "must be from 0 to 1")
        hits = await self._memory.search(scope, query, top_k, request.min_score)
        return svc.SearchResponse(
            hits=[pb.RecallHit(run=convert.run(h.run), score=h.score, snippet=h.snippet) for h in hits]
        )
