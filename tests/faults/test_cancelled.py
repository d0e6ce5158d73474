"""Calls cancelled at every stage: nothing is left of them, in tasks, in memory, or half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.auth import Caller
from memsvc.rpc import guard, leaving
from memsvc.rpc.leaving import CallTask
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.faults.test_crowd import readers_held
from tests.talk import Talk
from tests.wire import CANCEL, DATA, END_STREAM, RST_STREAM, frame, headers, message, wire

GET_CONTEXT = "/memsvc.v1.MemoryService/GetContext"
FRAME_BYTES = 16_384


def gone(stream: int) -> bytes:
    return frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))


def frames(stream: int, data: bytes) -> bytes:
    """A whole message."""
    parts = [data[begin : begin + FRAME_BYTES] for begin in range(0, len(data), FRAME_BYTES)]
    return b"".join(frame(DATA, END_STREAM if part is parts[-1] else 0, stream, part) for part in parts)


def calls() -> set[CallTask]:
    return {task for task in asyncio.all_tasks() if isinstance(task, CallTask)}


async def until(holds: Callable[[], bool]) -> None:
    """Returns when it holds. Nobody tells of calls that come and go within the library, so it is looked at again."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def until_idle() -> None:
    """Returns when no call is left."""
    await until(lambda: not calls())


@pytest.mark.parametrize("stage", ["begun", "half", "sent"])
async def test_whoever_leaves_leaves_no_call_behind(running: Running, scope: pb.Scope, stage: str) -> None:
    whole = message(svc.GetContextRequest(scope=scope, input="x", knowledge="知识。" * 3_000).SerializeToString())
    async with wire(running.daemon.address) as connection:
        for number in range(100):
            stream = 2 * number + 1
            sent = {"begun": b"", "half": frame(DATA, 0, stream, whole[:99]), "sent": frames(stream, whole)}[stage]
            await connection.send(headers(stream, GET_CONTEXT), sent)
            for _ in range(number % 20):
                await asyncio.sleep(0)  # a turn of the loop, so that each leaves at another moment
            await connection.send(gone(stream))
        await until_idle()
        # The connection is as good as ever, and so is the daemon.
        await connection.send(headers(1001, GET_CONTEXT), frames(1001, whole))
        assert await connection.until(DATA) is not None
    assert not (await Talk(running, scope).context()).text


async def test_a_call_is_cancelled_within_our_code(running: Running, scope: pb.Scope) -> None:
    with readers_held(running):
        call = running.memory.GetContext(svc.GetContextRequest(scope=scope))
        await until(lambda: any(task.within for task in calls()))
        call.cancel()
        await until_idle()  # though what it waits for never comes


async def test_a_watch_of_the_health_ends_with_whoever_watched(running: Running) -> None:
    for _ in range(5):
        watch = health_pb2_grpc.HealthStub(running.channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        assert calls()
        watch.cancel()
        await until_idle()


async def test_a_call_whose_caller_has_gone_is_not_begun() -> None:
    begun = []

    async def call() -> None:
        await asyncio.sleep(0)  # for the library
        with leaving.OURS:
            begun.append(True)

    for left in (False, True):
        task = CallTask(call(), loop=asyncio.get_running_loop())
        if left:
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() is left
    assert begun == [True]


async def test_an_upload_whose_caller_leaves_never_looks_complete() -> None:
    arrived: list[str] = []

    async def half() -> AsyncIterator[str]:
        yield "first"
        task = asyncio.current_task()
        assert isinstance(task, CallTask)
        assert not task.within
        task.cancel()
        # Here the library ends the stream, as it does where everything has been sent.

    async def call() -> None:
        with leaving.OURS:
            async for part in guard._admitted(half(), Caller("", "admin", ("*",))):
                arrived.append(part)
            arrived.append("end")

    task = CallTask(call(), loop=asyncio.get_running_loop())
    await asyncio.wait([task])
    assert task.cancelled()
    assert arrived == ["first"]
