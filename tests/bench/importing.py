"""What an import costs, and whom it keeps waiting: a file of many runs, while others record into another scope.

    python -m tests.bench.importing --runs 20000
    python -m tests.bench.importing --runs 20000 --here 0.5

Makes an export of threads of twenty runs of a kilobyte, starts a daemon, and imports it while others record a run every
few milliseconds. With `--here`, that share of each thread's runs is in the scope before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.bench.corpus import text
from tests.bench.load import beside
from tests.child import child

SCOPE = pb.Scope(tenant_id="bench", agent_id="importing", user_id="whole")
BESIDE = pb.Scope(tenant_id="bench", agent_id="importing", user_id="beside")
EVERY_S = 0.01
TURNS_A_THREAD = 20
BEGUN_US = 1_796_000_000_000_000
PIECE_BYTES = 1 << 20
_LETTERS = str.maketrans("0123456789", "abcdefghij")


def export_of(count: int, share: float) -> bytes:
    """An export of `count` runs, or of the first share of each of its threads."""
    draw = random.Random(1)
    threads, runs = [], []
    for number in range(count):
        thread_id = "th_" + f"{number // TURNS_A_THREAD:024}".translate(_LETTERS)
        at = BEGUN_US + number * 1_000_000
        line = {"type": "thread", "thread_id": thread_id, "locale": "zh", "created_us": at, "updated_us": at}
        if number % TURNS_A_THREAD == 0:
            threads.append(line)
        words = {"input": text(draw, 120), "output": text(draw, 880)}
        run = {"type": "run", "run_id": f"r{number}", "thread_id": thread_id, "outcome": "COMPLETED", **words}
        if number % TURNS_A_THREAD < share * TURNS_A_THREAD:
            runs.append(run | {"provider": "p", "created_us": at, "ended_us": at})
    lines = [{"type": "memsvc-export", "version": 1}, *threads, *runs]
    lines.append({"type": "end", "line_count": len(lines)})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


async def brought(ops: rpc.OpsServiceAsyncStub, data: bytes) -> svc.ImportScopeResponse:
    """Imports a file."""

    async def parts() -> AsyncIterator[svc.ImportScopeRequest]:
        for at in range(0, len(data), PIECE_BYTES):
            yield svc.ImportScopeRequest(scope=SCOPE, data=data[at : at + PIECE_BYTES])

    return await ops.ImportScope(parts())


async def main(count: int, here: float, folder: Path) -> None:
    """Imports what is to be there before, then the whole, and prints what was waited meanwhile."""
    data = export_of(count, 1)
    async with (
        child(folder, MEMSVC_MAX_IMPORT_RUNS=str(count)) as daemon,
        grpc.aio.insecure_channel(daemon.address) as channel,
    ):
        memory, ops = rpc.MemoryServiceStub(channel), rpc.OpsServiceStub(channel)
        if here:
            await brought(ops, export_of(count, here))

        async def record(number: int) -> None:
            given = f"旁边的第{number}句话"
            await memory.RecordRun(svc.RecordRunRequest(scope=BESIDE, input=given, outcome=pb.RUN_OUTCOME_COMPLETED))

        for title in ("before", "import", "again"):
            times: list[float] = []
            calls = asyncio.create_task(beside(record, times, EVERY_S))
            begun = time.perf_counter()
            answer = await (asyncio.sleep(5) if title == "before" else brought(ops, data))
            took_s = time.perf_counter() - begun
            calls.cancel()
            await asyncio.gather(calls, return_exceptions=True)  # and so for what waits yet
            waits = sorted(wait for wait in times if wait < float("inf"))
            at = [waits[min(len(waits) - 1, len(waits) * share // 1000)] * 1e3 for share in (500, 990, 999, 1000)]
            told = " ".join(f"{name} {ms:.1f}" for name, ms in zip(("p50", "p99", "p99.9", "most"), at, strict=True))
            runs = f"{answer.run_count} runs, " if answer is not None else ""
            refused = f"{len(times) - len(waits)} refused"
            print(f"{title:7} {runs}{took_s:.1f} s; RecordRun ({len(waits)}) {told} ms, {refused}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000, help="of the file (default: 20000)")
    parser.add_argument(
        "--here", type=float, default=0.0, help="share of each thread that is there before (default: 0)"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(main(given.runs, given.here, Path(made)))
