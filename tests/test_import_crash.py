"""An import that a crash cuts off, wherever it does: all of it is there then, or nothing, and work goes on."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memsvc.store import ThreadRef, verify_database
from memsvc.store.sqlite import deletion, importer, staging, sweeping
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import RENDERER, SCOPE, all_text
from tests.staged import THREADS, TURNS, WORD, at_rest, bring, is_clean, lines, record, written
from tests.units import swept


@pytest.fixture
async def data(tmp_path: Path) -> bytes:
    (tmp_path / "from").mkdir()
    return await written(tmp_path / "from" / "memsvc.db")


class Photographed(Database):
    """A database of which a copy is kept behind each write: what a crash there would leave."""

    folder: Path
    shots = 0

    def shoot(self) -> None:
        self.shots += 1
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{self.path}{suffix}", self.folder / f"{self.shots:03}.db{suffix}")

    async def write(self, *args: Any, **kwargs: Any) -> Any:
        answer = await super().write(*args, **kwargs)
        self.shoot()
        return answer

    async def write_behind(self, *args: Any, **kwargs: Any) -> Any:
        answer = await super().write_behind(*args, **kwargs)
        self.shoot()
        return answer


async def test_a_crash_leaves_all_of_an_import_or_nothing(
    tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Photographed.open(tmp_path / "memsvc.db", 1)
    assert isinstance(database, Photographed)
    database.folder = tmp_path / "shots"
    database.folder.mkdir()
    store = SqliteStore(database, RENDERER)
    mine = await record(store, "mine", ThreadRef())
    before = await lines(store)
    monkeypatch.setattr(importer, "CHUNK_LINES", 7)
    await bring(store, store, data)
    after = await lines(store)
    await store.close()
    seen = []
    for shot in sorted(database.folder.glob("*.db"))[1:]:
        reopened = await SqliteStore.open(shot, RENDERER, 1)
        await at_rest(reopened)
        told = await lines(reopened)
        assert told in (before, after)
        seen.append(told == after)
        await is_clean(reopened)
        assert (WORD in await reopened._db.read(all_text)) == seen[-1]
        # Work goes on, and the file can come again.
        assert (await bring(reopened, reopened, data)).runs == (0 if seen[-1] else THREADS * TURNS)
        assert await record(reopened, "on", ThreadRef(mine)) == mine
        await is_clean(reopened)
        await reopened.close()
    # Some crashes came before the last write and some behind it, where entries of the index wait yet.
    assert seen == sorted(seen)
    assert seen.count(False) > 5
    assert seen.count(True) > 1


async def shown_and_not_indexed(path: Path, data: bytes) -> Database:
    """A database that a crash left right behind the last write of an import."""
    database = await Photographed.open(path, 1)
    assert isinstance(database, Photographed)
    database.folder = path.parent / "shown"
    database.folder.mkdir()
    store = SqliteStore(database, RENDERER)
    await bring(store, store, data)
    await store.close()
    for shot in sorted(database.folder.glob("*.db")):
        opened = await Database.open(shot, 1)
        if await opened.read(staging.waits):
            return opened
        await opened.close()
    raise AssertionError("no crash was right there")


def count_of(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def waiting(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM recall_entries WHERE thread_no = 0").fetchone()[0])


async def test_what_is_deleted_while_its_entry_waits_takes_it_along(tmp_path: Path, data: bytes) -> None:
    db = await shown_and_not_indexed(tmp_path / "memsvc.db", data)
    assert await db.read(waiting) == THREADS * TURNS
    thread_id = await db.write(deletion.delete_run, db.secret, SCOPE, "r2-2")
    await swept(db)
    assert await db.read(waiting) == THREADS * TURNS - 1
    await db.write(deletion.delete_thread, db.secret, SCOPE, thread_id)
    await swept(db)
    assert await db.read(waiting) == (THREADS - 1) * TURNS
    while await db.write(staging.adopt):
        pass
    assert verify_database(Path(db.path)).findings == []
    await db.close()


@pytest.mark.parametrize("sweeps", [0, 1, 100])
async def test_a_scope_that_is_deleted_while_its_entries_wait_is_not_indexed(
    tmp_path: Path, data: bytes, sweeps: int
) -> None:
    db = await shown_and_not_indexed(tmp_path / "memsvc.db", data)
    await db.write(deletion.delete_scope, db.secret, SCOPE)
    for _ in range(sweeps):
        await db.write(sweeping.sweep, db.secret, None)
    while await db.write(staging.adopt):
        pass
    await swept(db)
    for table in ("runs", "threads", "recall_entries", "recall_pages", "recall_scopes", "recall_levels"):
        assert await db.read(count_of, table) == 0
    assert verify_database(Path(db.path)).findings == []
    await db.close()
