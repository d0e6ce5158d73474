"""`make bench`: the daemon beside a bare grpc.aio echo of the same payload sizes, in one run on one machine.

Machines differ and are noisy, so the ratio to the echo is the figure. Each round measures the echo and the daemon right
after one another; the table shows the round in the middle. Folding has come to rest before, and what is recorded
meanwhile opens new threads of K runs, so that none runs beside it. Options: see `--help`.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import platform
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from memsvc.model import RECENT_RUNS
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.bench.corpus import text
from tests.bench.echo import SERVICE
from tests.bench.load import Figures, measure, middle

INPUT_BYTES, OUTPUT_BYTES = 120, 880
"""Of one run: a short exchange of a kilobyte."""
QUESTION_BYTES = 60
TURNS_A_THREAD = 20
CONCURRENCY = (1, 8, 64)
ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    runs: int
    concurrency: int
    figures: Figures
    echo: Figures

    def cells(self) -> list[str]:
        """The line as text, times in milliseconds."""
        f = self.figures
        return [
            self.what,
            f"{self.runs:,}",
            str(self.concurrency),
            f"{f.rate:,.0f}",
            f"{f.p50 * 1000:.2f}",
            f"{f.p99 * 1000:.2f}",
            f"{self.echo.p50 * 1000:.2f}",
            f"{f.p50 / self.echo.p50:.2f}",
        ]


HEAD = ["call", "runs in scope", "callers", "calls/s", "p50 ms", "p99 ms", "echo p50 ms", "ratio"]


async def main(options: argparse.Namespace) -> None:
    """Starts both servers, fills the scopes, measures, prints."""
    calls = 200 if options.quick else 1_000
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="memsvc-bench-") as folder:
        async with _echo() as echo, _daemon(Path(folder)) as channel:
            for runs in options.runs:
                bench = _Bench(channel, echo, runs, options.without_recall)
                await bench.fill()
                for concurrency in CONCURRENCY:
                    rows += await bench.rows(concurrency, calls)
    _print(rows, options.markdown)


class _Bench:
    """One scope of so many runs, and the calls that are measured on it."""

    def __init__(self, channel: grpc.aio.Channel, echo: grpc.aio.Channel, runs: int, without_recall: bool) -> None:
        self._memory: rpc.MemoryServiceAsyncStub = rpc.MemoryServiceStub(channel)
        self._ops: rpc.OpsServiceAsyncStub = rpc.OpsServiceStub(channel)
        self._echo_channel = echo
        self._runs = runs
        # What was stopped is not recalled, and an empty question recalls nothing.
        self._outcome = pb.RUN_OUTCOME_CANCELLED if without_recall else pb.RUN_OUTCOME_COMPLETED
        self._question_bytes = 0 if without_recall else QUESTION_BYTES
        self._rng = random.Random(runs)
        self._scope = pb.Scope(tenant_id="bench", agent_id="agent", user_id=f"u{runs}")
        self._threads: list[str] = []
        self._recorded = 0

    async def fill(self) -> None:
        async def one(number: int) -> None:
            answer = await self._memory.RecordRun(self._run(f"k{number // TURNS_A_THREAD}"))
            if number % TURNS_A_THREAD == 0:
                self._threads.append(answer.thread_id)

        await measure(one, self._runs, min(64, self._runs))
        while (await self._ops.GetWorkerStatus(svc.GetWorkerStatusRequest(scope=self._scope))).pending_jobs:  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # nothing tells when a daemon comes to rest

    async def rows(self, concurrency: int, calls: int) -> list[Row]:
        queries = [text(self._rng, self._question_bytes) for _ in range(64)]
        requests = [
            svc.GetContextRequest(scope=self._scope, thread_id=self._rng.choice(self._threads), input=query)
            for query in queries
        ]
        answer = await self._memory.GetContext(requests[0])
        get = await self._compare(
            "GetContext",
            concurrency,
            calls,
            lambda n: self._memory.GetContext(requests[n % len(requests)]),
            (requests[0].ByteSize(), answer.ByteSize()),
        )
        runs = [self._run(f"r{(self._recorded + n) // RECENT_RUNS}") for n in range(calls * ROUNDS)]
        self._recorded += len(runs)
        following = iter(runs)
        record = await self._compare(
            "RecordRun",
            concurrency,
            calls,
            lambda _: self._memory.RecordRun(next(following)),
            (runs[0].ByteSize(), 60),
        )
        return [get, record]

    async def _compare(
        self,
        what: str,
        concurrency: int,
        calls: int,
        call: Callable[[int], Awaitable[object]],
        sizes: tuple[int, int],
    ) -> Row:
        request = b"x" * sizes[0]
        echo: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._echo_channel.unary_unary(f"{SERVICE}{sizes[1]}")
        await measure(call if what == "GetContext" else lambda _: echo(request), 50, concurrency)
        rounds, yardstick = [], []
        for _ in range(ROUNDS):
            yardstick.append(await measure(lambda _: echo(request), calls, concurrency))
            rounds.append(await measure(call, calls, concurrency))
        return Row(what, self._runs, concurrency, middle(rounds), middle(yardstick))

    def _run(self, key: str) -> svc.RecordRunRequest:
        return svc.RecordRunRequest(
            scope=self._scope,
            thread_key=key,
            input=text(self._rng, INPUT_BYTES),
            output=text(self._rng, OUTPUT_BYTES),
            outcome=self._outcome,
        )


@asynccontextmanager
async def _echo() -> AsyncIterator[grpc.aio.Channel]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.echo", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = (await process.stdout.readline()).decode().strip()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    process.kill()
    await process.wait()


@asynccontextmanager
async def _daemon(folder: Path) -> AsyncIterator[grpc.aio.Channel]:
    environ = os.environ | {
        "MEMSVC_LISTEN": "127.0.0.1:0",
        "MEMSVC_DATABASE": str(folder / "bench.db"),
        "MEMSVC_LOG_FORMAT": "json",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "memsvc", "serve", env=environ, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    address = ""
    while not address:
        line = json.loads(await process.stderr.readline())
        address = line.get("address", "") if line.get("event") == "serving" else ""
    drain = asyncio.create_task(process.stderr.read())
    async with grpc.aio.insecure_channel(address) as channel:
        yield channel
    process.terminate()
    await drain
    await process.wait()


def _print(rows: Sequence[Row], markdown: bool) -> None:
    table = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    separator = " | " if markdown else "  "
    lines = [separator.join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    if markdown:
        lines.insert(1, " | ".join("-" * (width - 1) + ":" for width in widths))
        lines = [f"| {line} |" for line in lines]
    today = datetime.datetime.now(tz=datetime.UTC).date()
    print(f"{today}, {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}\n")
    print("\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the calls")
    parser.add_argument("--without-recall", action="store_true", help="runs that are not recalled, empty questions")
    parser.add_argument("--markdown", action="store_true", help="as a table for docs/performance.md")
    parser.add_argument(
        "--runs", type=lambda s: [int(n) for n in s.split(",")], default=[100, 10_000], help="default: 100,10000"
    )
    asyncio.run(main(parser.parse_args()))
