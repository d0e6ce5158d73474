"""The engine room at work: shared commits, one state a read, and an end in order."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memsvc.errors import RateLimited, ThreadNotInScope, Unavailable
from memsvc.store.sqlite import db
from memsvc.store.sqlite import units as batches
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.units import BATCH_UNITS
from tests.units import (
    Pause,
    Unit,
    contents,
    create,
    held,
    numbers,
    opened,
    put,
    put_then_raise,
    threads_left,
    together,
    traced,
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(tmp_path / "m.db") as database:
        yield database


async def test_writes_that_wait_share_a_commit_and_a_lone_one_has_no_savepoint(database: Database) -> None:
    statements: list[str] = []
    database._writer.submit(traced(statements))
    await database.write(put, 1)
    assert [s.split()[0] for s in statements] == ["PRAGMA", "BEGIN", "INSERT", "COMMIT"]

    statements.clear()
    answers = await together(database, *(lambda c, n=n: put(c, n) for n in range(2, 2 + BATCH_UNITS)))
    assert answers == list(range(2, 2 + BATCH_UNITS))
    kinds = Counter(s.split()[0] for s in statements)
    assert kinds == {"PRAGMA": 1, "BEGIN": 1, "SAVEPOINT": 64, "INSERT": 64, "RELEASE": 64, "COMMIT": 1}


async def test_a_batch_is_bounded_and_what_is_over_comes_in_order_with_the_next(database: Database) -> None:
    statements: list[str] = []
    database._writer.submit(traced(statements))
    await together(database, *(lambda c, n=n: put(c, n) for n in range(150)))
    assert Counter(s for s in statements if s == "COMMIT")["COMMIT"] == 3
    assert await database.read(lambda c: [n for (n,) in c.execute("SELECT n FROM t ORDER BY rowid")]) == [*range(150)]


async def test_a_batch_that_takes_long_leaves_the_rest_to_the_next_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_MS", 0)
    statements: list[str] = []
    database._writer.submit(traced(statements))
    assert await together(database, *(lambda c, n=n: put(c, n) for n in range(9))) == [*range(9)]
    assert statements.count("COMMIT") == 9
    assert await database.read(lambda c: [n for (n,) in c.execute("SELECT n FROM t ORDER BY rowid")]) == [*range(9)]


@pytest.mark.parametrize(
    "error",
    [ThreadNotInScope(), ValueError("mine"), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
async def test_a_unit_that_raises_leaves_the_others_whole(database: Database, error: BaseException) -> None:
    units = [lambda c: put(c, 1), lambda c: put_then_raise(c, 2, error), lambda c: put(c, 3)]
    with held(database._writer) as release:
        tasks = [asyncio.ensure_future(caught(database, unit)) for unit in units]
        await asyncio.sleep(0)
        release()
        answers = await asyncio.gather(*tasks)
    assert answers == [1, type(error), 3]
    assert await caught(database, units[1]) is type(error)
    assert await database.read(numbers) == [1, 3]


async def caught(database: Database, unit: Unit) -> object:
    """The answer, or the type of what was raised; in a task of its own KeyboardInterrupt would stop the loop."""
    try:
        return await database.write(unit)
    except (ThreadNotInScope, ValueError, KeyboardInterrupt, asyncio.CancelledError) as error:
        return type(error)


async def test_a_unit_that_runs_out_of_rows_is_an_error_and_no_endless_wait(database: Database) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await database.read(lambda c: next(c.execute("SELECT 1 WHERE 0")))
    with pytest.raises(RuntimeError, match="StopIteration"):
        await database.write(lambda c: next(c.execute("SELECT 1 WHERE 0")))


async def test_errors_of_sql_stay_what_they_are(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await database.write(lambda c: c.execute("INSERT INTO nowhere VALUES (1)") and None)
    with pytest.raises(sqlite3.IntegrityError):
        await database.write(lambda c: c.executemany("INSERT INTO parents VALUES (?)", [(1,), (1,)]) and None)
    assert await database.read(lambda c: c.execute("SELECT count(*) FROM parents").fetchone()) == (0,)


async def test_nothing_is_written_into_a_file_that_is_not_there_any_more(database: Database, tmp_path: Path) -> None:
    here, aside = tmp_path / "m.db", tmp_path / "aside.db"

    async def refused() -> None:
        for write in (database.write, database.write_behind):
            with pytest.raises(Unavailable, match="put it back"):
                await write(put, 9)

    await database.write(put, 1)
    here.rename(aside)
    await refused()
    here.touch()  # another file, whatever it holds
    await refused()
    aside.rename(here)
    await database.write(put, 2)
    assert await database.read(numbers) == [1, 2]


async def test_a_read_sees_every_write_acknowledged_before_it(database: Database) -> None:
    async def caller(first: int) -> None:
        for n in range(first, first + 30):
            await database.write(put, n)
            assert n in await database.read(numbers)

    await asyncio.gather(*(caller(i * 100) for i in range(8)))


async def test_a_read_sees_one_state_however_long_it_takes(database: Database) -> None:
    pause = Pause()

    def look_twice(connection: sqlite3.Connection) -> tuple[list[int], list[int]]:
        first = numbers(connection)
        pause.here()
        return first, numbers(connection)

    await database.write(put, 1)
    reading = asyncio.ensure_future(database.read(look_twice))
    await pause.reached.wait()
    await database.write(put, 2)
    assert await database.read(numbers) == [1, 2]
    pause.go()
    assert await reading == ([1], [1])


async def test_an_error_that_lives_on_does_not_hold_its_reader_to_an_old_state(tmp_path: Path) -> None:
    def give_up_midway(connection: sqlite3.Connection) -> None:
        cursor = connection.execute("SELECT n FROM t")
        try:
            for _ in cursor:
                raise KeyError("the reason")
        except KeyError as error:
            raise ThreadNotInScope from error

    async with opened(tmp_path / "m.db", readers=1) as database:
        await together(database, lambda c: put(c, 1), lambda c: put(c, 2))
        errors = [await raised_by(database, give_up_midway)]
        await database.write(put, 3)
        assert await database.read(numbers) == [1, 2, 3]
        assert await database.checkpoint()
        assert errors


async def raised_by(database: Database, unit: Unit) -> Exception:
    with pytest.raises(ThreadNotInScope) as caught_error:
        await database.read(unit)
    return caught_error.value


async def test_a_reader_cannot_write_nor_checkpoint(database: Database) -> None:
    await database.write(put, 1)
    with pytest.raises(Unavailable):
        await database.read(put, 2)
    with pytest.raises((Unavailable, sqlite3.OperationalError)):
        await database.read(lambda c: c.execute("PRAGMA query_only = OFF") and put(c, 3))
    with pytest.raises((Unavailable, sqlite3.OperationalError)):
        await database.read(lambda c: c.execute("PRAGMA wal_checkpoint").fetchone())
    assert await database.read(numbers) == [1]


async def test_a_busy_reader_is_passed_by(database: Database) -> None:
    with held(database._readers[0]):
        stuck = asyncio.ensure_future(database.read(numbers))
        await asyncio.sleep(0)
        for _ in range(3):
            assert await database.read(numbers) == []
    assert await stuck == []


async def test_slow_reads_wait_for_one_another_and_hold_up_no_other(database: Database) -> None:
    with held(database._readers[-1]):
        slow = [asyncio.ensure_future(database.read_slowly(numbers)) for _ in range(3)]
        await asyncio.sleep(0)
        for _ in range(10):
            assert await database.read(numbers) == []
        assert not any(task.done() for task in slow)
    assert await asyncio.gather(*slow) == [[], [], []]


async def test_queues_are_bounded_and_full_ones_say_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "WAITING_UNITS", 5)
    readers = database._readers
    with held(database._writer), held(readers[0]), held(readers[1]):
        writes = [asyncio.ensure_future(database.write(put, n)) for n in range(8)]
        reads = [asyncio.ensure_future(database.read(lambda c: 1)) for _ in range(12)]
        await asyncio.sleep(0)
        refused = [task for task in (*writes, *reads) if task.done()]
        assert [type(task.exception()) for task in refused] == [RateLimited] * 5
    answers = await asyncio.gather(*writes, *reads, return_exceptions=True)
    assert answers[:5] == [0, 1, 2, 3, 4]
    assert answers[8:18] == [1] * 10
    assert await database.write(put, 9) == 9
    assert await database.read(lambda c: 1) == 1


async def test_what_is_deleted_is_gone_from_the_files_after_a_checkpoint(database: Database, tmp_path: Path) -> None:
    await database.write(put, 1, "a secret word " * 500)
    await database.write(lambda c: c.execute("DELETE FROM t") and None)
    assert await database.checkpoint()
    assert b"secret word" not in b"".join(contents(tmp_path).values())


async def test_a_checkpoint_in_the_way_of_a_read_says_so_and_harms_nothing(database: Database) -> None:
    pause = Pause()
    await database.write(put, 1)

    def look(connection: sqlite3.Connection) -> list[int]:
        seen = numbers(connection)
        pause.here()
        return seen

    reading = asyncio.ensure_future(database.read(look))
    await pause.reached.wait()
    await database.write(put, 2)
    assert not await database.checkpoint()
    pause.go()
    assert await reading == [1]
    assert await database.checkpoint()
    assert await database.read(numbers) == [1, 2]


async def test_the_log_stays_bounded(database: Database, tmp_path: Path) -> None:
    for n in range(40):
        await database.write(put, n, "x" * 1_000_000)
    assert (tmp_path / "m.db-wal").stat().st_size < 20 << 20


async def test_close_runs_what_is_queued_refuses_what_comes_and_empties_the_log(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "m.db")
    await database.write(create)
    writes = [asyncio.ensure_future(database.write(put, n)) for n in range(100)]
    reads = [asyncio.ensure_future(database.read(lambda c: 1)) for _ in range(20)]
    await asyncio.sleep(0)
    closing_task = asyncio.ensure_future(database.close())
    await asyncio.sleep(0)
    for late in (database.read(numbers), database.write(put, 1), database.checkpoint()):
        with pytest.raises(Unavailable, match="shutting down"):
            await late
    closing_task.cancel()
    await database.close()
    assert await asyncio.gather(*writes) == [*range(100)]
    assert await asyncio.gather(*reads) == [1] * 20
    assert sorted(contents(tmp_path)) == ["m.db", "m.db.lock"]
    assert threads_left() == []
    await database.close()


async def test_close_empties_the_log_though_another_program_has_the_file_open(tmp_path: Path) -> None:
    async with opened(tmp_path / "m.db") as database:
        await database.write(put, 1)
        other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
        assert other.execute("SELECT n FROM t").fetchall() == [(1,)]
        await database.close()
    assert contents(tmp_path)["m.db-wal"] == b""
    other.close()


async def test_content_reaches_no_log_even_at_debug(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        await database.write(put, 1, "a secret word")
        await database.read(lambda c, words: c.execute("SELECT ?", (words,)).fetchone(), "a secret word")
        with pytest.raises(ValueError, match="secret"):
            await database.write(put_then_raise, 1, ValueError("a secret word"))

    with caplog.at_level(logging.DEBUG):
        await work()
        assert "aiosqlite" not in {record.name for record in caplog.records}
        with caplog.at_level(logging.DEBUG, "aiosqlite"):
            await work()
    assert "aiosqlite" in {record.name for record in caplog.records}
    assert "secret" not in caplog.text


async def test_what_is_written_behind_waits_for_no_disk_and_shares_no_commit_with_what_does(
    database: Database,
) -> None:
    def level(connection: sqlite3.Connection, n: int) -> int:
        put(connection, n)
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    levels = await asyncio.gather(
        *(database.write(level, n) if n % 3 else database.write_behind(level, n) for n in range(200))
    )
    assert levels == [2 if n % 3 else 1 for n in range(200)]
    assert await database.read(lambda c: [n for (n,) in c.execute("SELECT n FROM t ORDER BY rowid")]) == [*range(200)]
