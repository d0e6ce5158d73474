"""Assembles the gRPC server: the five services behind the guard, health and reflection beside them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from memsvc.config import Settings
from memsvc.errors import AddressTaken
from memsvc.rpc import leaving
from memsvc.rpc.guard import Guard
from memsvc.tls import Certificates, Papers
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

MAX_RECEIVED_CALLS = 8_000
"""Calls that gRPC itself takes at once, refused ones included. It drops what is more without a reason, so the guard
refuses long before this."""

LAST_WORD_S = 0.1
"""How long a watch of the daemon's health has to read NOT_SERVING before it is ended."""

KEEPALIVE_MS = 120_000
KEEPALIVE_TIMEOUT_MS = 20_000
"""A peer that is silent for so long is asked whether it is there, and its connection closed where no answer comes."""
HANDSHAKE_MS = 20_000
"""How long a new connection has to say that it speaks HTTP/2."""
AGE_GRACE_MS = 600_000
"""What calls of a connection that has grown old have to end in, long downloads among them. It is also the most that a
caller can hold a call open for without ever sending its message."""


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_receive_bytes),
        ("grpc.max_send_message_length", settings.max_send_bytes),
        # The first is where refusing begins, at random; the second where it is certain. Here they are one.
        ("grpc.max_metadata_size", settings.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", settings.max_metadata_bytes),
        # A port that another process listens on must be refused, not shared.
        ("grpc.so_reuseport", 0),
        # Calls come one by one from gRPC's core, which from 1,000 that wait on cancels some at random and gives no
        # reason.
        ("grpc.server.max_pending_requests", MAX_RECEIVED_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", MAX_RECEIVED_CALLS),
        ("grpc.max_allowed_incoming_connections", settings.max_connections),
        ("grpc.max_connection_age_ms", settings.max_connection_age_ms),
        ("grpc.max_connection_age_grace_ms", AGE_GRACE_MS),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # Callers may ask whether we are there, between calls as well, and as often as this.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", settings.min_ping_interval_ms),
    ]


def _credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """TLS with these certificates; they are looked at again whenever somebody connects."""

    def shown(papers: Papers) -> Any:
        return grpc.ssl_server_certificate_configuration([(papers.key, papers.certificate)], papers.client_ca)

    def renewed() -> Any:
        papers = certificates.renewed()
        return shown(papers) if papers else None

    return grpc.dynamic_ssl_server_credentials(
        shown(certificates.papers),
        renewed,
        require_client_authentication=certificates.papers.client_ca is not None,
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

    def __init__(self, services: Services, guard: Guard, settings: Settings, certificates: Certificates | None) -> None:
        leaving.listen(asyncio.get_running_loop())
        self._server = grpc.aio.server(
            interceptors=[guard], options=_options(settings), maximum_concurrent_rpcs=MAX_RECEIVED_CALLS
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
            if certificates is None:
                self.port = self._server.add_insecure_port(settings.listen)
            else:
                self.port = self._server.add_secure_port(settings.listen, _credentials(certificates))
        except RuntimeError:
            raise AddressTaken(settings.listen) from None

    async def start(self) -> None:
        """Begins to answer, and says so to whoever asks for its health."""
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_ms: int) -> None:
        """Says NOT_SERVING, takes no new call, and waits at most `grace_ms` for those that run."""
        await self._health.end()
        await self._server.stop(grace_ms / 1000)
