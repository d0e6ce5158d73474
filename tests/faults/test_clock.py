"""Clocks that step back: order and cursors are the order of recording, whatever the clock says."""

from __future__ import annotations

from pathlib import Path

import grpc

from memsvc import app
from memsvc.config import Settings
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.talk import Talk


async def test_order_and_cursors_hold_though_the_clock_steps_back(tmp_path: Path, scope: pb.Scope) -> None:
    now = [1_764_547_200_000_000]

    def clock() -> int:
        return now[0]

    settings = Settings.model_validate({"listen": "127.0.0.1:0", "database": tmp_path / "memsvc.db"})
    async with app.running(settings, clock) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        running = Running.of(daemon, channel)
        talk, other = Talk(running, scope), Talk(running, scope)
        for i in range(8):
            await talk.turns(f"第{i}轮")
            now[0] -= 86_400_000_000 * (i % 3)  # a day back, two days back, or not at all
        await other.record("最后说的")
        shown = (await talk.context()).text
        assert [line for line in shown.split("\n") if line.startswith("‹用户›")] == ["‹用户› 第6轮", "‹用户› 第7轮"]
        thread = await talk.thread()
        assert (thread.summarized_run_count, thread.run_count) == (6, 8)
        assert all(f"第{i}轮" in thread.rolling_summary for i in range(6))
        request = svc.ListRunsRequest(scope=scope, thread_id=talk.thread_id)
        runs = (await running.threads.ListRuns(request)).runs
        assert [run.input for run in runs] == [f"第{i}轮" for i in range(8)]
        assert [run.sequence for run in runs] == sorted(run.sequence for run in runs)
        assert runs[0].create_time.seconds > runs[-1].create_time.seconds
        listed = (await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope))).threads
        assert [t.title for t in listed] == ["最后说的", "第0轮"]
        assert (await talk.status()).unfolded_runs == 0
