"""Deleted means deleted: hidden at once, whole scopes too, gone from rows and bytes, and no retry brings it back."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memsvc import retention
from memsvc.config import Settings
from memsvc.errors import Deleted, MemsvcError, RunNotFound, ThreadNotInScope
from memsvc.model import NewRun, RunOutcome, ThreadState, Usage
from memsvc.rules.terms import query_terms
from memsvc.store import Page, ThreadRef
from memsvc.store.sqlite import deletion, extraction, folding, ops, runs, scopes, sweeping, threads
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.fakes.provider import FakeProvider, after, says, status
from tests.model_of_threads import RENDERER, SCOPE, prepared
from tests.review import BLACK, begun, nothing, propose, proposes
from tests.serving import SUMMARY, entry
from tests.talk import COMPLETED, Talk, refusal
from tests.test_threads import list_threads
from tests.units import contents, held, opened, swept

NOWHERE = ThreadRef("", "")
DAY_US = retention.DAY_US


def run(run_id: str, text: str = "黑色封面") -> NewRun:
    return NewRun(run_id, text, f"{text}已做好", RunOutcome.COMPLETED, "", "", Usage(10, 5, 1), None, 0, {})


async def record(
    db: Database, run_id: str, ref: ThreadRef = NOWHERE, *, now_us: int = 0, text: str = "黑色封面"
) -> str:
    """Records a run by the unit that does it; returns the thread's id."""
    new = prepared(run(run_id, text), db.secret)
    return (await db.write(runs.record_run, db.secret, SCOPE, ref, new, now_us))[0].thread_id


async def hidden_error(work: Any) -> type[MemsvcError] | None:
    try:
        await work
    except MemsvcError as error:
        return type(error)
    return None


def find(connection: sqlite3.Connection, secret: bytes, thread_id: str) -> scopes.Found:
    """Finds a thread as a runner's calls do."""
    return scopes.find_thread(connection, secret, SCOPE, scopes.find_scope(connection, SCOPE), ThreadRef(thread_id, ""))


@pytest.mark.parametrize("whole_scope", [False, True], ids=["thread", "scope"])
@pytest.mark.parametrize("sweep_first", [False, True], ids=["hidden", "swept"])
async def test_what_is_hidden_is_as_gone_as_what_was_taken_out(
    tmp_path: Path, whole_scope: bool, sweep_first: bool
) -> None:
    async with opened(tmp_path / "memsvc.db") as db:
        thread_id = await record(db, "a1", ThreadRef("", "周一"))
        await record(db, "a2", ThreadRef(thread_id, ""))
        if not whole_scope:
            kept = await record(db, "b1", text="蓝色封底")
        if whole_scope:
            assert await db.write(deletion.delete_scope, db.secret, SCOPE) == (1, 2, 0)
        else:
            assert await db.write(deletion.delete_thread, db.secret, SCOPE, thread_id) == 2
        if sweep_first:
            await swept(db)
        secret = db.secret
        for late in (
            db.write(runs.record_run, secret, SCOPE, NOWHERE, prepared(run("a1"), secret), 0),
            db.write(runs.record_run, secret, SCOPE, ThreadRef(thread_id, ""), prepared(run("new"), secret), 0),
            db.read(find, secret, thread_id),
        ):
            assert await hidden_error(late) is Deleted
        assert await hidden_error(db.read(threads.get_run, SCOPE, "a1")) is RunNotFound
        assert await hidden_error(db.write(deletion.delete_run, secret, SCOPE, "a1")) is RunNotFound
        assert await hidden_error(db.read(threads.get_thread, SCOPE, thread_id)) is ThreadNotInScope
        if not whole_scope:
            assert await hidden_error(db.write(deletion.delete_thread, secret, SCOPE, thread_id)) is ThreadNotInScope
        # What a hidden thread is called is no name that somebody could call it by.
        for (name,) in await db.read(lambda c: c.execute("SELECT thread_id FROM threads WHERE state = 0").fetchall()):
            assert await hidden_error(db.read(find, secret, name)) is ThreadNotInScope
        left = await db.read(threads.list_threads, SCOPE, set(ThreadState), "", Page(0, 10))
        assert [t.thread_id for t in left[0]] == ([] if whole_scope else [kept])
        found = await db.read(threads.search, Cache(), SCOPE, query_terms("黑色封面"), 5, 0.0, 0)
        assert [f.run.run_id for f in found] == ([] if whole_scope else ["b1"])
        rows = await db.read(ops.usage, SCOPE, "", None, None)
        assert sum(row.usage.input_tokens for row in rows) == (0 if whole_scope else 30)
        assert {row.thread_id for row in rows} == (set() if whole_scope else {"", kept})
        # The key leads to another thread, in which a conversation can go on.
        again = await record(db, "c1", ThreadRef("", "周一"))
        assert again != thread_id
        await swept(db)
        assert (
            await hidden_error(db.write(runs.record_run, secret, SCOPE, NOWHERE, prepared(run("a2"), secret), 0))
            is Deleted
        )
        listed, _ = await db.read(threads.list_threads, SCOPE, set(ThreadState), "", Page(0, 1))
        assert [thread.thread_id for thread in listed] == [again]


async def test_a_long_thread_goes_in_steps_between_which_others_write(tmp_path: Path) -> None:
    async with opened(tmp_path / "memsvc.db") as db:
        thread_id = await record(db, "0")
        for number in range(1, 400):
            words = " ".join(f"word{number * k}" for k in range(1, 120))
            await record(db, str(number), ThreadRef(thread_id, ""), text=words)
        assert await db.write(deletion.delete_thread, db.secret, SCOPE, thread_id) == 400
        steps, step = 1, await db.write(sweeping.sweep, db.secret, None)
        while step.more:
            await record(db, f"between {steps}")
            steps, step = steps + 1, await db.write(sweeping.sweep, db.secret, step.walk)
        assert steps > 1
        assert len((await db.read(threads.list_threads, SCOPE, set(ThreadState), "", Page(0, 200)))[0]) == steps - 1
        assert await db.read(lambda c: c.execute("SELECT count(*) FROM tombstones WHERE kind = 'run'").fetchone()) == (
            400,
        )


async def test_what_was_hidden_before_a_crash_is_taken_out_after_it(tmp_path: Path) -> None:
    db = await Database.open(tmp_path / "memsvc.db")
    thread_id = await record(db, "1", text="饕餮zqneedle")
    await record(db, "2", text="别的事")
    await db.write(deletion.delete_thread, db.secret, SCOPE, thread_id)
    await db.close()
    assert "饕餮".encode() in b"".join(contents(tmp_path).values())
    store = await SqliteStore.open(tmp_path / "memsvc.db", RENDERER, 1)
    await store._janitor.done(1)
    assert not store.erasure_owed()
    assert "饕餮".encode() not in b"".join(contents(tmp_path).values())
    await store.close()


async def test_a_deletion_is_erased_from_the_log_once_the_read_that_holds_it_ends(tmp_path: Path) -> None:
    db = await Database.open(tmp_path / "memsvc.db")
    store = SqliteStore(db, RENDERER)
    await store._janitor.done(1)
    await record(db, "1", text="饕餮zqneedle")
    asked = asyncio.Event()
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(connection: Any) -> None:
        connection.execute("SELECT count(*) FROM runs").fetchone()
        loop.call_soon_threadsafe(asked.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

    reading = asyncio.ensure_future(db.read(hold))
    await asked.wait()
    deleting = asyncio.ensure_future(store.delete_run(SCOPE, "1"))
    # The deletion is done for everybody, though a read keeps its words in the log.
    while await hidden_error(store.get_run(SCOPE, "1")) is not RunNotFound:
        pass
    assert not deleting.done()
    release.set()
    await reading
    await deleting
    assert not store.erasure_owed()
    assert "饕餮".encode() not in b"".join(contents(tmp_path).values())
    await store.close()


# -- scopes, over the wire


async def delete_scope(running: Running, scope: pb.Scope) -> tuple[int, int, int]:
    answer = await running.ops.DeleteScope(svc.DeleteScopeRequest(scope=scope))
    return answer.deleted_thread_count, answer.deleted_run_count, answer.deleted_fact_count


async def test_a_deleted_scope_holds_nothing_and_can_be_begun_anew(
    start: Start, scope: pb.Scope, tmp_path: Path
) -> None:
    async with FakeProvider() as cloud:
        running, talk, review = await begun(start, scope, cloud)
        await propose(talk, cloud, BLACK, "用户研究甪里古镇")
        black = next(c for c in await review.candidates() if c.text == BLACK)
        await review.confirm(black.candidate_id)
        await review.create("用户收藏珐琅彩瓷")
        await talk.record("饕餮zqneedle", thread_id="", thread_key="周一饕餮", labels={"note": "饕餮"})
        await talk.record("再说")
        await running.settle()
        beside = pb.Scope(tenant_id=scope.tenant_id, agent_id=scope.agent_id, user_id="beside")
        other = Talk(running, beside)
        await other.turns("别人的话", "还有")
        whole = (await other.context()).text
        run_ids, thread_id = list(talk.run_ids), talk.thread_id

        assert await delete_scope(running, scope) == (2, len(run_ids), 2)
        assert await delete_scope(running, scope) == (0, 0, 0)

        assert await list_threads(running, scope) == []
        assert await review.facts() == []
        assert await review.candidates() == []
        assert await talk.ops() == []
        assert await talk.notices() == []
        usage = await running.ops.GetUsage(svc.GetUsageRequest(scope=scope))
        assert not usage.total.ByteSize()
        hits = await running.recall.Search(svc.SearchRequest(scope=scope, query="饕餮zqneedle"))
        assert not hits.hits
        for run_id in run_ids:
            late = svc.RecordRunRequest(scope=scope, run_id=run_id, input="x", outcome=COMPLETED)
            assert (await refusal(running.memory.RecordRun(late))).reason == "DELETED"
        asked = svc.GetContextRequest(scope=scope, thread_id=thread_id, input="x")
        assert (await refusal(running.memory.GetContext(asked))).reason == "DELETED"
        for word in ("饕餮", "zqneedle", "珐琅彩瓷", "甪里古镇", BLACK):
            for name, content in contents(tmp_path).items():
                assert word.encode() not in content, (word, name)

        assert (await other.context()).text == whole
        talk.thread_id = ""
        await talk.record("重新开始", thread_key="周一饕餮")
        assert talk.thread_id != thread_id
        assert [thread.title for thread in await list_threads(running, scope)] == ["重新开始"]
        # What a person decided of the old words is forgotten as well.
        await review.create(BLACK)
        assert await review.texts() == [BLACK]


@pytest.mark.parametrize("whole_scope", [False, True], ids=["run", "scope"])
async def test_work_that_failed_is_told_of_no_more_once_what_it_was_for_is_deleted(
    start: Start, scope: pb.Scope, whole_scope: bool
) -> None:
    async with FakeProvider(status(500)) as cloud:
        running, talk, _ = await begun(start, scope, cloud, retry_first_ms=600_000, retry_max_ms=600_000)
        await talk.turns("出一份试卷", "换两道", "写一份答案")
        assert {job.thread_id for job in (await talk.status()).failed_jobs} == {talk.thread_id}
        cloud.behave = nothing()
        if whole_scope:
            await delete_scope(running, scope)
        else:
            await talk.delete_run(talk.run_ids[0])
        assert list((await talk.status()).failed_jobs) == []
        await running.settle()
        told = await talk.status()
        assert (told.pending_jobs, told.unfolded_runs, list(told.failed_jobs)) == (0, 0, [])


@pytest.mark.parametrize("begun_anew", [False, True], ids=["gone", "begun anew"])
@pytest.mark.parametrize("failing", [False, True], ids=["answered", "failed"])
@pytest.mark.parametrize("kind", ["fold", "extract"])
async def test_work_that_was_in_flight_for_a_deleted_scope_leaves_nothing_in_the_next(
    start: Start, scope: pb.Scope, kind: str, failing: bool, begun_anew: bool
) -> None:
    async with FakeProvider() as local:
        gate = asyncio.Event()
        answer = says(SUMMARY) if kind == "fold" else proposes(BLACK)
        local.queue = [after(gate, status(500) if failing else answer)]
        running = await start(
            providers={"own": entry(local)}, local_fallback="own", limits=[{"extraction": kind == "extract"}]
        )
        # A name that nobody configured: its work goes to the fallback, and a notice says so.
        talk = Talk(running, scope, provider="somebody")
        for given in ("出一份试卷", "换两道", "写一份答案")[: 3 if kind == "fold" else 1]:
            await talk.record(given)
        await local.asked()
        await delete_scope(running, scope)
        if begun_anew:
            talk.thread_id = ""
            await talk.record("重新开始", provider="own")
        local.behave = nothing()
        gate.set()
        await running.settle()
        assert {op.thread_id for op in await talk.ops()} <= ({talk.thread_id} if begun_anew else set())
        assert await talk.notices() == []
        assert list((await talk.status()).failed_jobs) == []
        listed = await running.ops.ListScopes(svc.ListScopesRequest())
        assert len(listed.scopes) == begun_anew


# -- retention


async def test_runs_are_kept_for_the_days_that_their_scope_is_given(tmp_path: Path) -> None:
    db = await Database.open(tmp_path / "memsvc.db")
    store = SqliteStore(db, RENDERER)
    settings = Settings.model_validate({"limits": [{"tenant": SCOPE.tenant_id, "retention_days": 30}]})
    thread_id = ""
    for day in range(50):
        thread_id = await record(db, f"{day}", ThreadRef(thread_id, ""), now_us=day * DAY_US)
    told: list[str] = []

    async def at(day: int) -> list[str]:
        told.clear()
        await retention.expire(store, settings, day * DAY_US, lambda _, thread: told.append(thread))
        return [r.run_id for r in (await store.list_runs(SCOPE, thread_id, Page(0, 200), False, 0, 1 << 20))[0]]

    def days(first: int) -> list[str]:
        return [str(day) for day in range(first, 50)]

    # A day's grace, so that a summary is made anew once a day at the most; then all that is old goes.
    for day, left, shortened in ((30, 0, 0), (31, 0, 0), (32, 2, 1), (33, 2, 0), (34, 4, 1), (70, 40, 1)):
        assert (await at(day), len(told)) == (days(left), shortened), day
    thread = await store.get_thread(SCOPE, thread_id)
    assert (thread.run_count, thread.summary) == (10, "")
    with pytest.raises(Deleted):
        await record(db, "39")
    with pytest.raises(ThreadNotInScope):
        await at(1000)
    assert told == [thread_id]
    await store.close()


async def test_nothing_is_too_old_where_no_limit_says_so(tmp_path: Path) -> None:
    db = await Database.open(tmp_path / "memsvc.db")
    store = SqliteStore(db, RENDERER)
    await record(db, "1")
    settings = Settings.model_validate(
        {"limits": [{"tenant": "another", "retention_days": 1}, {"retention_days": None}]}
    )
    assert await retention.expire(store, settings, 10_000 * DAY_US, lambda *_: None) == 0
    await store.close()


async def test_a_run_that_a_clock_in_the_past_recorded_is_as_young_as_those_before_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "memsvc.db") as db:
        thread_id = await record(db, "1", now_us=50 * DAY_US)
        await record(db, "2", ThreadRef(thread_id, ""), now_us=1)
        assert await db.read(deletion.aged_threads, SCOPE, 40 * DAY_US) == []
        assert await db.write(deletion.expire, db.secret, SCOPE, thread_id, 40 * DAY_US) is False
        assert (await db.read(threads.get_thread, SCOPE, thread_id)).run_count == 2


async def test_a_bug_while_taking_out_is_told_to_who_waits_and_the_next_deletion_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = await Database.open(tmp_path / "memsvc.db")
    store = SqliteStore(db, RENDERER)
    thread_id, other = await record(db, "1", text="饕餮"), await record(db, "2")
    with monkeypatch.context() as broken:
        broken.setattr(sweeping, "sweep", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await store.delete_thread(SCOPE, thread_id)
        assert store.erasure_owed()
    assert await store.delete_thread(SCOPE, other) == 1
    assert not store.erasure_owed()
    assert "饕餮".encode() not in b"".join(contents(tmp_path).values())
    await store.close()


@pytest.mark.parametrize("whole_scope", [False, True], ids=["thread", "scope"])
async def test_what_is_hidden_owes_no_work_that_would_show_it_to_a_model(tmp_path: Path, whole_scope: bool) -> None:
    async with opened(tmp_path / "memsvc.db") as db:
        thread_id = await record(db, "a1")
        for run_id in ("a2", "a3"):
            await record(db, run_id, ThreadRef(thread_id))
        assert [name for _, name in await db.read(folding.due_threads)] == [thread_id]
        assert [name for _, name in await db.read(extraction.unread_threads)] == [thread_id]
        if whole_scope:
            await db.write(deletion.delete_scope, db.secret, SCOPE)
        else:
            await db.write(deletion.delete_thread, db.secret, SCOPE, thread_id)
        assert await db.read(folding.due_threads) == await db.read(extraction.unread_threads) == []
        assert (await db.read(folding.debts, None))[0] == (await db.read(folding.backlog))[0] == 0


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_what_a_caller_deletes_who_leaves_is_taken_out_all_the_same(tmp_path: Path, turns: int) -> None:
    store = await SqliteStore.open(tmp_path / "memsvc.db", RENDERER, 1)
    await store._janitor.done(1)
    await record(store._db, "a1", text="饕餮")
    with held(store._db._writer):
        leaving = asyncio.ensure_future(store.delete_run(SCOPE, "a1"))
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    async with asyncio.timeout(20):
        while not store.erasure_owed():  # until the write is done, which nobody waits for
            await store._db.read(lambda db: None)
        while store.erasure_owed():
            await store._db.read(lambda db: None)
    assert "饕餮".encode() not in b"".join(contents(tmp_path).values())
    await store.close()


async def test_who_waits_for_the_janitor_misses_nothing_that_it_tells(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "memsvc.db", RENDERER, 1)
    janitor = store._janitor
    await janitor.done(1)
    waiting = asyncio.ensure_future(janitor.done(2))
    await asyncio.sleep(0)
    # It has just looked: what is told in the same turn of the loop is told to it as well.
    janitor._swept = janitor._erased = 2
    janitor._tell()
    async with asyncio.timeout(20):
        await waiting
    await store.close()
