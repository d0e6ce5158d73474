"""kill -9 at random moments of mixed load: a few of the many kills of `make torture`, and proof that the audit sees."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
from contextlib import closing
from copy import deepcopy
from pathlib import Path

import grpc

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.child import child
from tests.conftest import Start
from tests.fakes.provider import FakeProvider
from tests.faults.audit import audit, deleted_words
from tests.faults.ledger import Conversation, Ledger, RunEntry, State, new_mark
from tests.faults.load import PROVIDER, Caller, Shape, Tally, sums_up
from tests.faults.torture import Result, torture
from tests.serving import own
from tests.talk import COMPLETED


async def test_whenever_a_daemon_is_killed_what_it_acknowledged_is_there_once_and_nothing_else(tmp_path: Path) -> None:
    result = Result()
    await torture(tmp_path, 4, 20261201, result)
    assert result.wrong == []
    assert result.acknowledged > 0
    assert sum(result.kills.values()) == 4


async def test_a_stop_in_the_middle_of_everything_loses_nothing_and_is_a_success(tmp_path: Path) -> None:
    tally, ledgers = Tally(), [Ledger(pb.Scope(tenant_id="t", agent_id="a", user_id=f"u{n}")) for n in range(4)]
    async with child(tmp_path) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        callers = [Caller(ledger, random.Random(n), tally, Shape()) for n, ledger in enumerate(ledgers)]

        told: list[signal.Signals] = []

        def stop_once_busy() -> bool:
            # Several answers may come between two looks.
            if not told and tally.ends["OK"] >= 80:
                told.append(signal.SIGTERM)
                daemon.process.send_signal(signal.SIGTERM)
            return False

        await asyncio.gather(*(caller.run(channel, stop_once_busy) for caller in callers))
        assert await daemon.ended() == 0
    assert tally.wrong == []
    assert audit(tmp_path / "memsvc.db", ledgers) == []
    assert sorted(os.listdir(tmp_path)) == ["memsvc.db", "memsvc.db.lock"]


async def damaged(start: Start, folder: Path, scope: pb.Scope) -> tuple[Path, Ledger]:
    """Returns a file with a folded conversation, a deleted run and facts, and the ledger that is true of it."""
    ledger = Ledger(scope)
    talk = Conversation("周一", PROVIDER)
    ledger.conversations.append(talk)
    async with FakeProvider(sums_up) as provider:
        said = await own(start, scope, provider)
        for number in range(6):
            mark = new_mark()
            run = RunEntry(f"run-{number}", mark, f"{mark} 出一份试卷", "好的。", COMPLETED, State.KEPT)
            await said.turns(run.input, output=run.output, run_id=run.run_id, thread_id="", thread_key=talk.key)
            talk.runs[run.run_id] = run
        await said.delete_run("run-5")
        talk.runs["run-5"].state = State.GONE
        fact = f"用户喜欢{new_mark()}牌的茶"
        await said.running.core.CreateFact(svc.CreateFactRequest(scope=scope, text=fact))
        ledger.facts[fact] = State.KEPT
        await said.running.settle()
        await start.stop()  # type: ignore[attr-defined]
    return folder / "memsvc.db", ledger


async def test_the_audit_finds_nothing_where_nothing_is_wrong(start: Start, tmp_path: Path, scope: pb.Scope) -> None:
    path, ledger = await damaged(start, tmp_path, scope)
    assert audit(path, [ledger]) == []
    assert deleted_words(path, [ledger]) == []


DAMAGE = [
    ("DELETE FROM runs WHERE run_id = 'run-1'", "acknowledged and is lost"),
    ("UPDATE runs SET output = output || '。' WHERE run_id = 'run-1'", "not as it was sent"),
    ("DELETE FROM recall_entries WHERE sequence = 2", "not in the index"),
    ("UPDATE recall_entries SET sequence = 99 WHERE sequence = 2", "without its run"),
    ("UPDATE recall_scopes SET paged_no = 3", "postings stand on pages"),
    ("UPDATE recall_scopes SET entries = 9", "count of entries"),
    ("UPDATE threads SET run_count = 7", "count of runs"),
    ("UPDATE threads SET last_sequence = 1", "last run"),
    ("UPDATE threads SET folded_count = 1", "does not cover what it counts"),
    ("UPDATE threads SET folded_upto = 0, folded_count = 0", "a summary without its cursor"),
    ("UPDATE threads SET summary = summary || summary", "tells of"),
    ("UPDATE checkpoints SET summary = ''", "tells of"),
    ("UPDATE threads SET draft_offset = 7", "a draft without its place"),
    ("DELETE FROM facts", "a fact of"),
]


async def test_the_audit_sees_what_is_wrong(start: Start, tmp_path: Path, scope: pb.Scope) -> None:
    path, ledger = await damaged(start, tmp_path, scope)
    for number, (damage, words) in enumerate(DAMAGE):
        copy = tmp_path / f"damaged-{number}.db"
        shutil.copyfile(path, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.execute(damage)
        found = audit(copy, [deepcopy(ledger)])
        assert any(words in line for line in found), (damage, found)


async def test_the_audit_believes_the_file_and_not_the_ledger(start: Start, tmp_path: Path, scope: pb.Scope) -> None:
    path, ledger = await damaged(start, tmp_path, scope)
    for run in ledger.conversations[0].runs.values():
        run.state = State.GONE if run.state is State.KEPT else State.KEPT
    assert len(deleted_words(path, [ledger])) >= 5
    complaints = audit(path, [ledger])
    for words in ("was deleted and is there", "acknowledged and is lost"):
        assert any(words in line for line in complaints)
