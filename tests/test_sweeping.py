"""Taking out what is hidden: page by page, run by run, and at whatever step it is left, the database is whole."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from memsvc.model import NewRun, RunOutcome, ThreadState, Usage
from memsvc.rules.terms import count_terms, query_terms
from memsvc.store import Page, ThreadRef
from memsvc.store.sqlite import deletion, janitor, ops, pages, recall, runs, sweeping, threads, unindexing, verify
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.index_view import ENTRY_MASK, GAIN_BITS
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import RENDERER, SCOPE, prepared
from tests.test_recall_store import opened, talk
from tests.units import opened as database

HIDDEN = 2
"""The thread that is taken out."""


@pytest.fixture
def small_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index whose levels are full after a few runs, and whose pages after a few postings."""
    for name, value in (
        ("PAGE_POSTINGS", 8),
        ("_FIRST_PAGE_POSTINGS", 12),
        ("_LEVEL_1_POSTINGS", 100),
        ("_LEVEL_RATIO", 3),
        ("_STEP_POSTINGS", 60),
    ):
        monkeypatch.setattr(pages, name, value)
    monkeypatch.setattr(recall, "USUAL_WAITING", 60)
    monkeypatch.setattr(recall, "MAX_WAITING", 200)


def run_of(number: int, draw: random.Random) -> dict[str, int]:
    """The terms of a run."""
    return count_terms(f"{talk(draw.randrange(1_000), 15)} needle{number}")


def on_pages(db: sqlite3.Connection) -> list[int]:
    return sorted(p for (blob,) in db.execute("SELECT postings FROM recall_pages") for p in memoryview(blob).cast("q"))


def should_be(db: sqlite3.Connection, *without: int) -> list[int]:
    """The postings of all entries that do not wait, without those of some threads."""
    rows = db.execute(
        "SELECT thread_no, postings FROM recall_entries JOIN recall_scopes USING (scope_no) WHERE entry_no <= paged_no"
    )
    return sorted(p for thread, blob in rows if thread not in without for p in memoryview(blob).cast("q"))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_moves_meanwhile_a_walk_takes_every_posting_of_a_hidden_thread_and_no_other(
    seed: int, small_levels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(unindexing, "PAGES_AT_ONCE", draw.choice((1, 3)))
    if draw.random() < 0.5:
        monkeypatch.setattr(unindexing, "FEW_ENTRIES", 0)
    with opened() as db:
        number = 0

        def record(*among: int) -> None:
            nonlocal number
            number += 1
            recall.index_run(db, 1, draw.choice(among), number, run_of(number, draw))

        for _ in range(draw.randrange(5, 60)):
            record(1, HIDDEN, 3)
            while draw.random() < 0.6 and recall.settle(db, 1):
                pass
        db.execute("INSERT INTO doomed (scope_no, thread_no) VALUES (1, ?)", (HIDDEN,))
        walk = unindexing.begin(db, 1, [HIDDEN])
        while walk is not None and not walk.done:
            match draw.randrange(4):
                case 0:
                    record(1, 3)
                case 1:
                    recall.settle(db, 1)
                case _:
                    walk = unindexing.go_on(db, walk)
        assert on_pages(db) == should_be(db, HIDDEN)
        for _ in range(5_000):
            if not recall.settle(db, 1):
                break
        else:
            raise AssertionError("the index never settles")
        assert on_pages(db) == should_be(db, HIDDEN)
        sizes = db.execute("SELECT level, sum(size) FROM recall_pages GROUP BY level ORDER BY level").fetchall()
        assert sizes == db.execute("SELECT level, size FROM recall_levels ORDER BY level").fetchall()


def test_of_a_large_index_only_the_pages_that_hold_a_posting_of_few_runs_are_rewritten(small_levels: None) -> None:
    draw = random.Random(7)
    with opened() as db:
        for number in range(1, 200):
            recall.index_run(db, 1, HIDDEN if number == 50 else 1, number, run_of(number, draw))
            while recall.settle(db, 1):
                pass
        held = {
            page_no
            for page_no, blob in db.execute("SELECT page_no, postings FROM recall_pages")
            if any(p >> GAIN_BITS & ENTRY_MASK == 50 for p in memoryview(blob).cast("q"))
        }
        before = {page_no for (page_no,) in db.execute("SELECT page_no FROM recall_pages")}
        walk = unindexing.begin(db, 1, [HIDDEN])
        steps = 0
        while walk is not None and not walk.done:
            walk = unindexing.go_on(db, walk)
            steps += 1
        after = {page_no for (page_no,) in db.execute("SELECT page_no FROM recall_pages")}
        assert before - after == held
        assert 0 < len(held) <= steps < len(before) / 2


# -- whole threads, in a database


async def record(db: Database, number: int, thread: int) -> str:
    """Records run `number`, of words of its own, completed or not; returns the thread's id."""
    outcome = RunOutcome.FAILED if number % 7 == 0 else RunOutcome.COMPLETED
    text = f"{talk(number, 15)} needle{number}"
    new = NewRun(f"run-{number}", text, "答", outcome, provider="p", usage=Usage(10, 5, 1))
    ref = ThreadRef(thread_key=f"thread {thread}")
    recorded, unsettled = await db.write(runs.record_run, db.secret, SCOPE, ref, prepared(new, db.secret), 0)
    while unsettled and await db.write(recall.settle, unsettled):
        pass
    return recorded.thread_id


async def is_whole(db: Database) -> None:
    assert await db.read(lambda connection: list(verify.findings(connection))) == []


async def count(db: Database, table: str) -> int:
    return int((await db.read(lambda c: c.execute(f"SELECT count(*) FROM {table}").fetchone()))[0])


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that end as soon as they may."""
    monkeypatch.setattr(sweeping, "STEP_MS", -1)
    monkeypatch.setattr(unindexing, "PAGES_AT_ONCE", 4)
    monkeypatch.setattr(unindexing, "WALK_ENTRIES", 15)
    monkeypatch.setattr(deletion, "HIDE_RUNS", 10)


@pytest.mark.parametrize("scope_too", [False, True], ids=["threads", "scope meanwhile"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_wherever_a_sweep_is_left_the_database_is_whole_and_the_next_one_goes_on(
    tmp_path: Path, small_levels: None, short_steps: None, seed: int, scope_too: bool
) -> None:
    killed = random.Random(seed).sample(range(100), 6)
    async with database(tmp_path / "memsvc.db") as db:
        ids = [await record(db, number, number % 3) for number in range(60)]
        await db.write(deletion.delete_thread, db.secret, SCOPE, ids[0])
        step = await db.write(sweeping.sweep, db.secret, None)
        steps, number = 1, 59
        while step.more:
            if steps % 3 == 0:
                await is_whole(db)
            step = await db.write(sweeping.sweep, db.secret, None if steps in killed else step.walk)
            steps += 1
            if steps % 8 == 0:
                number += 1
                await record(db, number, 1)
            if steps == 9:
                await db.write(deletion.delete_thread, db.secret, SCOPE, ids[2])
                assert await db.write(deletion.delete_run, db.secret, SCOPE, "run-1") == ids[1]
            if steps == 30 and scope_too:
                await db.write(deletion.delete_scope, db.secret, SCOPE)
        await is_whole(db)
        assert steps > 30
        assert not await count(db, "doomed")
        listed, _ = await db.read(threads.list_threads, SCOPE, set(ThreadState), "", Page(0, 10))
        kept = await count(db, "runs")
        assert [thread.run_count for thread in listed] == [kept]
        assert await count(db, "threads") == 1
        tombstones = await db.read(lambda c: c.execute("SELECT count(*) FROM tombstones WHERE kind = 'run'").fetchone())
        if scope_too:
            assert tombstones[0] + kept == number + 1
            return
        assert (tombstones[0], kept) == (41, number + 1 - 41)
        assert await count(db, "deleted_usage") == 41
        spent = await db.read(ops.usage, SCOPE, "", None, None)
        assert sum(row.usage.input_tokens for row in spent) == 10 * (number + 1)
        for wanted in (4, 55, 58, 59):
            found = await db.read(threads.search, Cache(), SCOPE, query_terms(f"needle{wanted}"), 5, 0.0, 0)
            first = [f.run.run_id for f in found][:1]
            assert (first == [f"run-{wanted}"]) == (wanted % 3 == 1)


async def test_old_runs_of_a_thread_are_hidden_some_at_a_time_and_taken_out_together(
    tmp_path: Path, small_levels: None, short_steps: None
) -> None:
    async with database(tmp_path / "memsvc.db") as db:
        (thread_id,) = {await record(db, number, 0) for number in range(1, 41)}
        await db.write(lambda c: c.execute("UPDATE runs SET created_us = sequence") and None)
        # The clock of a step is over at once: one run a time.
        units = 1
        while await db.write(deletion.expire, db.secret, SCOPE, thread_id, 26):
            await is_whole(db)
            units += 1
        assert units > 2
        assert await count(db, "doomed") == units
        thread = await db.read(threads.get_thread, SCOPE, thread_id)
        assert thread.run_count == 15
        for hidden in range(1, 26):
            found = await db.read(threads.search, Cache(), SCOPE, query_terms(f"needle{hidden}"), 5, 0.0, 0)
            assert f"run-{hidden}" not in [f.run.run_id for f in found]
        step = await db.write(sweeping.sweep, db.secret, None)
        while step.more:
            await is_whole(db)
            step = await db.write(sweeping.sweep, db.secret, step.walk)
        assert (await count(db, "runs"), await count(db, "threads"), await count(db, "doomed")) == (15, 1, 0)
        await is_whole(db)


async def test_a_step_of_a_scope_ends_with_the_row_after_which_its_time_is_over(
    tmp_path: Path, small_levels: None, short_steps: None
) -> None:
    def large_rows(connection: sqlite3.Connection) -> int:
        tables = ("recall_pages", "recall_entries", "runs")
        return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)

    async with database(tmp_path / "memsvc.db") as db:
        for number in range(30):
            await record(db, number, number % 3)
        await db.write(deletion.delete_scope, db.secret, SCOPE)
        before, step = await db.read(large_rows), sweeping.Swept(True)
        assert before > 60
        while step.more:
            step = await db.write(sweeping.sweep, db.secret, step.walk)
            left = await db.read(large_rows)
            assert before - left <= 1
            before = left
        assert (before, await count(db, "doomed")) == (0, 0)
        await is_whole(db)


async def test_what_a_sweep_writes_is_moved_out_of_the_log_before_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = await Database.open(tmp_path / "memsvc.db")
    store, logs = SqliteStore(db, RENDERER), []
    for number in range(8):
        long = NewRun(f"run-{number}", f"{number} " + "字" * 300_000, "", RunOutcome.COMPLETED)
        await db.write(runs.record_run, db.secret, SCOPE, ThreadRef(thread_key="k"), prepared(long, db.secret), 0)
    swept = sweeping.sweep

    def noting(connection: sqlite3.Connection, secret: bytes, walk: unindexing.Walk | None) -> sweeping.Swept:
        logs.append(db.log_bytes())
        return swept(connection, secret, walk)

    monkeypatch.setattr(sweeping, "STEP_MS", -1)
    await db.checkpoint()
    monkeypatch.setattr(sweeping, "sweep", noting)
    await store.delete_scope(SCOPE)
    assert len(logs) > 8
    # As each step finds it.
    assert max(logs) <= janitor.LOG_BYTES
    await store.close()
