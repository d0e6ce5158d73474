"""Copies of rows that SQLite leaves in unused bytes: there without us, gone with us, and no page worse for it."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from memsvc.store.sqlite import db
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.remnants import Remnants
from tests.units import Pause

TABLE = "CREATE TABLE kept (name TEXT PRIMARY KEY, more TEXT) STRICT, WITHOUT ROWID"
RNG = random.Random(5)
ROWS = [(f"needle{RNG.getrandbits(80):020x}", "x" * RNG.randrange(1_200)) for _ in range(2_000)]
"""Of many sizes and in no order, so that pages are divided unevenly."""


def fill(connection: sqlite3.Connection) -> None:
    connection.executemany("INSERT INTO kept VALUES (?, ?)", ROWS)


def fill_between(connection: sqlite3.Connection) -> None:
    """A few rows on many of the same pages."""
    connection.executemany("INSERT INTO kept VALUES (?, '')", [(f"needle{i:02x}-",) for i in range(200)])


def delete(connection: sqlite3.Connection) -> None:
    connection.executemany("DELETE FROM kept WHERE name = ?", [(name,) for name in doomed()])


def refill(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM kept")
    fill(connection)
    delete(connection)


def checkpoint_always(connection: sqlite3.Connection) -> None:
    """Has SQLite move pages into the file and begin the log anew by itself, as it does when the log has grown."""
    connection.execute("PRAGMA wal_autocheckpoint = 1")


def standing(content: bytes) -> Counter[str]:
    """How often each name stands in a file."""
    return Counter(name.decode() for name in re.findall(rb"needle[0-9a-f]{20}", content))


@cache
def doomed() -> list[str]:
    """Names that stand twice in a file whose table has each once; which they are, SQLite decides."""
    with closing(plain()) as connection:
        return [name for name, count in standing(connection.serialize()).items() if count > 1]


def plain() -> sqlite3.Connection:
    """All names in a database as SQLite makes it."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(TABLE)
    fill(connection)
    connection.commit()
    return connection


def left(path: str | Path) -> int:
    """How many of the deleted names stand in the file."""
    return len(set(doomed()) & set(standing(Path(path).read_bytes())))


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A database in which the doomed are deleted; nothing of it has left the log yet."""
    database = await Database.open(tmp_path / "m.db")
    await database.write(lambda c: c.execute(TABLE) and None)
    await database.write(fill)
    await database.write(delete)
    yield database
    await database.close()


async def rows_and_damage(database: Database) -> tuple[int, str]:
    def look(connection: sqlite3.Connection) -> tuple[int, str]:
        (count,) = connection.execute("SELECT count(*) FROM kept").fetchone()
        return count, connection.execute("PRAGMA integrity_check").fetchone()[0]

    return await database.read(look)


def test_without_us_copies_of_what_is_deleted_are_left() -> None:
    with closing(plain()) as connection:
        delete(connection)
        connection.commit()
        assert set(doomed()) & set(standing(connection.serialize()))


async def test_an_erased_file_holds_no_copy_and_every_row(database: Database) -> None:
    rows = len(ROWS) - len(doomed())
    assert await database.erase()
    assert left(database.path) == 0
    assert await rows_and_damage(database) == (rows, "ok")
    # The writer puts nothing back of what it remembers of the pages.
    await database.write(checkpoint_always)
    await database.write(fill_between)
    assert left(database.path) == 0
    assert await rows_and_damage(database) == (rows + 200, "ok")


async def test_the_log_tells_which_pages_can_hold_copies_unless_it_was_begun_anew(database: Database) -> None:
    remnants = database._remnants
    assert await database.checkpoint()
    assert not remnants.known  # there was a file before this process
    assert await database.erase()
    for _ in range(3):
        await database.write(refill)
        assert await database.checkpoint()
        assert remnants.known
        assert remnants.scan() == []
        assert await database.checkpoint()  # of an empty log
        assert remnants.known

    await copies_left(database)
    assert not remnants.known
    assert await database.checkpoint()  # does not make it known
    assert not remnants.known
    assert remnants.scan() != []
    assert await database.erase()
    assert left(database.path) == 0
    assert remnants.scan() == []


async def test_while_a_read_is_under_way_nothing_is_erased_and_nothing_is_claimed(database: Database) -> None:
    pause = Pause()

    def hold(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT count(*) FROM kept").fetchone()
        pause.here()

    reading = asyncio.ensure_future(database.read(hold))
    await pause.reached.wait()
    await database.write(fill_between)
    assert not await database.erase()
    pause.go()
    await reading
    assert await database.erase()
    assert left(database.path) == 0


async def test_what_others_write_during_a_scan_is_no_obstacle(database: Database) -> None:
    remnants = database._remnants
    assert await database.checkpoint()
    found = remnants.scan()
    await database.write(fill_between)
    await database.write(checkpoint_always)
    await database.write(lambda c: c.execute("DELETE FROM kept WHERE name LIKE '%-'") and None)
    await database.write(fill_between)
    assert await database._erase(found)
    assert left(database.path) == 0
    assert not remnants.known
    assert (await rows_and_damage(database))[1] == "ok"


async def copies_left(database: Database) -> None:
    """Has copies left in the file, by a log that was begun anew without us."""
    await database.write(checkpoint_always)
    await database.write(refill)
    await database.write(fill_between)
    assert await database.checkpoint()


async def test_what_a_scan_found_is_overwritten_in_parts_between_which_others_write(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    remnants = database._remnants
    await copies_left(database)
    assert len(remnants.scan()) > 2
    monkeypatch.setattr(db, "PAGES_AT_ONCE", 1)
    assert await database.erase()
    assert (left(database.path), remnants.known, remnants.scan()) == (0, True, [])
    assert (await rows_and_damage(database))[1] == "ok"


async def test_parts_between_which_the_log_was_begun_anew_make_nothing_known(database: Database) -> None:
    remnants = database._remnants
    await copies_left(database)
    first, *rest = remnants.scan()
    await database.write(refill)
    await database.write(fill_between)
    assert await database._erase([first], more=True)
    assert not remnants.known
    assert await database._erase(rest)
    assert not remnants.known
    assert remnants.scan() != []
    assert await database.erase()
    assert (left(database.path), remnants.known) == (0, True)


def test_a_file_that_is_laid_out_otherwise_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = FULL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(TABLE)
        connection.execute("BEGIN")
        fill(connection)
        connection.execute("COMMIT")
        remnants = Remnants(str(path), os.open(path, os.O_RDWR))
        assert remnants.erase(connection)
        before = path.read_bytes()
        assert remnants.erase(connection, remnants.scan())
        assert path.read_bytes() == before
        assert remnants.scan() != []
    remnants.close()
