"""What every test may ask for: a real daemon on a free port with its own file, stubs to call it, a scope of its own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc import app
from memsvc.config import Settings
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.units import note_threads

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Running:
    """A daemon of this test and a stub for each of its services."""

    daemon: app.Daemon
    channel: grpc.aio.Channel
    memory: rpc.MemoryServiceAsyncStub
    threads: rpc.ThreadServiceAsyncStub
    recall: rpc.RecallServiceAsyncStub
    core: rpc.CoreServiceAsyncStub
    ops: rpc.OpsServiceAsyncStub

    @classmethod
    def of(cls, daemon: app.Daemon, channel: grpc.aio.Channel) -> Running:
        """A daemon that runs, called over this channel."""
        return cls(
            daemon,
            channel,
            rpc.MemoryServiceStub(channel),
            rpc.ThreadServiceStub(channel),
            rpc.RecallServiceStub(channel),
            rpc.CoreServiceStub(channel),
            rpc.OpsServiceStub(channel),
        )

    async def settle(self) -> None:
        """Returns when the worker has nothing left to do now."""
        await self.daemon.worker.join()


Start = Callable[..., Awaitable[Running]]


@pytest.fixture(autouse=True)
def _threads_noted() -> None:
    """What a test leaves behind is told from what was there."""
    note_threads()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts daemons: `await start(**settings)`. All share one database file unless told otherwise, and stop with it.

    Only one runs on a file at a time: `await start.stop()` stops the last one before the next is started.
    """
    stacks: list[AsyncExitStack] = []

    async def begin(**settings: Any) -> Running:
        stack = AsyncExitStack()
        values = {"listen": "127.0.0.1:0", "database": tmp_path / "memsvc.db", "retry_first_ms": 20, "retry_max_ms": 50}
        daemon = await stack.enter_async_context(app.running(Settings.model_validate(values | settings)))
        stacks.append(stack)
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(daemon.address, options=[("grpc.max_receive_message_length", 32 << 20)])
        )
        return Running.of(daemon, channel)

    async def stop() -> None:
        if stacks:
            await stacks.pop().aclose()

    begin.stop = stop  # type: ignore[attr-defined]
    yield begin
    while stacks:
        await stop()


@pytest.fixture
async def running(start: Start) -> Running:
    """A daemon with nothing configured: no provider, no credential."""
    return await start()


@pytest.fixture
def scope() -> pb.Scope:
    """A scope that no other test uses."""
    return pb.Scope(tenant_id=f"tenant-{next(_numbers)}", agent_id="agent", user_id="user")
