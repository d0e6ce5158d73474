"""Metrics of a real daemon, read as Prometheus reads them: names and numbers of ours, and nothing that anyone said."""

from __future__ import annotations

import asyncio
import socket
import urllib.request

import pytest

from memsvc.errors import AddressTaken
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Start
from tests.fakes.provider import FakeProvider, hangs


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def _scrape(address: str) -> dict[str, float]:
    def read() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    lines = [line for line in (await asyncio.to_thread(read)).splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_calls_folds_tokens_cost_and_the_queue_are_counted(start: Start, scope: pb.Scope) -> None:
    address = _free_address()
    before = None
    async with FakeProvider() as provider:
        entry = {"base_url": provider.base_url, "model": "m", "input_price_micros_per_million": 1_000_000}
        running = await start(metrics_listen=address, providers={"cloud": entry})
        before = await _scrape(address)
        for number in range(4):
            await running.memory.RecordRun(
                svc.RecordRunRequest(
                    scope=scope,
                    thread_key="k",
                    input=f"needle{number}",
                    outcome=pb.RUN_OUTCOME_COMPLETED,
                    provider="cloud",
                )
            )
        await running.settle()
        after = await _scrape(address)

    def grown(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    assert grown('memsvc_calls_total{code="OK",method="/memsvc.v1.MemoryService/RecordRun"}') == 4
    assert grown('memsvc_call_seconds_count{method="/memsvc.v1.MemoryService/RecordRun"}') == 4
    assert grown('memsvc_memory_ops_total{kind="fold",provider="cloud",reason="OK"}') >= 1
    assert grown('memsvc_memory_tokens_total{direction="input",provider="cloud"}') > 0
    assert grown('memsvc_memory_cost_micros_total{provider="cloud"}') > 0
    assert after["memsvc_pending_jobs"] == 0
    assert "memsvc_unfolded_runs" in after
    assert not any("needle" in name for name in after)


async def test_work_that_waits_is_counted_as_waiting(start: Start, scope: pb.Scope) -> None:
    address = _free_address()
    async with FakeProvider() as provider:
        provider.behave = hangs
        entry = {"base_url": provider.base_url, "model": "m"}
        running = await start(metrics_listen=address, providers={"cloud": entry}, model_deadline_ms=50, grace_ms=50)
        for number in range(3):
            await running.memory.RecordRun(
                svc.RecordRunRequest(
                    scope=scope, thread_key="k", input=str(number), outcome=pb.RUN_OUTCOME_COMPLETED, provider="cloud"
                )
            )
        await provider.asked(1)
        assert (await _scrape(address))["memsvc_pending_jobs"] > 0


async def test_a_taken_address_of_the_metrics_stops_the_start(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AddressTaken):
            await start(metrics_listen=f"127.0.0.1:{taken.getsockname()[1]}")
