"""The process: stopped, crowded out, and overheard."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import child, spawn
from tests.conftest import Start
from tests.fakes.provider import FakeProvider, status
from tests.talk import COMPLETED, FAILED, Refusal, refusal

SCOPE = pb.Scope(tenant_id="school-7", agent_id="exam")


def run(run_id: str, key: str, text: str = "出一份试卷") -> svc.RecordRunRequest:
    """A run to record, the same whenever it is sent."""
    return svc.RecordRunRequest(
        scope=SCOPE, run_id=run_id, thread_key=key, input=f"{run_id}：{text}", output=text, outcome=COMPLETED
    )


async def test_sigterm_lets_calls_finish_says_not_serving_and_exits_0(tmp_path: Path, start: Start) -> None:
    answered: set[str] = set()
    async with child(tmp_path) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        memory = rpc.MemoryServiceStub(channel)
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        first = asyncio.Event()
        codes: set[grpc.StatusCode] = set()

        async def record(i: int) -> None:
            try:
                await memory.RecordRun(run(f"run-{i}", f"第{i % 5}个", "答" * 30_000))
                answered.add(f"run-{i}")
            except grpc.aio.AioRpcError as error:
                codes.add(error.code())
            first.set()

        calls = [asyncio.create_task(record(i)) for i in range(15)]
        await first.wait()
        daemon.process.send_signal(signal.SIGTERM)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()  # or it would be waited for as a call that runs
        await asyncio.gather(*calls)
        assert codes <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        assert await daemon.ended() == 0
        assert "Traceback" not in "".join(daemon.said)
        assert '"stopped"' in daemon.said[-1]
    running = await start(database=tmp_path / "memsvc.db")
    for run_id in answered:
        await running.threads.GetRun(svc.GetRunRequest(scope=SCOPE, run_id=run_id))


async def test_a_second_daemon_on_the_file_and_a_taken_port_are_one_line_and_a_status(tmp_path: Path) -> None:
    async with child(tmp_path) as daemon:
        second = await spawn(tmp_path)
        assert await second.ended() == 75
        (line,) = "".join(second.said).splitlines()
        assert "memsvc.db is in use by another memsvc" in line

        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        crowded = await spawn(elsewhere, MEMSVC_LISTEN=daemon.address)
        assert await crowded.ended() == 75
        (line,) = "".join(crowded.said).splitlines()
        assert daemon.address in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MEMSVC_LISTEN", "0.0.0.0:50051"),
        ("MEMSVC_TOKENIZER", "no_such_encoding"),
        ("MEMSVC_CONFIG", "missing.toml"),
        ("MEMSVC_DATABASE", "missing/folder/memsvc.db"),
    ],
)
async def test_a_start_that_cannot_be_says_why_in_one_line(tmp_path: Path, name: str, value: str) -> None:
    refused = await spawn(tmp_path, **{name: value})
    assert await refused.ended() in (69, 73, 78)
    (line,) = "".join(refused.said).splitlines()
    assert line.startswith("memsvc: ")
    assert name in line
    assert os.listdir(tmp_path) == []


def write(folder: Path, table: str) -> None:
    (folder / "memsvc.toml").write_text(table, "utf-8")


NEEDLES = [f"needle{letter}" for letter in "abcdefghijkl"]


async def test_no_word_of_content_is_in_a_log_or_an_error(tmp_path: Path) -> None:
    a, b, c, d, e, f, g, h, i, j, k, m = NEEDLES
    refused: list[Refusal] = []
    async with FakeProvider(status(500, body=f"{a} is no prompt".encode())) as provider:
        table = f'[providers.own]\nbase_url = "{provider.base_url}"\nmodel = "m"\nlocal = true\n'
        write(tmp_path, table)
        async with (
            child(tmp_path, MEMSVC_LOG_LEVEL="debug", MEMSVC_RETRY_FIRST_MS="10") as daemon,
            grpc.aio.insecure_channel(daemon.address) as channel,
        ):
            memory, threads = rpc.MemoryServiceStub(channel), rpc.ThreadServiceStub(channel)

            def record(run_id: str, given: str, **fields: Any) -> svc.RecordRunRequest:
                values: dict[str, Any] = {"thread_key": b, "output": c, "outcome": COMPLETED, "provider": "own"}
                return svc.RecordRunRequest(scope=SCOPE, run_id=run_id, input=given, **(values | fields))

            for n in range(4):
                await memory.RecordRun(record(f"run-{n}", d, labels={"k": e}, outcome=(COMPLETED, FAILED)[n % 2]))
            thread_id = (await memory.RecordRun(record("run-9", d))).thread_id
            await memory.GetContext(svc.GetContextRequest(scope=SCOPE, thread_key=b, input=f, knowledge=g))
            await threads.ListThreads(svc.ListThreadsRequest(scope=SCOPE, query=h))
            await threads.RenameThread(svc.RenameThreadRequest(scope=SCOPE, thread_id=thread_id, title=i))
            await provider.asked(3)
            core = rpc.CoreServiceStub(channel)
            for call in (
                memory.RecordRun(record("run-9", j)),
                memory.RecordRun(record("run-8", k * 50_000)),
                memory.GetContext(svc.GetContextRequest(scope=SCOPE, input=k, locale=m)),
                memory.GetContext(svc.GetContextRequest(scope=SCOPE, thread_id=m)),
                threads.ListRuns(svc.ListRunsRequest(scope=SCOPE, thread_id=thread_id, page_token=m)),
                threads.GetRun(svc.GetRunRequest(scope=SCOPE, run_id=m)),
                threads.RenameThread(svc.RenameThreadRequest(scope=SCOPE, thread_id=thread_id, title=k * 40)),
                core.CreateFact(svc.CreateFactRequest(scope=SCOPE, text=f"{k} 身份证号11010519491231002X")),
                core.CreateFact(svc.CreateFactRequest(scope=SCOPE, text=k * 40)),
            ):
                refused.append(await refusal(call))
            daemon.process.send_signal(signal.SIGTERM)
            assert await daemon.ended() == 0
    said = "".join(daemon.said)
    assert '"job_failed"' in said
    assert '"call_refused"' in said
    assert not any(needle in said for needle in NEEDLES)
    assert len(refused) == 9
    assert not any(needle in str(answer) for answer in refused for needle in NEEDLES)
