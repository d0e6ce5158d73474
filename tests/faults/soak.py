"""`make soak`: mixed load with faults for half an hour, and what it does to memory, descriptors, threads, queue and
files.

Five sixths of the time belong to one process, so that what it leaks adds up: forty callers, each in a scope of its own,
with small and large texts in Chinese and English, deletions, decisions and retries; one in ten leaves in the middle of
a call; the provider hangs, closes, answers errors and nonsense. What is kept stays as much as it is, since the oldest
conversations are deleted. In the last sixth daemons are killed in the middle of it. After each death the file is
audited.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import platform
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.child import Child, child
from tests.fakes.provider import NO_SUMMARY, NOT_AN_ANSWER, Answer, FakeProvider, Request, drips, hangs, status
from tests.faults.audit import audit, deleted_words
from tests.faults.ledger import Ledger
from tests.faults.load import PROVIDER, Caller, Shape, Tally, at_rest, sums_up

CALLERS = 40
SHAPE = Shape(short_bytes=2_000, large_bytes=240_000, large_one_in=100, pause_s=2.0, leaving=0.1, conversations=12)
SAMPLE_S = 10.0
WARM = 0.25
"""The share of a life that is left out of a slope: caches fill, and what is kept has not come to its measure."""
KILL_AFTER_S = 20.0

ENVIRON = {
    "MEMSVC_RETRY_FIRST_MS": "100",
    "MEMSVC_RETRY_MAX_MS": "2000",
    "MEMSVC_CIRCUIT_MS": "1000",
    "MEMSVC_MODEL_DEADLINE_MS": "1000",
    "MEMSVC_LOG_FORMAT": "json",
}
MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The process and its files at a moment."""

    at_s: float
    rss_bytes: int
    descriptors: int
    threads: int
    pending_jobs: int
    unfolded_runs: int
    database_bytes: int
    wal_bytes: int
    calls: int
    p50_ms: dict[str, float]
    p99_ms: dict[str, float]


@dataclass
class Soak:
    """What the soak has seen so far."""

    folder: Path
    tally: Tally = field(default_factory=Tally)
    samples: list[Sample] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    kills: int = 0

    @property
    def database(self) -> Path:
        """The one file."""
        return self.folder / "memsvc.db"


async def soak(folder: Path, minutes: float, seed: int) -> Soak:
    """Runs it; returns what was seen."""
    rng, seen = random.Random(seed), Soak(folder)
    ledgers = [Ledger(pb.Scope(tenant_id=f"t{n % 5}", agent_id="agent", user_id=f"u{n}")) for n in range(CALLERS)]
    callers = [Caller(ledger, rng, seen.tally, SHAPE) for ledger in ledgers]
    async with FakeProvider() as provider:
        bad = [status(500), status(429), hangs, drips, *NOT_AN_ANSWER.values(), *NO_SUMMARY.values()]

        def behave(request: Request) -> Answer:
            del provider.requests[:-1]
            return (sums_up if rng.random() < 0.92 else rng.choice(bad))(request)

        provider.behave = behave
        config = folder / "memsvc.toml"
        config.write_text(
            f'[providers.{PROVIDER}]\nbase_url = "{provider.base_url}"\nmodel = "small"\nlocal = true\n', "utf-8"
        )
        environ = ENVIRON | {"MEMSVC_CONFIG": str(config)}
        whole = minutes * 60
        await _life(seen, callers, environ, whole * 5 / 6, sampled=True)
        seen.complaints += audit(seen.database, ledgers)
        end = time.monotonic() + whole / 6
        while time.monotonic() < end and not seen.complaints:
            await _life(seen, callers, environ, min(KILL_AFTER_S, end - time.monotonic()), sampled=False)
            seen.complaints += audit(seen.database, ledgers)
        provider.behave = sums_up
        await _last_life(seen, environ)
        seen.complaints += audit(seen.database, ledgers)
        seen.complaints += deleted_words(seen.database, ledgers)
    return seen


async def _life(seen: Soak, callers: Sequence[Caller], environ: dict[str, str], seconds: float, sampled: bool) -> None:
    """A daemon under load for so long, killed at the end."""
    async with child(seen.folder, **environ) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        listening = asyncio.create_task(_listen(daemon, seen.said))
        begun = time.monotonic()
        load = asyncio.gather(*(caller.run(channel) for caller in callers))
        if sampled:
            ops: rpc.OpsServiceAsyncStub = rpc.OpsServiceStub(channel)
            while (passed := time.monotonic() - begun) < seconds:
                await asyncio.sleep(min(SAMPLE_S, seconds - passed))
                seen.samples.append(await _sample(seen, daemon, ops, time.monotonic() - begun))
        else:
            await asyncio.sleep(seconds)
        daemon.kill()
        seen.kills += 1
        await load
        await listening


async def _last_life(seen: Soak, environ: dict[str, str]) -> None:
    """Comes to rest, stops as it should, and owes nothing."""
    async with child(seen.folder, **environ) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        listening = asyncio.create_task(_listen(daemon, seen.said))
        ops: rpc.OpsServiceAsyncStub = rpc.OpsServiceStub(channel)
        seen.complaints += await at_rest(ops)
        daemon.process.send_signal(signal.SIGTERM)
        if (exit_status := await daemon.process.wait()) != 0:
            seen.complaints.append(f"a stop ended with status {exit_status}")
        await listening


async def _listen(daemon: Child, said: Counter[str]) -> None:
    """Counts what the daemon logs, by event, reason and place: a pipe that nobody reads would hold it up."""
    assert daemon.process.stderr is not None
    async for line in daemon.process.stderr:
        try:
            event = json.loads(line)
        except ValueError:
            event = {"event": line.decode()[:200]}
        said[" ".join(str(event[key]) for key in ("event", "reason", "error", "where") if event.get(key))] += 1


async def _sample(seen: Soak, daemon: Child, ops: rpc.OpsServiceAsyncStub, at_s: float) -> Sample:
    process = Path(f"/proc/{daemon.process.pid}")
    fields = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    now = await ops.GetWorkerStatus(svc.GetWorkerStatusRequest())
    times = {name: sorted(values) for name, values in seen.tally.times.items() if values}
    seen.tally.times.clear()
    return Sample(
        at_s,
        int(fields["VmRSS"].split()[0]) * 1024,
        len(list((process / "fd").iterdir())),
        int(fields["Threads"]),
        now.pending_jobs,
        now.unfolded_runs,
        _size(seen.database),
        _size(Path(f"{seen.database}-wal")),
        sum(len(values) for values in times.values()),
        {name: values[len(values) // 2] * 1000 for name, values in times.items()},
        {name: values[len(values) * 99 // 100] * 1000 for name, values in times.items()},
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Returns what the second grows by for each of the first, by least squares."""
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0


def report(seen: Soak) -> str:
    """The figures as text: a row for about every twelfth part of the long life, then what adds up."""
    head = f"{'min':>5} {'RSS MiB':>8} {'fds':>4} {'thr':>4} {'queue':>6} {'unfolded':>8} {'db MiB':>7} {'WAL MiB':>8}"
    lines = [f"{head} {'calls/s':>8} {'ctx p50':>8} {'ctx p99':>8} {'rec p50':>8} {'rec p99':>8}"]
    for s in seen.samples[:: max(1, len(seen.samples) // 12)]:
        figures = [column.get(name, 0.0) for name in ("GetContext", "RecordRun") for column in (s.p50_ms, s.p99_ms)]
        lines.append(
            f"{s.at_s / 60:5.1f} {s.rss_bytes / MIB:8.1f} {s.descriptors:4} {s.threads:4} {s.pending_jobs:6} "
            f"{s.unfolded_runs:8} {s.database_bytes / MIB:7.1f} {s.wal_bytes / MIB:8.1f} {s.calls / SAMPLE_S:8.1f} "
            + " ".join(f"{figure:8.1f}" for figure in figures)
        )
    warm = [s for s in seen.samples if s.at_s >= WARM * seen.samples[-1].at_s]
    for name in ("rss_bytes", "database_bytes", "wal_bytes"):
        grown = slope([(s.at_s / 3600, getattr(s, name) / MIB) for s in warm])
        lines.append(f"{name}: {grown:+.1f} MiB an hour over the last {len(warm) * SAMPLE_S / 60:.0f} minutes")
    lines += [
        f"descriptors {min(s.descriptors for s in warm)} to {max(s.descriptors for s in warm)}, "
        f"threads {min(s.threads for s in warm)} to {max(s.threads for s in warm)}, "
        f"queue at most {max(s.pending_jobs for s in seen.samples)}",
        "calls: " + ", ".join(f"{end} {n}" for end, n in seen.tally.ends.most_common()),
        "log: " + ", ".join(f"{event} {n}" for event, n in seen.said.most_common(20)),
        f"{seen.kills} kills; wrong: {len(seen.complaints) + len(seen.tally.wrong)}",
        *(f"  {line}" for line in (seen.complaints + seen.tally.wrong)[:40]),
    ]
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="default: 30")
    parser.add_argument("--seed", type=int, default=None, help="of the texts and moments; default: by chance")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    today = datetime.datetime.now(tz=datetime.UTC).date()
    print(f"{today}, seed {seed}, {os.cpu_count()} cores, Python {platform.python_version()}", flush=True)
    with TemporaryDirectory(prefix="memsvc-soak-") as folder:
        seen = asyncio.run(soak(Path(folder), options.minutes, seed))
    print(report(seen))
    return bool(seen.complaints or seen.tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
