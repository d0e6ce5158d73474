"""Both clients by the same verbs, so that one test holds them to one promise: the blocking one is waited
for in a thread, the other is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from memsvc_client import ActiveRun, AsyncMemory, Backoff, Memory, Scope

from memsvc.v1 import memory_service_pb2 as rpc
from tests.fakes.memory_server import refuses

SCOPE = Scope("school-7", "exam", "wang")
QUICK = Backoff(first_s=0.001, most_s=0.01)
CODE = grpc.StatusCode
FULL = refuses(CODE.RESOURCE_EXHAUSTED, "DISK_FULL")
DOWN = refuses(CODE.UNAVAILABLE)
BUSY = refuses(CODE.RESOURCE_EXHAUSTED, "RATE_LIMITED", retry_after_ms="1")
CONTEXT = rpc.GetContextResponse(thread_id="th_1", text="[前情]\n[请求]", token_count=9, token_limit=6000)
RECORDED = rpc.RecordRunResponse(run_id="run_1", thread_id="th_1", created=True, sequence=7)

Body = Callable[[ActiveRun], None]


class Blocking:
    """`Memory`, used from another thread as any blocking client must be on an event loop."""

    def __init__(self, address: str, **options: Any) -> None:
        self.memory = Memory(address, **options)

    async def ask(self, call: Callable[[Any], Any]) -> Any:
        return await asyncio.to_thread(call, self.memory)

    async def listed(self, call: Callable[[Any], Any]) -> list[Any]:
        return await asyncio.to_thread(lambda: list(call(self.memory)))

    async def run(self, body: Body, **options: Any) -> ActiveRun:
        def block() -> ActiveRun:
            with self.memory.run(SCOPE, **options) as run:
                runs.append(run)
                body(run)
            return run

        runs: list[ActiveRun] = []
        return await asyncio.to_thread(block)

    async def close(self) -> None:
        await asyncio.to_thread(self.memory.close)


class Awaited:
    """`AsyncMemory` by the same verbs."""

    def __init__(self, address: str, **options: Any) -> None:
        self.memory = AsyncMemory(address, **options)

    async def ask(self, call: Callable[[Any], Any]) -> Any:
        return await call(self.memory)

    async def listed(self, call: Callable[[Any], Any]) -> list[Any]:
        return [each async for each in call(self.memory)]

    async def run(self, body: Body, **options: Any) -> ActiveRun:
        async with self.memory.run(SCOPE, **options) as run:
            body(run)
        return run

    async def close(self) -> None:
        await self.memory.close()


Client = Blocking | Awaited


def context(memory: Any) -> Any:
    return memory.get_context(SCOPE, "简答题换两道")
