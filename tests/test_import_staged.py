"""Imports beside everything else: staged where nobody sees it, shown at once, and whatever comes between is either
before all of an import or behind it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from memsvc import exchange
from memsvc.errors import Deleted, ImportInvalid, RunNotFound, ThreadNotInScope, Unavailable
from memsvc.model import OpKind, Scope, ThreadState, Usage
from memsvc.rules import importfile
from memsvc.rules.exportfile import ThreadLine
from memsvc.store import ImportedRun, NewOp, Page, Question, Store, ThreadRef, verify_database
from memsvc.store.core import NewFact
from memsvc.store.sqlite import deletion, export, importing
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import RENDERER, SCOPE, all_text
from tests.staged import (
    BESIDE,
    THREADS,
    TURNS,
    WORD,
    Halfway,
    Held,
    at_rest,
    bring,
    every_run,
    is_clean,
    lines,
    record,
    rows,
    sums,
    written,
)
from tests.units import contents


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "memsvc.db", RENDERER, 1)
    yield opened
    await opened.close()


@pytest.fixture
async def data(tmp_path: Path) -> bytes:
    (tmp_path / "from").mkdir()
    return await written(tmp_path / "from" / "memsvc.db")


async def test_what_is_staged_is_seen_by_nobody(store: SqliteStore, data: bytes) -> None:
    mine = await record(store, "mine", ThreadRef(thread_key="k1"))
    before = await lines(store)
    usage = sums(await store.usage(SCOPE, "", None, None))
    async with Halfway(store, data) as halfway:
        assert await rows(store, "SELECT count(*) FROM runs") == [(THREADS * TURNS + 1,)]
        assert await lines(store) == before
        assert sums(await store.usage(SCOPE, "", None, None)) == usage
        assert verify_database(Path(store._db.path))[:4] == ([], 1, 1, 1)
        assert await store.due_threads() == []
        assert [thread_id for _, thread_id in await store.unread_threads()] == [mine]
        assert (await store.backlog())[0] == 0
        with pytest.raises(RunNotFound):
            await store.get_run(SCOPE, "r0-0")
        with pytest.raises(RunNotFound):
            await store.delete_run(SCOPE, "r0-0")
        staged = (await rows(store, "SELECT thread_id FROM threads WHERE state < 0"))[0][0]
        for look in (store.get_thread, store.delete_thread):
            with pytest.raises(ThreadNotInScope):
                await look(SCOPE, staged)
        assert await halfway.end() == (THREADS, THREADS * TURNS, 1, 0, 0)
    assert (await store.get_thread(SCOPE, staged)).run_count == TURNS
    assert (await store.get_thread(SCOPE, mine)).thread_key == "k1"
    assert len(await store.due_threads()) == THREADS
    await is_clean(store)


async def test_other_writes_go_on_between_the_steps(store: SqliteStore, data: bytes) -> None:
    async with Halfway(store, data) as halfway:
        key = ThreadRef(thread_key="k2")
        mine = await record(store, "new", key)
        assert await record(store, "other", key, scope=BESIDE) != mine
        await halfway.end()
    # A key leads to one thread: the one that had it first.
    assert (await store.get_thread(SCOPE, mine)).thread_key == "k2"
    assert await record(store, "newer", key) == mine
    assert len((await store.list_threads(SCOPE, tuple(ThreadState), "", Page(0, 100)))[0]) == THREADS + 1
    await is_clean(store)


async def test_what_is_being_imported_is_not_recorded_beside_it(store: SqliteStore, data: bytes) -> None:
    async with Halfway(store, data) as halfway:
        with pytest.raises(Unavailable):
            await record(store, "r0-0", ThreadRef(), f"{WORD} 0 0")
        await halfway.end()
    assert await record(store, "r0-0", ThreadRef(), f"{WORD} 0 0")  # it is there, and the same
    assert (await store.get_run(SCOPE, "r0-0")).output == f"{WORD} 0 0"


async def test_a_thread_that_is_being_imported_is_not_opened_beside_it(tmp_path: Path) -> None:
    # A thread's id follows from its key and the database's secret: an older copy of the database gives the same.
    await (await Database.open(tmp_path / "memsvc.db", 1)).close()
    shutil.copyfile(tmp_path / "memsvc.db", tmp_path / "older.db")
    store = await SqliteStore.open(tmp_path / "memsvc.db", RENDERER, 1)
    await record(store, "r1", ThreadRef(thread_key="k"))
    data = await lines(store)
    await store.close()
    older = await SqliteStore.open(tmp_path / "older.db", RENDERER, 1)
    try:
        async with Halfway(older, data) as halfway:
            with pytest.raises(Unavailable):
                await record(older, "r2", ThreadRef(thread_key="k"))
            await halfway.end()
        await record(older, "r2", ThreadRef(thread_key="k"))
        assert (await older.get_thread(SCOPE, (await older.get_run(SCOPE, "r2")).thread_id)).run_count == 2
    finally:
        await older.close()


async def test_a_run_that_is_recorded_before_it_is_staged_ends_the_import(store: SqliteStore, data: bytes) -> None:
    held = Held(store, ImportedRun)
    task = asyncio.ensure_future(bring(cast(Store, held), store, data))
    await held.pause.reached.wait()
    await record(store, "r3-1", ThreadRef())
    held.pause.go()
    with pytest.raises(ImportInvalid):
        await task
    await at_rest(store)
    assert [run.run_id for run in await every_run(store)] == ["r3-1"]
    await is_clean(store)


async def test_a_scope_that_is_deleted_in_between_stays_deleted(store: SqliteStore, data: bytes) -> None:
    await record(store, "mine", ThreadRef())
    async with Halfway(store, data) as halfway:
        assert (await store.delete_scope(SCOPE)).runs == 1
        with pytest.raises(Unavailable):
            await halfway.end()
    await at_rest(store)
    assert await every_run(store) == []
    assert WORD not in await store._db.read(all_text)
    await is_clean(store)
    # Of what was never there nothing is remembered; what was is.
    assert await rows(store, "SELECT count(*) FROM tombstones WHERE kind = 'run'") == [(1,)]
    assert await bring(store, store, data) == (THREADS, THREADS * TURNS, 1, 0, 0)


async def test_an_import_of_another_scope_leaves_a_deletion_alone(store: SqliteStore, data: bytes) -> None:
    await record(store, "x", ThreadRef(thread_key="k"), scope=BESIDE)
    async with Halfway(store, data) as halfway:
        await store.delete_scope(BESIDE)
        assert (await halfway.end()).runs == THREADS * TURNS


async def test_a_deletion_in_between_is_behind_the_import_or_ends_it(store: SqliteStore, data: bytes) -> None:
    await bring(store, store, data)
    threads = {run.run_id: run.thread_id for run in await every_run(store)}
    for run_id in ("r0-1", "r1-2"):
        await store.delete_run(SCOPE, run_id)
    # A run that the file has and that was there when it was looked at: deleted, and the import is none the worse.
    async with Halfway(store, data) as halfway:
        await store.delete_run(SCOPE, "r0-3")
        assert (await halfway.end()).runs == 2
    with pytest.raises(RunNotFound):
        await store.get_run(SCOPE, "r0-3")
    with pytest.raises(Deleted):
        await record(store, "r0-3", ThreadRef(), f"{WORD} 0 3")
    # The thread that was to get some.
    await store.delete_run(SCOPE, "r1-2")
    async with Halfway(store, data) as halfway:
        await store.delete_thread(SCOPE, threads["r1-2"])
        with pytest.raises(Unavailable):
            await halfway.end()
    await at_rest(store)
    assert threads["r1-2"] not in {run.thread_id for run in await every_run(store)}
    await is_clean(store)
    # Then it all comes back, into place.
    assert await bring(store, store, data) == (1, TURNS + 1, 0, 0, 0)
    assert {run.run_id: run.thread_id for run in await every_run(store)} == threads
    thread = (await store.list_runs(SCOPE, threads["r0-1"], Page(0, 200), False, 0, 1 << 20))[0]
    assert [run.run_id for run in thread] == [f"r0-{turn}" for turn in range(TURNS)]
    await is_clean(store)


async def test_runs_that_come_back_stand_before_one_recorded_meanwhile(store: SqliteStore, data: bytes) -> None:
    await bring(store, store, data)
    thread_id = (await store.get_run(SCOPE, "r0-4")).thread_id
    await store.delete_run(SCOPE, "r0-4")
    async with Halfway(store, data) as halfway:
        await record(store, "late", ThreadRef(thread_id))
        await halfway.end()
    runs = (await store.list_runs(SCOPE, thread_id, Page(0, 200), False, 0, 1 << 20))[0]
    assert [run.run_id for run in runs] == [*(f"r0-{turn}" for turn in range(TURNS)), "late"]
    thread = await store.get_thread(SCOPE, thread_id)
    assert (thread.run_count, thread.folded_count) == (TURNS + 1, 0)
    await is_clean(store)


async def test_two_imports_of_one_file_at_once_bring_it_once(store: SqliteStore, data: bytes) -> None:
    answers = await asyncio.gather(bring(store, store, data), bring(store, store, data))
    assert sorted(answers) == [(0, 0, 0, 0, 0), (THREADS, THREADS * TURNS, 1, 0, 0)]
    await is_clean(store)


async def test_a_wrong_file_leaves_nothing_and_the_right_one_comes_in_behind_it(
    store: SqliteStore, data: bytes, tmp_path: Path
) -> None:
    await record(store, "r5-4", ThreadRef())  # another run of that id than the file's
    before = await lines(store)
    for _ in range(2):
        with pytest.raises(ImportInvalid):
            await bring(store, store, data)
    await at_rest(store)
    assert await lines(store) == before
    assert not any(WORD.encode() in content for name, content in contents(tmp_path).items() if "from" not in name)
    await is_clean(store)
    await store.delete_run(SCOPE, "r5-4")
    with pytest.raises(ImportInvalid):
        await bring(store, store, data.replace(b'"r5-4"', b'"r4-4"').replace(b'"line_count":', b'"line_count":1'))
    assert (await bring(store, store, data)).runs == THREADS * TURNS


async def test_too_many_runs_for_threads_that_are_here_are_refused(
    store: SqliteStore, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bring(store, store, data)
    for run_id in ("r0-1", "r1-2", "r1-3"):
        await store.delete_run(SCOPE, run_id)
    before = await lines(store)
    monkeypatch.setattr(importing, "MAX_MERGED_RUNS", 2)
    with pytest.raises(ImportInvalid):
        await bring(store, store, data)
    await at_rest(store)
    assert await lines(store) == before
    monkeypatch.setattr(importing, "MAX_MERGED_RUNS", 3)
    assert (await bring(store, store, data)).runs == 3
    monkeypatch.setattr(importfile, "MAX_FACT_LINES", 0)
    with pytest.raises(ImportInvalid):
        await bring(store, store, data)


async def test_an_export_that_an_import_comes_into_ends(
    store: SqliteStore, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Halfway(store, data) as halfway:
        await record(store, "mine", ThreadRef())  # its thread has a higher number than what is staged
        monkeypatch.setattr(export, "PAGE_ROWS", 1)
        pages = exchange.export(store, SCOPE)
        await anext(pages)
        await halfway.end()
        with pytest.raises(Unavailable):
            async for _ in pages:
                pass


async def test_a_run_that_stands_where_a_deleted_one_stood_is_not_taken_for_that(store: SqliteStore) -> None:
    """Numbers of deleted runs are given again, to another scope's runs too; what was read of one is not shown then."""
    thread = ThreadRef(await record(store, "r1", ThreadRef(thread_key="k")))
    for run_id in ("r2", "r3"):
        await record(store, run_id, thread)
    data = await lines(store)
    for run_id in ("r1", "r2"):
        await store.delete_run(SCOPE, run_id)
    stranger = ThreadRef(await record(store, "s1", ThreadRef(thread_key="k"), "secret", scope=BESIDE))

    async def shown(scope: Scope, ref: ThreadRef) -> list[str]:
        return [run.run_id for run in (await store.read_context(scope, ref, Question())).memory.runs]

    # Into the place of the last that stood before the one that is left.
    lost = (await store.get_run(SCOPE, "r3")).sequence - 1
    await store._db.write(lambda db: db.execute("UPDATE runs SET sequence = ? WHERE run_id = 's1'", (lost,)).rowcount)
    assert await shown(BESIDE, stranger) == ["s1"]
    await store.delete_run(BESIDE, "s1")
    await bring(store, store, data)
    assert (await store.get_run(SCOPE, "r2")).sequence == lost
    assert sorted(await shown(SCOPE, thread)) == ["r1", "r2", "r3"]


async def test_what_is_deleted_in_between_is_no_source_of_a_fact_and_is_taken_out(store: SqliteStore) -> None:
    thread_id = await record(store, "r1", ThreadRef(thread_key="k"))
    await record(store, "r2", ThreadRef(thread_id))
    await store.create_fact(SCOPE, NewFact("f1", "用户住在北京", "wang"), 1)
    sources = "INSERT INTO fact_sources SELECT fact_no, sequence FROM facts, runs"
    await store._db.write(lambda db: db.execute(sources).rowcount)
    data = await lines(store)
    await store.delete_fact(SCOPE, "f1", "wang", 1)
    async with Halfway(store, data) as halfway:
        # Hidden, and not taken out yet.
        await store._db.write(deletion.delete_run, store.secret, SCOPE, "r1")
        assert (await halfway.end()).facts == 1
    assert await rows(store, "SELECT run_id FROM fact_sources JOIN runs USING (sequence)") == [("r2",)]
    await at_rest(store)
    await is_clean(store)


async def test_a_scope_is_deleted_whose_threads_an_import_has_staged_calls_of(store: SqliteStore) -> None:
    thread_id = await record(store, "r1", ThreadRef(thread_key="k"))
    (scope_no,) = (await rows(store, "SELECT scope_no FROM runs"))[0]
    op = NewOp(OpKind.FOLD, "own", "m", Usage(10, 1, 7), "", 5)
    for _ in range(3):
        await store.record_op(SCOPE, scope_no, thread_id, op, None, 1)
    await store.create_fact(SCOPE, NewFact("f1", "用户住在北京", "wang"), 1)
    data = await lines(store)
    await store._db.write(lambda db: db.execute("DELETE FROM memory_ops").rowcount)
    async with Halfway(store, data) as halfway:
        assert await rows(store, "SELECT thread_no IS NULL FROM memory_ops") == [(0,)] * 3
        await store.delete_scope(SCOPE)
        with pytest.raises(Unavailable):
            await halfway.end()
    await at_rest(store)
    await is_clean(store)
    assert await rows(store, "SELECT 1 FROM runs UNION ALL SELECT 1 FROM memory_ops") == []


async def test_what_is_deleted_before_it_is_looked_at_comes_back_whole(store: SqliteStore, data: bytes) -> None:
    await bring(store, store, data)
    await store._db.write(lambda db: db.execute("DELETE FROM tombstones").rowcount)
    await store._db.write(lambda db: db.execute("DELETE FROM tombstone_keys").rowcount)
    before = await rows(store, "SELECT * FROM deleted_usage")
    held = Held(store, ThreadLine)
    task = asyncio.ensure_future(bring(cast(Store, held), store, data))
    await held.pause.reached.wait()
    # The first deletions of the scope, done with before the import comes to their lines.
    await store.delete_thread(SCOPE, (await store.get_run(SCOPE, "r1-0")).thread_id)
    await store.delete_run(SCOPE, "r2-2")
    held.pause.go()
    assert (await task).runs == TURNS + 1
    await at_rest(store)
    # That of the run which the file says was deleted.
    assert await rows(store, "SELECT kind FROM tombstones WHERE kind <> 'key'") == [("run",)]
    assert await rows(store, "SELECT * FROM deleted_usage") == before
    await is_clean(store)


async def test_an_import_that_outlives_its_store_leaves_no_task_behind(tmp_path: Path, data: bytes) -> None:
    store = await SqliteStore.open(tmp_path / "stopped.db", RENDERER, 1)
    async with Halfway(store, data) as halfway:
        await store.close()
        with pytest.raises(Unavailable):
            await halfway.end()
        store._janitor.ask()
        await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() in ("memsvc-importer", "memsvc-janitor")]
