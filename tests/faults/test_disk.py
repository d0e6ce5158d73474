"""Disks that are full: what cannot be kept is refused, what can be read is, and room brings writing back."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import child
from tests.conftest import Running
from tests.talk import COMPLETED, Talk, refusal


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
