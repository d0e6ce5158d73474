"""Networks and those who sit in them: a thousand at once, half a message and silence, a provider that never answers."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.child import Child, child
from tests.conftest import Running, Start
from tests.fakes.provider import FakeProvider, hangs
from tests.serving import NEVER_MS, own
from tests.talk import Talk
from tests.wire import DATA, END_STREAM, HEADERS, Wire, frame, headers, message, wire

GET_CONTEXT = "/memsvc.v1.MemoryService/GetContext"
MANY = 1_000


@contextmanager
def descriptors(soft: int) -> Iterator[None]:
    """Gives this process, and those that it starts, so many descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def opened(daemon: Child) -> int:
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


async def answered(connection: Wire, request: bytes) -> bool:
    """Makes a call; says whether it ended well."""
    await connection.send(headers(1, GET_CONTEXT), frame(DATA, END_STREAM, 1, message(request)))
    while heard := await connection.until(HEADERS):
        if heard.flags & END_STREAM:
            return b"grpc-status\x010" in heard.payload
    return False


async def test_a_thousand_connections_at_once_are_answered_and_leave_no_descriptor(tmp_path: Path) -> None:
    request = svc.GetContextRequest(scope=pb.Scope(tenant_id="t", agent_id="a")).SerializeToString()
    with descriptors(256):  # the daemon raises what it was given
        daemons = AsyncExitStack()
        daemon = await daemons.enter_async_context(child(tmp_path))
    async with daemons:
        before = opened(daemon)
        with descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
            async with AsyncExitStack() as stack:
                connections = await asyncio.gather(
                    *(stack.enter_async_context(wire(daemon.address)) for _ in range(MANY))
                )
                ends = await asyncio.gather(*(answered(connection, request) for connection in connections))
                assert opened(daemon) >= before + MANY
        assert sum(ends) == MANY
        async with asyncio.timeout(30):
            while opened(daemon) > before + 5:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        async with wire(daemon.address) as connection:
            assert await answered(connection, request)


async def test_half_a_message_holds_up_nobody_and_no_stop(start: Start, scope: pb.Scope) -> None:
    running = await start(grace_ms=100)
    half = message(svc.GetContextRequest(scope=scope, input="x" * 1000).SerializeToString())[:500]
    async with AsyncExitStack() as stack:
        for stage in (headers(1, GET_CONTEXT)[:20], headers(1, GET_CONTEXT), frame(DATA, 0, 1, half)):
            for _ in range(40):
                connection = await stack.enter_async_context(wire(running.daemon.address))
                await connection.send(headers(1, GET_CONTEXT) if stage[3] == DATA else b"", stage)
        talk = Talk(running, scope)
        for i in range(20):
            await talk.record(f"第{i}轮")
            assert f"第{i}轮" in (await talk.context()).text
        await start.stop()  # type: ignore[attr-defined]
        running = await start()
        assert (await Talk(running, scope, talk.thread_id).thread()).run_count == 20


async def test_while_a_provider_hangs_every_call_is_answered(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as provider:
        provider.behave = hangs
        talk = await own(start, scope, provider, model_deadline_ms=NEVER_MS, grace_ms=50)
        for i in range(5):
            await talk.record(f"第{i}轮")
        await provider.asked(1)

        async def both(i: int) -> None:
            await talk.record(f"又{i}轮")
            assert f"第{i % 5}轮" in (await talk.context()).text

        for first in range(0, 40, 8):
            await asyncio.gather(*(both(i) for i in range(first, first + 8)))
        assert len(provider.requests) == 1  # it is still being waited for
        assert (await talk.status()).pending_jobs
        await start.stop()  # type: ignore[attr-defined]


async def test_bytes_that_are_no_http_end_their_connection_and_nothing_else(running: Running, scope: pb.Scope) -> None:
    host, _, port = running.daemon.address.rpartition(":")
    for nonsense in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        os.urandom(400),
        b"PRI * HTTP/2.0\r\n\r\nSM",
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(nonsense)
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    await running.memory.GetContext(svc.GetContextRequest(scope=scope))
