"""kill -9 in the middle of a large deletion: all of it is hidden or none, and a start sees it to its end."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.store import verify_database
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import Child, child
from tests.conftest import Start
from tests.talk import COMPLETED, Talk, refusal
from tests.units import contents

RUNS = 320
NEEDLES = ("zqneedle", "饕餮貔貅")


def run(scope: pb.Scope, number: int, key: str) -> svc.RecordRunRequest:
    """A run with many words of its own, so that its deletion rewrites many pages."""
    words = " ".join(f"{NEEDLES[0]}{number * k}" for k in range(1, 60))
    return svc.RecordRunRequest(
        scope=scope, run_id=f"run-{number}", thread_key=key, input=words, output=NEEDLES[1], outcome=COMPLETED
    )


@pytest.mark.parametrize("whole_scope", [False, True], ids=["thread", "scope"])
async def test_a_large_deletion_that_is_killed_is_finished_by_the_next_start(
    start: Start, scope: pb.Scope, tmp_path: Path, whole_scope: bool
) -> None:
    beside = pb.Scope(tenant_id=scope.tenant_id, agent_id="agent", user_id="beside")
    async with child(tmp_path) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        memory = rpc.MemoryServiceStub(channel)
        answers = await asyncio.gather(*(memory.RecordRun(run(scope, n, "key")) for n in range(RUNS)))
        (thread_id,) = {answer.thread_id for answer in answers}
        kept = await killed_while_deleting(daemon, channel, beside, deletion(channel, scope, thread_id, whole_scope))
    # What is half taken out is nothing that is wrong.
    assert verify_database(tmp_path / "memsvc.db").findings == []

    running = await start()
    listed = (await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope))).threads
    assert [(thread.thread_id, thread.run_count) for thread in listed] in ([], [(thread_id, RUNS)])
    if listed:  # killed before it was hidden
        await deletion(running.channel, scope, thread_id, whole_scope)
    # A deletion answers when all that is owed has been done.
    other = Talk(running, beside)
    await other.delete_run(await other.record("一句话"))
    assert not running.daemon.store.erasure_owed()
    for name, content in contents(tmp_path).items():
        assert not [needle for needle in NEEDLES if needle.encode() in content], name
    for number in random.sample(range(RUNS), 8):
        assert (await refusal(running.memory.RecordRun(run(scope, number, "")))).reason == "DELETED"
    for run_id in kept:
        request = svc.GetRunRequest(scope=beside, run_id=run_id)
        assert (await running.threads.GetRun(request)).run.input == "旁边的话"


def deletion(channel: grpc.aio.Channel, scope: pb.Scope, thread_id: str, whole_scope: bool) -> Any:
    """The call that deletes, begun."""
    if whole_scope:
        return rpc.OpsServiceStub(channel).DeleteScope(svc.DeleteScopeRequest(scope=scope))
    return rpc.ThreadServiceStub(channel).DeleteThread(svc.DeleteThreadRequest(scope=scope, thread_id=thread_id))


async def killed_while_deleting(daemon: Child, channel: grpc.aio.Channel, beside: pb.Scope, deleting: Any) -> list[str]:
    """Kills the daemon when a few calls beside the deletion, or none, were answered; returns the runs of these."""
    memory, kept = rpc.MemoryServiceStub(channel), []
    for _ in range(random.randrange(4)):
        request = svc.RecordRunRequest(scope=beside, input="旁边的话", outcome=COMPLETED)
        kept.append((await memory.RecordRun(request)).run_id)
    daemon.process.send_signal(signal.SIGKILL)
    await daemon.ended()
    await asyncio.wait([asyncio.ensure_future(deleting.code())])
    return kept
