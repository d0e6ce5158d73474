"""Whether the time of an answer tells another's id from one that nobody has: both asked in turn, over many calls.

    python -m tests.bench.tenancy --calls 3000

Prints for each call the median time of both and their ratio, beside the ratio of two halves of the same question, which
is what chance alone makes of it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import child

VICTIM = pb.Scope(tenant_id="school-7", agent_id="exam", user_id="wang")
ATTACKER = pb.Scope(tenant_id="school-7", agent_id="exam", user_id="li")
RUNS = 2_000

Ask = Callable[[str], Awaitable[object]]


async def _time(ask: Ask, name: str) -> float:
    begun = time.perf_counter()
    try:
        await ask(name)
    except grpc.aio.AioRpcError as refused:
        assert refused.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)  # noqa: PT017
    return time.perf_counter() - begun


async def _compare(title: str, ask: Ask, foreign: str, absent: str, calls: int) -> None:
    times: dict[str, list[float]] = {foreign: [], absent: []}
    for number in range(calls):
        # Each goes first as often as the other: the second of two finds the caches warm.
        for name in (foreign, absent) if number % 2 else (absent, foreign):
            times[name].append(await _time(ask, name))
    another, none = (statistics.median(times[name]) * 1e6 for name in (foreign, absent))
    halves = [statistics.median(times[absent][half::2]) * 1e6 for half in (0, 1)]
    print(
        f"{title:16} another's {another:7.1f} us   nobody's {none:7.1f} us   "
        f"ratio {another / none:.3f}   by chance {halves[0] / halves[1]:.3f}"
    )


async def main(calls: int) -> None:
    """Fills one scope, and asks from another."""
    with tempfile.TemporaryDirectory() as folder:
        async with child(Path(folder)) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
            memory, threads = rpc.MemoryServiceStub(channel), rpc.ThreadServiceStub(channel)

            async def record(scope: pb.Scope, i: int) -> str:
                request = svc.RecordRunRequest(
                    scope=scope, run_id=f"run-{i}", thread_key=f"k{i % 50}", input=f"第{i}轮"
                )
                request.outcome = pb.RUN_OUTCOME_COMPLETED
                return (await memory.RecordRun(request)).thread_id

            ids = [await record(VICTIM, i) for i in range(RUNS)]
            await record(ATTACKER, RUNS + 1)
            elsewhere = svc.GetContextRequest(scope=pb.Scope(tenant_id="n", agent_id="n"))
            nobodys = (await memory.GetContext(elsewhere)).thread_id
            thread, run = (ids[7], nobodys), ("run-7", "nur-7")
            questions: list[tuple[str, Ask, tuple[str, str]]] = [
                ("GetThread", lambda i: threads.GetThread(svc.GetThreadRequest(scope=ATTACKER, thread_id=i)), thread),
                ("ListRuns", lambda i: threads.ListRuns(svc.ListRunsRequest(scope=ATTACKER, thread_id=i)), thread),
                ("GetContext", lambda i: memory.GetContext(svc.GetContextRequest(scope=ATTACKER, thread_id=i)), thread),
                ("GetRun", lambda i: threads.GetRun(svc.GetRunRequest(scope=ATTACKER, run_id=i)), run),
                ("DeleteRun", lambda i: threads.DeleteRun(svc.DeleteRunRequest(scope=ATTACKER, run_id=i)), run),
            ]
            for title, ask, (foreign, absent) in questions:
                await _compare(title, ask, foreign, absent, calls)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3_000, help="of each kind, for each id (default: 3000)")
    asyncio.run(main(parser.parse_args().calls))
