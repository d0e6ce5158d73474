"""Reads on the loop's own thread: only of what was quick, on the newest snapshot, with nothing left open behind."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memsvc.errors import ThreadNotInScope, Unavailable
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.quick import QUICK_MS, QuickReads


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "memsvc.db")
    yield database
    await database.close()


def where(db: sqlite3.Connection) -> int:
    db.execute("SELECT 1").fetchone()
    return threading.get_ident()


def where_slowly(db: sqlite3.Connection) -> int:
    until = time.perf_counter() + 1.2 * QUICK_MS / 1000
    while time.perf_counter() < until:
        db.execute("SELECT 1").fetchone()
    return threading.get_ident()


def count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM scopes").fetchone()[0])


def add(db: sqlite3.Connection, name: str) -> None:
    db.execute("INSERT INTO scopes (tenant_id, agent_id, user_id) VALUES ('t', 'a', ?)", (name,))


def fail(db: sqlite3.Connection) -> None:
    db.execute("SELECT 1")
    raise ThreadNotInScope


def break_down(db: sqlite3.Connection) -> None:
    raise sqlite3.OperationalError("no such thing")


async def test_what_was_quick_is_read_here_and_what_was_slow_or_unknown_is_not(database: Database) -> None:
    quick = QuickReads(database)
    here = threading.get_ident()
    assert await quick.read("one", where_slowly) != here
    assert await quick.read("one", where) != here
    quick._note("one", quick=True)  # however busy the machine was just now
    assert await quick.read("two", where) != here
    assert await quick.read("one", where_slowly) == here
    assert await quick.read("one", where) != here
    quick.close()


async def test_a_read_here_sees_what_was_written_and_leaves_nothing_open(database: Database) -> None:
    quick = QuickReads(database)
    for number in range(3):
        quick._note("one", quick=True)
        with pytest.raises(ThreadNotInScope):
            await quick.read("one", fail)
        await database.write(add, f"u{number}")
        quick._note("one", quick=True)
        assert await quick.read("one", count) == number + 1
        assert await database.checkpoint(), "a snapshot was left open"
    quick.close()


async def test_what_breaks_here_is_told_by_the_database_and_a_closed_one_refuses(database: Database) -> None:
    quick = QuickReads(database)
    quick._note("one", quick=True)
    with pytest.raises(sqlite3.OperationalError):
        await quick.read("one", break_down)
    quick.close()
    await database.close()
    with pytest.raises(Unavailable):
        await quick.read("one", where)
