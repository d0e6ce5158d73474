"""`make power-loss`: what a disk may hold when the power goes, built from what the daemon wrote and synced.

The daemon records under strace. Each moment of the trace is a moment at which the power may go: what was synced by then
is on the disk, and of what was written since, any sectors are, in any order. From that `image` builds files; SQLite
opens them, and every run whose answer had been sent must be there, once and whole. Prints how many images lost one;
exit status 1 where any did. That images can lose runs is shown by building them as if the log had never been synced.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.bench.corpus import text
from tests.child import spawn
from tests.faults.audit import structure
from tests.faults.ledger import new_mark
from tests.talk import COMPLETED

SECTOR_BYTES = 512
CALLERS = 8
STRACE = ("strace", "-f", "--seccomp-bpf", "-y", "-ttt", "-s", "2000000")
CALLS = "trace=pwrite64,fdatasync,fsync,ftruncate,sendmsg,openat"
RUN_ID = re.compile("run-zq[bcdfghjkmnp]{8}")
DATABASE, LOG, FOLDER, SOCKET = "database", "log", "folder", "socket"


class Kind(Enum):
    """What a call of the kernel did."""

    WRITE = "bytes that may be on the disk from here on"
    TRUNCATE = "a length that may be"
    SYNC = "what was written before it began is on the disk"
    ANSWER = "a caller is told of these runs"
    CREATE = "a name of the folder"


@dataclass(frozen=True)
class Event:
    """A call. It began as number `begun` of the trace's lines and had been done by `done`."""

    kind: Kind
    file: str
    begun: int
    done: int
    offset: int = 0
    data: bytes = b""
    runs: frozenset[str] = frozenset()


@dataclass
class Recording:
    """What was recorded under strace: the files as they were before, what happened then, and the runs as sent."""

    before: dict[str, bytes]
    events: list[Event]
    sent: dict[str, tuple[str, str]] = field(default_factory=dict)
    started: list[Event] = field(default_factory=list)
    """What happened up to there, when the files were made."""


def why_not() -> str:
    """Returns why nothing can be traced here, empty where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run([*STRACE, "-e", CALLS, "-o", os.devnull, "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"strace cannot trace here: {tried.stderr.decode()[:200]}"


async def record(folder: Path, runs: int, seed: int) -> Recording:
    """Records so many runs from several callers at once, and deletes one in between, so that the log is emptied."""
    rng, trace = random.Random(seed), folder / "trace"
    daemon = await spawn(folder, *STRACE, "-e", CALLS, "-o", str(trace))
    await daemon.serving()
    database = folder / "memsvc.db"
    scope = pb.Scope(tenant_id="school-7", agent_id="exam")
    sent: dict[str, tuple[str, str]] = {}
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        memory: rpc.MemoryServiceAsyncStub = rpc.MemoryServiceStub(channel)
        threads: rpc.ThreadServiceAsyncStub = rpc.ThreadServiceStub(channel)

        async def one(number: int, key: str) -> str:
            run_id = f"run-{new_mark()}"
            size = rng.choice([100, 1_000, 4_000, 30_000])
            sent[run_id] = (text(rng, 80), text(rng, size))
            given, output = sent[run_id]
            request = svc.RecordRunRequest(scope=scope, run_id=run_id, thread_key=key, input=given, output=output)
            request.outcome = COMPLETED
            await memory.RecordRun(request)
            return run_id

        first = await one(0, "先")
        begun = time.time()
        numbers = iter(range(1, runs))

        async def caller(key: str) -> None:
            for number in numbers:
                await one(number, key)
                if number == runs // 2:
                    del sent[first]
                    await threads.DeleteRun(svc.DeleteRunRequest(scope=scope, run_id=first))

        await asyncio.gather(*(caller(f"话题-{n}") for n in range(CALLERS)))
    os.kill(daemon.pid, 15)
    await daemon.ended()
    events = list(read_trace(trace, database))
    at = next((i for i, (seconds, _) in enumerate(events) if seconds > begun), len(events))
    started = [e for _, e in events[:at]]
    # Drawn from the trace and not read from the files: the daemon empties its log into the database when it likes.
    before = {name: _held_whole(started, name) for name in _paths(database)}
    return Recording(before, [e for _, e in events[at:]], sent, started)


def _paths(database: Path) -> dict[str, Path]:
    return {DATABASE: database, LOG: Path(f"{database}-wal")}


_LINE = re.compile(r"(\d+) +(\d+\.\d+) (?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*))\Z", re.S)


def read_trace(trace: Path, database: Path) -> Iterator[tuple[float, Event]]:
    """Reads what strace wrote, as (seconds since the epoch, event), in the order in which the calls were done."""
    names = {str(path): name for name, path in _paths(database).items()} | {str(database.parent): FOLDER}
    unfinished: dict[str, tuple[int, str]] = {}
    with trace.open(encoding="ascii", errors="strict") as lines:
        for number, line in enumerate(lines):
            found = _LINE.match(line.rstrip("\n"))
            if found is None:
                continue  # signals and exits
            thread, seconds, call, arguments, resumed, rest = found.groups()
            begun = number
            if call and arguments.endswith("<unfinished ...>"):
                unfinished[thread] = number, arguments.removesuffix("<unfinished ...>")
                # An answer may have left as soon as its call begins.
                if call == "sendmsg":
                    yield float(seconds), _answer(arguments, number)
                continue
            if resumed:
                call, (begun, arguments) = resumed, unfinished.pop(thread)
                if call == "sendmsg":
                    continue
                arguments += rest
            if event := _event(call, arguments, begun, number, names):
                yield float(seconds), event


def _event(call: str, arguments: str, begun: int, done: int, names: dict[str, str]) -> Event | None:
    if call == "sendmsg":
        return _answer(arguments, done)
    if call == "openat":
        created = re.match(r'[^,]*, "([^"]*)", [^)]*O_CREAT.* = \d+', arguments)
        return Event(Kind.CREATE, names[created[1]], begun, done) if created and created[1] in names else None
    of = re.match(r"\d+<([^>]*)>", arguments)
    file = names.get(of[1]) if of else None
    result = int(arguments.rpartition(" = ")[2].split()[0])
    if file is None:
        return None
    if call in ("fdatasync", "fsync"):
        return Event(Kind.SYNC, file, begun, done) if result == 0 else None
    if call == "ftruncate":
        return Event(Kind.TRUNCATE, file, begun, done, offset=int(arguments.split(", ")[1].split(")", maxsplit=1)[0]))
    quoted, _, tail = arguments.partition(', "')[2].rpartition('", ')
    data = ast.literal_eval(f'b"{quoted}"')[:result]
    return Event(Kind.WRITE, file, begun, done, int(tail.split(", ")[1].split(")")[0]), data)


def _answer(arguments: str, number: int) -> Event:
    return Event(Kind.ANSWER, SOCKET, number, number, runs=frozenset(RUN_ID.findall(arguments)))


def unsynced_answers(recording: Recording) -> list[str]:
    """Returns the runs whose answer began before a sync, begun after the log held them, had ended."""
    written: dict[str, int] = {}
    for event in recording.events:
        if event.kind is Kind.WRITE and event.file == LOG:
            for run_id in RUN_ID.findall(event.data.decode("latin-1")):
                written.setdefault(run_id, event.done)
    syncs = [e for e in recording.events if e.kind is Kind.SYNC and e.file == LOG]
    late = []
    for event in recording.events:
        for run_id in event.runs & recording.sent.keys():
            at = written.get(run_id)
            if at is None or not any(at < sync.begun and sync.done < event.begun for sync in syncs):
                late.append(run_id)
    return late


def answered(events: Iterable[Event]) -> set[str]:
    """Returns the runs that callers were told of."""
    return {run_id for event in events for run_id in event.runs}


def image(recording: Recording, cut: int, rng: random.Random) -> dict[str, bytes]:
    """Returns the files as a disk may hold them when the power goes after `cut` events."""
    return {file: _held(recording, file, cut, rng) for file in recording.before}


def _held(recording: Recording, file: str, cut: int, rng: random.Random) -> bytes:
    events = [e for e in recording.events[:cut] if e.file == file]
    syncs = [e for e in events if e.kind is Kind.SYNC]
    content = bytearray(recording.before[file])
    luck = rng.choice([0.0, 0.5, 0.9, 1.0])  # none, some, most or all of what was not synced came through
    for event in events:
        is_safe = any(event.done < sync.begun for sync in syncs)
        if event.kind is Kind.TRUNCATE and (is_safe or rng.random() < luck):
            _cut(content, event.offset)
        if event.kind is Kind.WRITE:
            for start in range(0, len(event.data), SECTOR_BYTES):
                if is_safe or rng.random() < luck:
                    _put(content, event.offset + start, event.data[start : start + SECTOR_BYTES])
    return bytes(content)


def _held_whole(events: Iterable[Event], file: str) -> bytes:
    """What a file holds after all of this, from its making on."""
    content = bytearray()
    for event in events:
        if event.file == file and event.kind is Kind.TRUNCATE:
            _cut(content, event.offset)
        elif event.file == file and event.kind is Kind.WRITE:
            _put(content, event.offset, event.data)
    return bytes(content)


def _cut(content: bytearray, length: int) -> None:
    content[length:] = bytes(max(0, length - len(content)))


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def lost(recording: Recording, files: dict[str, bytes], cut: int, folder: Path) -> list[str]:
    """Opens an image; returns what is wrong with it, a line each."""
    path = folder / "image.db"
    for name, place in _paths(path).items():
        place.write_bytes(files[name])
    Path(f"{path}-shm").unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            wrong = [line for (line,) in db.execute("PRAGMA integrity_check") if line != "ok"]
            wrong += structure(db)
            rows = db.execute("SELECT run_id, input, output FROM runs").fetchall()
    except sqlite3.DatabaseError as error:
        return [f"cannot be read: {error}"]
    found = {run_id: texts for run_id, *texts in rows}
    if len(found) < len(rows):
        wrong.append("a run is there twice")
    told = answered(recording.events[:cut]) & recording.sent.keys()
    wrong += [f"{run_id} was acknowledged and is lost" for run_id in told - found.keys()]
    return wrong + [
        f"{run_id} is not as it was sent"
        for run_id, sent in recording.sent.items()
        if run_id in found and found[run_id] != list(sent)
    ]


def without_syncs(recording: Recording, file: str) -> Recording:
    """The recording as it would be if a file had never been synced, as a log is not with synchronous=OFF."""
    events = [e for e in recording.events if not (e.kind is Kind.SYNC and e.file == file)]
    return replace(recording, events=events)


def losing_images(recording: Recording, count: int, seed: int, folder: Path) -> list[str]:
    """Builds so many images at random moments; returns the first complaint of each that has any."""
    rng, complaints = random.Random(seed), []
    for _ in range(count):
        cut = rng.randrange(1, len(recording.events) + 1)
        if wrong := lost(recording, image(recording, cut, rng), cut, folder):
            complaints.append(f"after event {cut}: {wrong[0]}")
    return complaints


def describe(events: Sequence[Event]) -> str:
    """Counts what happened."""
    counts = {kind: sum(e.kind is kind for e in events) for kind in Kind}
    return ", ".join(f"{kind.name.lower()} {count}" for kind, count in counts.items())


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=300, help="default: 300")
    parser.add_argument("--runs", type=int, default=400, help="to record; default: 400")
    parser.add_argument("--seed", type=int, default=1, help="of texts and moments; default: 1")
    options = parser.parse_args()
    if reason := why_not():
        print(f"cannot be measured: {reason}", file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="memsvc-power-") as name:
        folder = Path(name)
        recording = asyncio.run(record(folder, options.runs, options.seed))
        late = unsynced_answers(recording)
        complaints = losing_images(recording, options.images, options.seed, folder)
        unsynced = losing_images(without_syncs(recording, LOG), options.images, options.seed, folder)
    print(f"{len(answered(recording.events))} runs answered; {describe(recording.events)}")
    print(f"answers sent before the log was synced: {len(late)}")
    print(f"{len(complaints)} of {options.images} images lost or broke anything")
    print(f"{len(unsynced)} of {options.images} would, had the log never been synced")
    print(*complaints[:20], sep="\n")
    return bool(late or complaints)


if __name__ == "__main__":
    sys.exit(main())
