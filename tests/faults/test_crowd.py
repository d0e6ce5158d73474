"""Many callers at once: what is too much is refused with a reason, and nobody's slow question is another's wait."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.store.sqlite.store import SqliteStore
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.talk import Talk, reason_of
from tests.units import held


@contextmanager
def readers_held(running: Running, *which: int) -> Iterator[None]:
    """Keeps connections that read busy, all of them unless some are named."""
    store = running.daemon.store
    assert isinstance(store, SqliteStore)
    readers = store._db._readers
    with ExitStack() as stack:
        for number in which or range(len(readers)):
            stack.enter_context(held(readers[number]))
        yield


async def outcome(call: Awaitable[object]) -> str:
    """Makes a call; says how it ended."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {reason_of(error)}"
    return "OK"


async def test_one_call_too_many_is_told_so_and_health_is_asked_as_ever(start: Start, scope: pb.Scope) -> None:
    running = await start(max_concurrent_calls=4)
    request = svc.GetContextRequest(scope=scope, input="x")
    with readers_held(running):
        calls = [asyncio.ensure_future(outcome(running.memory.GetContext(request))) for _ in range(7)]
        # Four wait for a connection; the others are answered, and are the only ones that can be.
        answered = [await done for done in itertools.islice(asyncio.as_completed(calls), 3)]
        assert answered == ["RESOURCE_EXHAUSTED RATE_LIMITED"] * 3
        health = health_pb2_grpc.HealthStub(running.channel)
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
    assert sorted(await asyncio.gather(*calls)) == ["OK"] * 4 + ["RESOURCE_EXHAUSTED RATE_LIMITED"] * 3
    assert [await outcome(running.memory.GetContext(request)) for _ in range(9)] == ["OK"] * 9


async def test_of_a_burst_every_call_is_answered_or_told_why_not(running: Running, scope: pb.Scope) -> None:
    request = svc.GetContextRequest(scope=scope, input="x")
    ends = await asyncio.gather(*[outcome(running.memory.GetContext(request)) for _ in range(2_500)])
    assert set(ends) <= {"OK", "RESOURCE_EXHAUSTED RATE_LIMITED"}
    assert "OK" in ends


async def test_a_search_through_all_that_was_said_holds_up_no_context(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    await talk.record("出一份数据结构试卷")
    with readers_held(running, -1):
        request = svc.ListThreadsRequest(scope=scope, query="试卷")
        slow = [asyncio.ensure_future(running.threads.ListThreads(request)) for _ in range(4)]
        for _ in range(10):
            assert "数据结构" in (await talk.context()).text
        assert len((await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope))).threads) == 1
        assert not any(call.done() for call in slow)
    assert [len(answer.threads) for answer in await asyncio.gather(*slow)] == [1] * 4
