"""Disks that are full: what cannot be kept is refused, what can be read is, and room brings writing back."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.errors import DatabaseUnwritable
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import child, spawn
from tests.conftest import Running
from tests.fakes.provider import FakeProvider, after, by_kind, hangs, says
from tests.faults.load import REST_S, at_rest
from tests.serving import SUMMARY
from tests.talk import COMPLETED, Talk, refusal


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of six mebibytes; skipped where nobody may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "memsvc-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("NOT SHOWN what happens on a full disk: mounting a small one takes root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=True)


@pytest.fixture
def old_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that can be made to fail; skipped where nobody may mount one."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    image.write_bytes(bytes(24 << 20))
    steps = [["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(folder)]]
    if any(subprocess.run(step, capture_output=True, check=False).returncode for step in steps if have(step[0])):
        pytest.skip("NOT SHOWN what happens on a disk that turns read-only: mounting one takes root and loop devices")
    if not have("mkfs.ext4"):
        pytest.skip("NOT SHOWN what happens on a disk that turns read-only: mkfs.ext4 is missing")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=True)


def have(command: str) -> bool:
    return shutil.which(command) is not None


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


async def test_folding_that_finds_no_room_says_so_and_is_done_when_there_is_some(
    small_disk: Path, scope: pb.Scope
) -> None:
    async with FakeProvider(hangs) as provider:
        answer = asyncio.Event()
        provider.behave = after(answer, by_kind(says(SUMMARY)))
        config = small_disk / "memsvc.toml"
        config.write_text(f'[providers.own]\nbase_url = "{provider.base_url}"\nmodel = "m"\nlocal = true\n', "utf-8")
        environ = {"MEMSVC_CONFIG": str(config), "MEMSVC_RETRY_FIRST_MS": "20", "MEMSVC_RETRY_MAX_MS": "50"}
        async with child(small_disk, **environ) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
            memory: rpc.MemoryServiceAsyncStub = rpc.MemoryServiceStub(channel)
            threads: rpc.ThreadServiceAsyncStub = rpc.ThreadServiceStub(channel)
            ops: rpc.OpsServiceAsyncStub = rpc.OpsServiceStub(channel)
            for number in range(4):
                request = svc.RecordRunRequest(scope=scope, thread_key="周一", input=f"第{number}题", provider="own")
                request.outcome = COMPLETED
                thread_id = (await memory.RecordRun(request)).thread_id
            await provider.asked()
            fill(small_disk)
            answer.set()
            async with asyncio.timeout(REST_S):
                while "DISK_FULL" not in await reasons(ops, scope):
                    pass
            get = svc.GetThreadRequest(scope=scope, thread_id=thread_id)
            assert (await threads.GetThread(get)).thread.rolling_summary == ""

            make_room(small_disk)
            assert await at_rest(ops) == []
            thread = (await threads.GetThread(get)).thread
            assert thread.summarized_run_count == 2
            assert thread.rolling_summary == SUMMARY


async def reasons(ops: rpc.OpsServiceAsyncStub, scope: pb.Scope) -> set[str]:
    """Why jobs of a scope failed."""
    answer = await ops.GetWorkerStatus(svc.GetWorkerStatusRequest(scope=scope))
    return {failed.error_reason for failed in answer.failed_jobs}


def fill(folder: Path) -> None:
    """Takes all the room that is left."""
    with (folder / "filler").open("wb", buffering=0) as filler:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                pass


async def test_where_a_disk_turns_read_only_recording_says_so_and_nothing_acknowledged_is_lost(
    old_disk: Path, scope: pb.Scope
) -> None:
    def request(run_id: str) -> svc.RecordRunRequest:
        return svc.RecordRunRequest(scope=scope, run_id=run_id, thread_key="周一", input="问", outcome=COMPLETED)

    context = svc.GetContextRequest(scope=scope, thread_key="周一", input="接着说", locale="zh")
    async with child(old_disk) as daemon, daemon.memory() as memory:
        for number in range(3):
            await memory.RecordRun(request(f"run-{number}"))
        # What a kernel does to a disk whose writes fail.
        await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,abort", str(old_disk)], check=True)
        assert (await refusal(memory.RecordRun(request("run-late")))).code == "UNAVAILABLE"
        assert "‹用户› 问" in (await memory.GetContext(context)).text
        refused = await spawn(old_disk, MEMSVC_DATABASE=str(old_disk / "other.db"))
        assert await refused.ended() == DatabaseUnwritable.exit_status
    await asyncio.to_thread(subprocess.run, ["umount", str(old_disk)], check=True)
    await asyncio.to_thread(
        subprocess.run, ["mount", "-o", "loop", str(old_disk.parent / "image"), str(old_disk)], check=True
    )
    async with child(old_disk) as daemon, daemon.memory() as memory:
        assert [(await memory.RecordRun(request(f"run-{number}"))).created for number in range(3)] == [False] * 3
        assert (await memory.RecordRun(request("run-late"))).created


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
