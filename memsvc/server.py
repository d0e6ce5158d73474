"""Assembles the gRPC server: the five services behind the guard, health and reflection beside them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from memsvc.errors import AddressTaken
from memsvc.rpc.guard import Guard
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

MAX_REQUEST_BYTES = 8 << 20
MAX_REPLY_BYTES = 16 << 20
MAX_RECEIVED_CALLS = 8_000
"""Calls that gRPC itself takes at once, refused ones included. It drops what is more without a reason, so the guard
refuses long before this."""

LAST_WORD_S = 0.1
"""How long a watch of the daemon's health has to read NOT_SERVING before it is ended."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_REPLY_BYTES),
    # A port that another process listens on must be refused, not shared.
    ("grpc.so_reuseport", 0),
    # Calls come one by one from gRPC's core, which from 1,000 that wait on cancels some at random and gives no reason.
    ("grpc.server.max_pending_requests", MAX_RECEIVED_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", MAX_RECEIVED_CALLS),
)


@dataclass(frozen=True)
class Services:
    """The implementations of the contract's services."""

    memory: rpc.MemoryServiceServicer
    threads: rpc.ThreadServiceServicer
    recall: rpc.RecallServiceServicer
    core: rpc.CoreServiceServicer
    ops: rpc.OpsServiceServicer


class _Health(health.aio.HealthServicer):  # type: ignore[misc]  # the package has no types
    """The standard health service, whose watches end when the daemon does: one is a call that would run for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._watches: set[asyncio.Task[None]] = set()

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:  # noqa: N802
        """Tells of every change until the caller has enough or the daemon stops."""
        watch = asyncio.create_task(super().Watch(request, context))
        self._watches.add(watch)
        try:
            await asyncio.wait([watch])
        finally:
            self._watches.discard(watch)
            watch.cancel()

    async def end(self) -> None:
        """Says NOT_SERVING to whoever asks or watches, and ends the watches."""
        await self.enter_graceful_shutdown()
        if self._watches:
            await asyncio.wait(self._watches, timeout=LAST_WORD_S)
        for watch in list(self._watches):
            watch.cancel()


class Server:
    """The listening server. `port` is the one it got where port 0 was asked for."""

    def __init__(self, services: Services, guard: Guard, address: str) -> None:
        self._server = grpc.aio.server(
            interceptors=[guard], options=_OPTIONS, maximum_concurrent_rpcs=MAX_RECEIVED_CALLS
        )
        rpc.add_MemoryServiceServicer_to_server(services.memory, self._server)
        rpc.add_ThreadServiceServicer_to_server(services.threads, self._server)
        rpc.add_RecallServiceServicer_to_server(services.recall, self._server)
        rpc.add_CoreServiceServicer_to_server(services.core, self._server)
        rpc.add_OpsServiceServicer_to_server(services.ops, self._server)
        self._health = _Health()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = [s.full_name for s in svc.DESCRIPTOR.services_by_name.values()]
        reflection.enable_server_reflection([*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server)
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise AddressTaken(address) from None

    async def start(self) -> None:
        """Begins to answer, and says so to whoever asks for its health."""
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_ms: int) -> None:
        """Says NOT_SERVING, takes no new call, and waits at most `grace_ms` for those that run."""
        await self._health.end()
        await self._server.stop(grace_ms / 1000)
