"""Calls cancelled at every stage, for minutes: what a daemon's memory, descriptors and threads do meanwhile.

    python -m tests.faults.cancelled --minutes 5                    30% of the calls, at a stage drawn at random
    python -m tests.faults.cancelled --minutes 2 --share 100 --stage writing
    python -m tests.faults.cancelled --minutes 5 --share 0          the same calls, none cancelled, to compare with

Stages: `begun` (headers alone), `half` (half of a message), `sent` (the message was sent this instant), `working`
(while it is being answered), `writing` (a reply larger than the caller's window is on its way). Half of those that are
cancelled are cancelled properly, half by hanging up. The daemon is a process of its own with a file of its own, which
soon stops growing: what is recorded is recorded again, so that memory is not that of more and more runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import Child, child
from tests.wire import CANCEL, DATA, END_STREAM, RST_STREAM, Wire, frame, headers, message, wire

STAGES = ("begun", "half", "sent", "working", "writing")
SCOPE = pb.Scope(tenant_id="school-7", agent_id="exam")
MEMORY, THREADS = "/memsvc.v1.MemoryService/", "/memsvc.v1.ThreadService/"
SAMPLE_S = 5.0
FRAME_BYTES = 16_384
WINDOW_BYTES = 65_535
"""What either side may send before the other says that it may send more, as HTTP/2 begins."""

Call = tuple[str, Message]


@dataclass(frozen=True)
class Sample:
    """A moment of the process."""

    at_s: float
    resident_kib: int
    descriptors: int
    threads: int


def sample(pid: int) -> Sample:
    """Looks at a process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines())
    resident_kib, threads = int(fields["VmRSS"].split()[0]), int(fields["Threads"])
    return Sample(time.monotonic(), resident_kib, len(os.listdir(f"/proc/{pid}/fd")), threads)


def kib_an_hour(samples: list[Sample]) -> float:
    """The slope of the resident memory, by least squares, over the second half: the first fills caches and arenas."""
    late = samples[len(samples) // 2 :]
    middle_s = sum(s.at_s for s in late) / len(late)
    middle_kib = sum(s.resident_kib for s in late) / len(late)
    spread = sum((s.at_s - middle_s) ** 2 for s in late)
    return 3600 * sum((s.at_s - middle_s) * (s.resident_kib - middle_kib) for s in late) / spread


class Caller:
    """One of those who call, with a channel for whole calls and connections of its own for the others."""

    def __init__(self, daemon: Child, thread_id: str, share: float, stages: tuple[str, ...], seed: int) -> None:
        self._daemon, self._thread_id = daemon, thread_id
        self._share, self._stages, self._chance = share, stages, random.Random(seed)
        self.counts: Counter[str] = Counter()

    async def call_until(self, end_s: float, channel: grpc.aio.Channel) -> None:
        """Calls and cancels until then."""
        while time.monotonic() < end_s:
            if self._chance.random() < self._share:
                stage = self._chance.choice(self._stages)
                await self._leave(stage)
                self.counts[stage] += 1
            else:
                await self._whole(channel)

    async def _whole(self, channel: grpc.aio.Channel) -> None:
        method, request = self._some()
        kind: Any = channel.unary_unary(method, request_serializer=type(request).SerializeToString)
        try:
            await kind(request)
            self.counts["OK"] += 1
        except grpc.aio.AioRpcError as error:
            self.counts[error.code().name] += 1

    def _some(self) -> Call:
        key, done = f"k{self._chance.randrange(20)}", pb.RUN_OUTCOME_COMPLETED
        return self._chance.choice(
            [
                (MEMORY + "GetContext", svc.GetContextRequest(scope=SCOPE, input="接着说", thread_key=key)),
                (
                    MEMORY + "GetContext",
                    svc.GetContextRequest(scope=SCOPE, input="接着说", knowledge="知识。" * 20_000),
                ),
                (
                    MEMORY + "RecordRun",
                    svc.RecordRunRequest(
                        scope=SCOPE, thread_key=key, run_id=key, input="出试卷", output="好的。" * 200, outcome=done
                    ),
                ),
                (THREADS + "ListThreads", svc.ListThreadsRequest(scope=SCOPE)),
            ]
        )

    async def _leave(self, stage: str) -> None:
        async with wire(self._daemon.address) as connection:
            method, request = self._some()
            if stage == "writing":
                # Replies of 3 MiB, of which the caller's window takes 64 KiB.
                method, request = THREADS + "ListRuns", svc.ListRunsRequest(scope=SCOPE, thread_id=self._thread_id)
            data = message(request.SerializeToString())
            await connection.send(headers(1, method))
            if stage == "half":
                await connection.send(frame(DATA, 0, 1, data[: min(len(data) // 2, FRAME_BYTES)]))
            elif stage != "begun":
                await _send(connection, data)
            if stage == "working":
                await asyncio.sleep(self._chance.random() * 0.01)
            elif stage == "writing":
                await connection.until(DATA)
            elif stage != "sent":
                await asyncio.sleep(self._chance.random() * 0.005)
            if self._chance.random() < 0.5:
                await connection.send(frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4, "big")))
                await asyncio.sleep(0)


async def _send(connection: Wire, data: bytes) -> None:
    """Sends a whole message: as far as the window goes at once, the rest when the daemon says that it may."""
    for begin in range(0, len(data), FRAME_BYTES):
        if begin and begin % (WINDOW_BYTES - WINDOW_BYTES % FRAME_BYTES) == 0:
            # Enough has been taken when the daemon widens the window; who looks closer would add up what it grants.
            await asyncio.sleep(0.002)
        part = data[begin : begin + FRAME_BYTES]
        await connection.send(frame(DATA, END_STREAM if begin + FRAME_BYTES >= len(data) else 0, 1, part))


@asynccontextmanager
async def drained(daemon: Child) -> AsyncIterator[None]:
    """Reads what the daemon says, so that it never waits for a reader."""
    assert daemon.process.stderr is not None

    async def read() -> None:
        assert daemon.process.stderr is not None
        async for line in daemon.process.stderr:
            if b"Traceback" in line or b"call_broke" in line:
                daemon.said.append(line.decode())

    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def fill(daemon: Child) -> str:
    """Records a thread whose runs make a page of 3 MiB; returns its id."""
    async with daemon.memory() as memory:
        for number in range(4):
            request = svc.RecordRunRequest(scope=SCOPE, thread_key="long", input=f"{number}", output="x" * 900_000)
            request.outcome = pb.RUN_OUTCOME_COMPLETED
            thread_id = (await memory.RecordRun(request)).thread_id
    return thread_id


async def run(minutes: float, share: float, stages: tuple[str, ...], callers: int, warm_s: float) -> list[Sample]:
    """Plays it, prints a line for each sample and the figures at the end; returns the samples."""
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        async with child(Path(folder), MEMSVC_LOG_LEVEL="info") as daemon, drained(daemon):
            thread_id = await fill(daemon)
            those = [Caller(daemon, thread_id, share, stages, seed) for seed in range(callers)]
            pid = daemon.process.pid
            end_s = time.monotonic() + warm_s + minutes * 60
            async with grpc.aio.insecure_channel(daemon.address) as channel:
                calling = asyncio.gather(*(caller.call_until(end_s, channel) for caller in those))
                await asyncio.sleep(warm_s)
                while not calling.done():
                    await asyncio.wait([calling], timeout=SAMPLE_S)
                    samples.append(sample(pid))
                    total = sum((caller.counts for caller in those), Counter())
                    now = samples[-1]
                    print(
                        f"{now.at_s - samples[0].at_s:6.0f} s {now.resident_kib:9d} KiB {now.descriptors:5d} fds "
                        f"{now.threads:4d} threads {sum(total.values()):9d} calls",
                        flush=True,
                    )
                await calling
                # It answers whoever comes next, with nothing of the others left.
                await rpc.MemoryServiceStub(channel).GetContext(svc.GetContextRequest(scope=SCOPE))
            total = sum((caller.counts for caller in those), Counter())
            left = sum(total[stage] for stage in STAGES)
            slope = kib_an_hour(samples)
            late_s = samples[-1].at_s - samples[len(samples) // 2].at_s
            grown = samples[-1].resident_kib - samples[len(samples) // 2].resident_kib
            print(dict(total))
            print(
                f"cancelled {left} of {sum(total.values())}; {slope / 1024:+.1f} MiB an hour in the second half "
                f"({grown:+d} KiB in {late_s:.0f} s); descriptors {samples[0].descriptors} to {samples[-1].descriptors}"
            )
            assert not daemon.said[1:], daemon.said
    return samples


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--share", type=float, default=30, help="percent of calls that are cancelled (default: 30)")
    parser.add_argument("--stage", choices=STAGES, action="append", help="cancel at these alone (default: all)")
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--warm", type=float, default=20, help="seconds before the first sample (default: 20)")
    given = parser.parse_args()
    asyncio.run(run(given.minutes, given.share / 100, tuple(given.stage or STAGES), given.callers, given.warm))
