"""What a large deletion costs, and whom it keeps waiting: one thread of many runs, in a scope of twice as many, or all
of such a scope.

    python -m tests.bench.deleting --runs 20000
    python -m tests.bench.deleting --runs 2000 --words 1900
    python -m tests.bench.deleting --runs 10000 --scope

Fills a file, starts a daemon on it, and deletes while others record a run every few milliseconds and ask for a context.
Prints how long it took until the answer, and until nothing was owed any more, and what the others waited.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import shutil
import socket
import sqlite3
import tempfile
import time
import urllib.request
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path

import grpc

from memsvc.model import NewRun, RunOutcome
from memsvc.store import ThreadRef
from memsvc.store.sqlite import recall, runs
from memsvc.store.sqlite.db import Database
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.bench.corpus import text
from tests.bench.load import beside
from tests.child import child
from tests.model_of_threads import SCOPE, prepared

ASKED = pb.Scope(tenant_id=SCOPE.tenant_id, agent_id=SCOPE.agent_id, user_id=SCOPE.user_id)
BESIDE = pb.Scope(tenant_id=SCOPE.tenant_id, agent_id=SCOPE.agent_id, user_id="beside")
EVERY_S = 0.005
TOGETHER = 64  # runs that share a commit while the file is filled
OTHERS = 50  # threads that the other half of the scope's runs are in

Times = list[float]


def words_of(draw: random.Random, words: int) -> str:
    """A kilobyte as people write, or so many different words."""
    return " ".join(f"w{draw.randrange(1 << 20):x}" for _ in range(words)) if words else text(draw, 1_024)


async def fill(path: Path, count: int, words: int, threads: int) -> None:
    """Records in turn into the threads to delete and into others."""
    draw = random.Random(1)
    db = await Database.open(path)
    for begun in range(0, 2 * count, TOGETHER):
        waiting = []
        for number in range(begun, min(begun + TOGETHER, 2 * count)):
            at = number // 2 % threads
            key = f"doomed {at}" if number % 2 else f"kept {number // 2 % OTHERS}"
            half = words_of(draw, words)
            new = NewRun(f"run-{number}", half, "", RunOutcome.COMPLETED)
            waiting.append(
                db.write(runs.record_run, db.secret, SCOPE, ThreadRef(thread_key=key), prepared(new, db.secret), 1)
            )
        unsettled = max(scope_no for _, scope_no in await asyncio.gather(*waiting))
        while unsettled and await db.write(recall.settle, unsettled):
            pass
    # Folding is another matter, and none of it is to go on meanwhile.
    folded = "folded_upto = last_sequence, folded_count = run_count, extracted_upto = last_sequence, summary = '…'"
    await db.write(lambda connection: connection.execute(f"UPDATE threads SET {folded}").rowcount)
    await db.close()


async def told(title: str, work: Awaitable[object], record: Times, ask: Times) -> None:
    """Prints what was waited while `work` was done."""
    record.clear()
    ask.clear()
    await work
    figures = []
    for name, times in (("RecordRun", sorted(record)), ("GetContext", sorted(ask))):
        at = [times[min(len(times) - 1, len(times) * share // 1000)] * 1e3 for share in (500, 990, 1000)]
        figures.append(f"{name} ({len(times)}) p50 {at[0]:.1f} p99 {at[1]:.1f} most {at[2]:.1f} ms")
    print(f"{title:22} {';  '.join(figures)}", flush=True)


async def delete(daemon_address: str, metrics: str, ids: list[str]) -> None:
    """Deletes threads, all at once, or without ids the scope, and waits until nothing is owed."""
    begun = time.perf_counter()
    async with grpc.aio.insecure_channel(daemon_address) as channel:
        threads = rpc.ThreadServiceStub(channel)
        await asyncio.gather(*(threads.DeleteThread(svc.DeleteThreadRequest(scope=ASKED, thread_id=i)) for i in ids))
        if not ids:
            await rpc.OpsServiceStub(channel).DeleteScope(svc.DeleteScopeRequest(scope=ASKED))
        print(f"answered after {time.perf_counter() - begun:.2f} s", flush=True)

    def owed() -> bool:
        with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
            return re.search(rb"^memsvc_erasure_owed 0", answer.read(), re.MULTILINE) is None

    def wait() -> None:
        while owed():
            time.sleep(0.1)

    await asyncio.to_thread(wait)
    print(f"nothing owed after {time.perf_counter() - begun:.2f} s", flush=True)


def described(path: Path) -> str:
    """What is in the index, and how large the file is."""
    with closing(sqlite3.connect(path)) as db:
        entries, postings = db.execute("SELECT count(*), avg(length(postings) / 8) FROM recall_entries").fetchone()
        (pages,) = db.execute("SELECT count(*) FROM recall_pages").fetchone()
    return f"{entries} runs of {postings:.0f} postings, {pages} pages of the index, {path.stat().st_size >> 20} MiB"


def doomed(path: Path) -> list[str]:
    """The ids of the threads to delete."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT thread_id FROM threads WHERE thread_key LIKE 'doomed %'").fetchall()
    return [thread_id for (thread_id,) in rows]


async def main(count: int, words: int, threads: int, whole: bool, filled: Path | None, folder: Path) -> None:
    """Fills, or takes a copy of what an earlier run filled, and measures before, during and after the deletion."""
    path = folder / "memsvc.db"
    if filled is None or not os.path.exists(filled):  # noqa: ASYNC240, nothing else goes on
        await fill(path, count, words, threads)
        if filled is not None:
            shutil.copyfile(path, filled)
    else:
        shutil.copyfile(filled, path)
    ids = [] if whole else doomed(path)
    print(described(path), flush=True)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        metrics = f"127.0.0.1:{free.getsockname()[1]}"
    async with (
        child(folder, MEMSVC_METRICS_LISTEN=metrics) as daemon,
        grpc.aio.insecure_channel(daemon.address) as channel,
    ):
        memory = rpc.MemoryServiceStub(channel)

        async def record(number: int) -> None:
            given = f"旁边的第{number}句话"
            await memory.RecordRun(svc.RecordRunRequest(scope=BESIDE, input=given, outcome=pb.RUN_OUTCOME_COMPLETED))

        async def ask(number: int) -> None:
            await memory.GetContext(svc.GetContextRequest(scope=ASKED, input=f"第{number % 7}章的数据结构 exam 试卷"))

        recorded: Times = []
        asked: Times = []
        calls = [
            asyncio.create_task(beside(record, recorded, EVERY_S)),
            asyncio.create_task(beside(ask, asked, 10 * EVERY_S)),
        ]
        await asyncio.sleep(2)
        await told("before", asyncio.sleep(5), recorded, asked)
        await told("while it is deleted", delete(daemon.address, metrics, ids), recorded, asked)
        await told("after", asyncio.sleep(5), recorded, asked)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000, help="to delete (default: 20000)")
    parser.add_argument(
        "--words", type=int, default=0, help="of a run, all different (default: a kilobyte of sentences)"
    )
    parser.add_argument("--threads", type=int, default=1, help="that the runs to delete are in (default: 1)")
    parser.add_argument("--scope", action="store_true", help="delete the whole scope, of twice as many runs")
    parser.add_argument("--filled", type=Path, help="a file to keep what is recorded in, for the next time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(main(given.runs, given.words, given.threads, given.scope, given.filled, Path(made)))
