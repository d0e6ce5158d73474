"""kill -9 in the middle of an import: nothing of it is there then, or all of it, and a start sees to the rest."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from memsvc.store import verify_database
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import child
from tests.conftest import Start
from tests.talk import COMPLETED
from tests.test_export import exported, of_type
from tests.test_import import imported
from tests.units import contents

RUNS, TURNS = 300, 20
NEEDLE = "zqneedle"

SHOWING = {
    "staged": "SELECT count(*) > 100 FROM runs JOIN threads USING (thread_no) WHERE state < 0",
    "shown": "SELECT count(*) FROM scopes WHERE agent_id = 'staged'",
}
"""What a look into the file finds at the moment to kill."""


def file() -> bytes:
    """An export of many runs with many words."""
    lines: list[dict[str, object]] = [{"type": "memsvc-export", "version": 1}]
    ids = ["th_" + f"{n:024}".translate(str.maketrans("0123456789", "abcdefghij")) for n in range(RUNS // TURNS)]
    times = {"created_us": 1, "updated_us": 1}
    lines += [{"type": "thread", "thread_id": each, "locale": "en", **times} for each in ids]
    for number in range(RUNS):
        words = " ".join(f"{NEEDLE}{number * k}" for k in range(1, 60))
        texts = {"outcome": "COMPLETED", "input": words, "output": "", "created_us": 1, "ended_us": 1}
        lines.append({"type": "run", "run_id": f"r{number}", "thread_id": ids[number // TURNS], **texts})
    lines.append({"type": "end", "line_count": len(lines)})
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize("moment", SHOWING)
async def test_an_import_that_is_killed_is_there_whole_or_not_at_all(
    start: Start, scope: pb.Scope, tmp_path: Path, moment: str
) -> None:
    beside = pb.Scope(tenant_id=scope.tenant_id, agent_id="agent", user_id="beside")
    data = file()
    kept: list[str] = []
    async with child(tmp_path) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        memory, ops = rpc.MemoryServiceStub(channel), rpc.OpsServiceStub(channel)
        call = ops.ImportScope(iter([svc.ImportScopeRequest(scope=scope, data=data)]))
        task = asyncio.ensure_future(asyncio.wait_for(call, 60))
        with closing(sqlite3.connect(tmp_path / "memsvc.db")) as look:
            while not task.done() and not look.execute(SHOWING[moment]).fetchone()[0]:
                request = svc.RecordRunRequest(scope=beside, input="旁边的话", outcome=COMPLETED)
                kept.append((await memory.RecordRun(request)).run_id)
        daemon.kill()
        await asyncio.wait([task])

    running = await start()
    there = len(of_type(await exported(running, scope), "run"))
    assert there == RUNS or (there == 0 and moment == "staged")
    # An import waits for what is being taken out, and brings what is missing.
    assert (await imported(running, scope, data)).run_count == RUNS - there
    hits = (await running.recall.Search(svc.SearchRequest(scope=scope, query=f"{NEEDLE}299"))).hits
    assert "r299" in {hit.run.run_id for hit in hits}
    for run_id in kept:
        assert (await running.threads.GetRun(svc.GetRunRequest(scope=beside, run_id=run_id))).run.input == "旁边的话"
    assert verify_database(tmp_path / "memsvc.db").findings == []
    await running.ops.DeleteScope(svc.DeleteScopeRequest(scope=scope))
    assert not any(NEEDLE.encode() in content for content in contents(tmp_path).values())
