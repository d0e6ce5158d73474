"""What a provider that never answers does to the calls: GetContext's p99 with one beside that without, in one run.

    python -m tests.faults.hanging --rounds 4 --seconds 10

Two daemons with the same conversations stand side by side: one with a provider that hangs and work that waits for it,
one with a provider that answers. Each in turn is given 200 calls a second, half of them GetContext and half RecordRun;
a call begins when it is due, however many are still under way.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.child import child
from tests.fakes.provider import Behaviour, FakeProvider, by_kind, hangs, says
from tests.faults.cancelled import drained

CALLS_A_SECOND = 200
THREADS = 40
SCOPE = pb.Scope(tenant_id="school-7", agent_id="exam")
CONFIG = """
[providers.own]
base_url = "{url}"
model = "small"
local = true
"""


class _Side:
    """A daemon of its own, with its provider."""

    def __init__(self, folder: Path, behave: Behaviour) -> None:
        self._folder, self._behave = folder, behave
        self._number = 0
        self.times: list[list[float]] = []

    async def begin(self, stack: AsyncExitStack) -> None:
        self._folder.mkdir()
        self.provider = await stack.enter_async_context(FakeProvider())
        self.provider.behave = self._behave
        (self._folder / "memsvc.toml").write_text(CONFIG.format(url=self.provider.base_url), "utf-8")
        daemon = await stack.enter_async_context(child(self._folder))
        await stack.enter_async_context(drained(daemon))
        self._memory = await stack.enter_async_context(daemon.memory())
        for number in range(THREADS * 5):
            await self._record(number)

    async def _record(self, number: int) -> None:
        request = svc.RecordRunRequest(
            scope=SCOPE,
            thread_key=f"k{number % THREADS}",
            input=f"第{number}个问题：出一份数据结构试卷",
            output="好的，已经拟好。" * 10,
            provider="own",
        )
        request.outcome = pb.RUN_OUTCOME_COMPLETED
        await self._memory.RecordRun(request)

    async def _ask(self, number: int, times: list[float]) -> None:
        begun = time.perf_counter()
        request = svc.GetContextRequest(scope=SCOPE, thread_key=f"k{number % THREADS}", input="接着出一份试卷")
        await self._memory.GetContext(request)
        times.append(time.perf_counter() - begun)

    async def play(self, seconds: float) -> None:
        """Gives it so many seconds of load."""
        times: list[float] = []
        calls: list[asyncio.Task[None]] = []
        begun = time.perf_counter()
        for due in range(round(seconds * CALLS_A_SECOND)):
            await asyncio.sleep(max(0.0, begun + due / CALLS_A_SECOND - time.perf_counter()))
            self._number += 1
            kind = self._ask(self._number, times) if due % 2 else self._record(self._number)
            calls.append(asyncio.create_task(kind))
        await asyncio.gather(*calls)
        self.times.append(sorted(times))


async def main(rounds: int, seconds: float) -> None:
    """Plays the rounds in turn and prints both sides and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            sides = {
                "answers": _Side(Path(folder) / "answers", by_kind(says("用户要一份试卷，助手已经拟好。"))),
                "hangs": _Side(Path(folder) / "hangs", hangs),
            }
            for side in sides.values():
                await side.begin(stack)
            for number in range(rounds):
                for side in list(sides.values())[:: 1 if number % 2 else -1]:
                    await side.play(seconds)
            for share, place in ((50, 0.5), (99, 0.99)):
                # Of each round, and of these the middle one: a round that the machine's noise hit says nothing.
                both = {name: [t[int(len(t) * place)] * 1000 for t in side.times] for name, side in sides.items()}
                middle = {name: statistics.median(ms) for name, ms in both.items()}
                for name, ms in both.items():
                    print(f"p{share} {name:8} {middle[name]:8.2f} ms   rounds {[round(each, 1) for each in ms]}")
                print(f"p{share} ratio    {middle['hangs'] / middle['answers']:8.2f}")
            print({name: f"{len(side.provider.requests)} requests" for name, side in sides.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    asyncio.run(main(given.rounds, given.seconds))
