"""`make torture`: kill -9 at random moments of mixed load, again and again on one file, and an audit after each.

A kill may come while the daemon starts, while it works, and while it stops. After each the file is held against what
the callers were told (`audit.py`), and the next life begins on it. Every so often the daemon comes to rest, owes
nothing, stops as it should, and leaves no word of what was deleted in its files; then another file is begun, so that
the first moments of one are tortured as well. Prints a summary; exit status 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import Child, spawn
from tests.fakes.provider import Answer, FakeProvider, Request, hangs, status
from tests.faults.audit import audit, deleted_words
from tests.faults.ledger import Ledger
from tests.faults.load import PROVIDER, Caller, Shape, Tally, at_rest, sums_up

CALLERS = 6
LIVES_A_FILE = 25
MOST_ANSWERS = 120
"""Calls that are answered before the kill comes, at most: a busy machine is tortured no less than a quiet one."""
LONGEST_PAUSE_S = 0.03
LONGEST_START_S = 1.5

ENVIRON = {
    "MEMSVC_RETRY_FIRST_MS": "20",
    "MEMSVC_RETRY_MAX_MS": "100",
    "MEMSVC_CIRCUIT_MS": "50",
    "MEMSVC_MODEL_DEADLINE_MS": "500",
}


@dataclass
class Result:
    """What a torture came to."""

    kills: Counter[str] = field(default_factory=Counter)
    files: int = 0
    tally: Tally = field(default_factory=Tally)
    complaints: list[str] = field(default_factory=list)
    acknowledged: int = 0
    deleted: int = 0
    unheard: int = 0
    folds: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def wrong(self) -> list[str]:
        """Everything that should not have been, a line each."""
        return self.complaints + self.tally.wrong

    def __str__(self) -> str:
        lines = [
            f"{sum(self.kills.values())} kills in {time.monotonic() - self.begun:,.0f} s on {self.files} files "
            f"({', '.join(f'{n} while {when}' for when, n in sorted(self.kills.items()))})",
            f"{self.acknowledged} runs acknowledged, {self.deleted} deleted, {self.unheard} with no answer heard; "
            f"{self.folds} model calls answered",
            "calls: " + ", ".join(f"{end} {n}" for end, n in self.tally.ends.most_common()),
            f"wrong: {len(self.wrong)}",
            *(f"  {line}" for line in self.wrong[:40]),
        ]
        return "\n".join(lines)


async def torture(folder: Path, kills: int, seed: int, result: Result) -> None:
    """Kills daemons on files below `folder`, and writes what is found into `result` as it goes."""
    rng = random.Random(seed)
    async with FakeProvider() as provider:

        def behave(request: Request) -> Answer:
            (one,) = rng.choices([sums_up, status(500), hangs], [20, 2, 1])
            return one(request)

        provider.behave = behave
        while (left := kills - sum(result.kills.values())) > 0 and not result.complaints:
            result.files += 1
            home = folder / f"file-{result.files}"
            home.mkdir()
            await _File(home, provider, rng, result).torture(min(left, LIVES_A_FILE))
            if not result.complaints:
                shutil.rmtree(home)


class _File:
    """One database through its lives."""

    def __init__(self, home: Path, provider: FakeProvider, rng: random.Random, result: Result) -> None:
        self._home, self._provider, self._rng, self._result = home, provider, rng, result
        self._database = home / "memsvc.db"
        self._ledgers = [
            Ledger(pb.Scope(tenant_id="torture", agent_id="agent", user_id=f"u{n}")) for n in range(CALLERS)
        ]
        self._callers = [Caller(ledger, rng, result.tally, Shape()) for ledger in self._ledgers]
        config = home / "memsvc.toml"
        config.write_text(
            f'[providers.{PROVIDER}]\nbase_url = "{provider.base_url}"\nmodel = "small"\nlocal = true\n', "utf-8"
        )
        self._environ = ENVIRON | {"MEMSVC_CONFIG": str(config)}

    async def torture(self, lives: int) -> None:
        for _ in range(lives):
            when = self._rng.choices(["it starts", "it works", "it stops"], [15, 75, 10])[0]
            async with self._life() as daemon:
                await self._until_killed(daemon, when)
            self._result.kills[when] += 1
            self._audit()
            if self._result.complaints:
                return
        await self._rest()
        for talk, run in (pair for ledger in self._ledgers for pair in ledger.runs()):
            self._result.acknowledged += run.sequence > 0
            self._result.deleted += run.sequence > 0 and "GONE" in (run.state.name, talk.state.name)
            self._result.unheard += run.sequence == 0
        self._result.folds += len(self._provider.requests)
        self._provider.requests.clear()

    @asynccontextmanager
    async def _life(self) -> AsyncIterator[Child]:
        daemon = await spawn(self._home, **self._environ)
        try:
            yield daemon
        finally:
            if daemon.process.returncode is None:
                daemon.kill()
                await daemon.ended()

    async def _until_killed(self, daemon: Child, when: str) -> None:
        if when == "it starts":
            await asyncio.sleep(self._rng.random() * LONGEST_START_S)
            return
        await daemon.serving()
        async with grpc.aio.insecure_channel(daemon.address) as channel:
            load = asyncio.gather(*(caller.run(channel) for caller in self._callers))
            await _answered(self._result.tally, self._rng.randrange(MOST_ANSWERS))
            await asyncio.sleep(self._rng.random() * LONGEST_PAUSE_S)
            if when == "it stops":
                os.kill(daemon.process.pid, signal.SIGTERM)
                await asyncio.sleep(self._rng.random() / 2)
            daemon.kill()
            await load

    def _audit(self) -> None:
        number = sum(self._result.kills.values())
        self._result.complaints += [f"after kill {number}: {line}" for line in audit(self._database, self._ledgers)]

    async def _rest(self) -> None:
        """A last life that is let live: it pays all it owes, and what was deleted is gone from the bytes."""
        self._provider.behave, behave = sums_up, self._provider.behave
        async with self._life() as daemon:
            await daemon.serving()
            async with grpc.aio.insecure_channel(daemon.address) as channel:
                self._result.complaints += await at_rest(rpc.OpsServiceStub(channel))
            daemon.process.send_signal(signal.SIGTERM)
            if (exit_status := await daemon.ended()) != 0:
                self._result.complaints.append(f"a stop ended with status {exit_status}")
        self._audit()
        self._result.complaints += deleted_words(self._database, self._ledgers)
        self._provider.behave = behave


async def _answered(tally: Tally, wanted: int) -> None:
    until = tally.ends["OK"] + wanted
    while tally.ends["OK"] < until:  # noqa: ASYNC110  the load is told of by no event
        await asyncio.sleep(0.001)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="default: 500")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments and texts; default: by chance")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}, {os.cpu_count()} cores, Python {platform.python_version()}", flush=True)
    result = Result()
    with TemporaryDirectory(prefix="memsvc-torture-") as folder, suppress(KeyboardInterrupt):
        asyncio.run(torture(Path(folder), options.kills, seed, result))
    print(result)  # interrupted, it tells how far it came
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main())
