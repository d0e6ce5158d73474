"""The engine room on a full disk, under foreign locks and with callers who go: all of a write or none of it."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.errors import DiskFull, Unavailable
from memsvc.store.sqlite.db import Database
from tests.units import (
    Pause,
    cap_file,
    held,
    numbers,
    opened,
    put,
    put_then_orphan,
    put_then_raise,
    put_then_step_on_mine,
    put_too_many,
    put_too_much,
    put_twice,
    together,
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(tmp_path / "m.db") as database:
        yield database


@pytest.mark.parametrize(
    ("culprit", "error"),
    [
        (put_then_step_on_mine, sqlite3.IntegrityError),
        (put_then_orphan, sqlite3.IntegrityError),
        (put_too_much, DiskFull),
        (put_too_many, DiskFull),
    ],
)
async def test_whoever_loses_the_transaction_gets_the_error_and_the_others_are_kept_once(
    database: Database, culprit: Callable[[sqlite3.Connection, int], None], error: type[Exception]
) -> None:
    database._writer.submit(lambda c: cap_file(c, 50))
    answers = await together(
        database,
        lambda c: put(c, 1),
        lambda c: put_then_raise(c, 2, ValueError("mine")),
        lambda c: culprit(c, 3),
        lambda c: put(c, 4),
    )
    assert [a if isinstance(a, int) else type(a) for a in answers] == [1, ValueError, error, 4]
    assert await database.read(numbers) == [1, 4]
    with pytest.raises(error):
        await database.write(culprit, 5)
    assert await database.write(put, 6) == 6
    assert await database.read(numbers) == [1, 4, 6]


async def test_on_a_full_disk_writes_fail_reads_go_on_and_room_brings_writes_back(database: Database) -> None:
    await database.write(put, 1)
    database._writer.submit(lambda c: cap_file(c, 0))
    answers = await together(database, *(lambda c, n=n: put(c, n, "x" * 5000) for n in range(10)))
    assert {type(a) for a in answers} == {DiskFull}
    assert await database.read(numbers) == [1]
    database._writer.submit(lambda c: cap_file(c, 1000))
    await database.write(put, 2, "x" * 5000)
    assert await database.read(numbers) == [1, 2]


async def test_a_commit_that_cannot_be_written_keeps_nothing_and_says_so(database: Database, tmp_path: Path) -> None:
    """The limit on file sizes makes the kernel refuse the log's growth, which SQLite meets in COMMIT."""
    await database.write(put, 1)
    size = (tmp_path / "m.db-wal").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        answers = await together(database, lambda c: put(c, 2), lambda c: put(c, 3))
        assert [type(a) for a in answers] == [Unavailable, Unavailable]
        with pytest.raises(Unavailable):
            await database.write(put, 4)
        assert await database.read(numbers) == [1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert await database.write(put, 5) == 5
    assert await database.read(numbers) == [1, 5]


async def test_a_lock_held_by_another_program_fails_the_batch_and_nothing_later(
    database: Database, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answers = await together(database, lambda c: put(c, 1), lambda c: put(c, 2))
        assert [type(a) for a in answers] == [Unavailable, Unavailable]
        with pytest.raises(Unavailable, match="another program"):
            await database.write(put, 3)
        other.execute("ROLLBACK")
    await database.write(put, 4)
    assert await database.read(numbers) == [4]


async def test_a_unit_that_commits_by_itself_is_told_off(database: Database) -> None:
    with pytest.raises(RuntimeError, match="ended its own transaction"):
        await database.write(lambda c: c.execute("COMMIT") and None)


async def test_a_caller_cancelled_at_any_point_leaves_all_or_nothing_and_the_others_whole(database: Database) -> None:
    kept = set()
    for n in range(60):
        doomed = asyncio.ensure_future(database.write(put_twice, n))
        others = [asyncio.ensure_future(database.write(put, 1000 + n)) for _ in range(n % 3)]
        for _ in range(n % 20):
            await asyncio.sleep(0)
        doomed.cancel()
        await asyncio.gather(*others)
        try:
            await doomed
            kept.add(n)
        except asyncio.CancelledError:
            pass
    count = Counter(await database.read(numbers))
    for n in range(60):
        assert count[n] in ((2,) if n in kept else (0, 2))
        assert count[1000 + n] == n % 3


async def test_a_write_cancelled_while_its_unit_runs_is_whole(database: Database) -> None:
    pause = Pause()

    def slow(connection: sqlite3.Connection) -> None:
        put(connection, 1)
        pause.here()
        put(connection, 1)

    doomed = asyncio.ensure_future(database.write(slow))
    await pause.reached.wait()
    doomed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doomed
    pause.go()
    await database.write(put, 2)
    assert await database.read(numbers) == [1, 1, 2]


async def test_units_whose_callers_went_before_they_began_are_not_run(database: Database) -> None:
    ran: list[sqlite3.Connection] = []

    def note(connection: sqlite3.Connection) -> int:
        ran.append(connection)
        return 0

    with held(database._writer), held(database._readers[0]):
        tasks = [asyncio.ensure_future(database.write(put, n)) for n in range(3)]
        tasks.append(asyncio.ensure_future(database.read(note)))
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await database.write(put, 9)
    assert await asyncio.gather(*(database.read(numbers) for _ in range(2))) == [[9], [9]]
    assert not ran
