"""What stands beside the services: health, its watches, reflection, and how they end."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def test_health_answers_for_the_daemon_and_for_each_service(running: Running) -> None:
    health = health_pb2_grpc.HealthStub(running.channel)
    for name in ("", *(s.full_name for s in svc.DESCRIPTOR.services_by_name.values())):
        assert (await health.Check(health_pb2.HealthCheckRequest(service=name))).status == SERVING


async def test_reflection_names_every_service(running: Running) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(running.channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = {service.name for service in (await call.read()).list_services_response.service}
    assert names >= {s.full_name for s in svc.DESCRIPTOR.services_by_name.values()} | {"grpc.health.v1.Health"}


async def test_a_watch_hears_not_serving_and_holds_no_stop_up(start: Start) -> None:
    running = await start(grace_ms=60_000)
    async with grpc.aio.insecure_channel(running.daemon.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        stopping = start.stop()  # type: ignore[attr-defined]
        await stopping  # would take the minute of grace, and this test's time limit, if the watch were waited for
        assert (await watch.read()).status == NOT_SERVING
        assert await watch.read() is grpc.aio.EOF


async def test_a_watcher_who_leaves_takes_the_watch_along(start: Start) -> None:
    running = await start(grace_ms=60_000)
    async with grpc.aio.insecure_channel(running.daemon.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        watch.cancel()
    await start.stop()  # type: ignore[attr-defined]
