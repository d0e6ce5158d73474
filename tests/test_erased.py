"""What tells a start whether words of something deleted may still be in the files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from memsvc.store import NewFact, ThreadRef
from memsvc.store.sqlite import erased
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import RENDERER, SCOPE
from tests.test_deletion import record
from tests.units import contents


@pytest.mark.parametrize("deletes", ["a run", "a thread", "a scope", "a fact"])
async def test_a_start_reads_the_file_where_something_is_owed_and_nowhere_else(tmp_path: Path, deletes: str) -> None:
    path = tmp_path / "memsvc.db"

    async def looks(at: Path) -> bool:
        """Opens a database as a start does; tells whether it had to erase, and that nothing is owed then."""
        db = await Database.open(at)
        noted = await db.read(erased.is_noted)
        store = SqliteStore(db, RENDERER)
        await store._janitor.done(1)
        assert not store.erasure_owed()
        await close(store)
        return not noted

    async def close(store: SqliteStore) -> None:
        while not await store._db.read(erased.is_noted):
            pass
        await store.close()

    assert await looks(path)
    assert not await looks(path)
    store = await SqliteStore.open(path, RENDERER, 1)
    thread_id = await record(store._db, "1", text="饕餮zqneedle")
    await record(store._db, "2", ThreadRef(thread_id, ""))
    await store.create_fact(SCOPE, NewFact("f_1", "爱吃饕餮zqneedle", "wang"), 0)
    deletions: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "a run": lambda: store.delete_run(SCOPE, "1"),
        "a thread": lambda: store.delete_thread(SCOPE, thread_id),
        "a scope": lambda: store.delete_scope(SCOPE),
        "a fact": lambda: store.delete_fact(SCOPE, "f_1", "wang", 0),
    }
    with pytest.MonkeyPatch.context() as dies:
        # The process dies when the deletion is acknowledged by the disk, and before anything is erased.
        erase = store._db.erase
        crashed = asyncio.Event()

        async def copied() -> bool:
            await store._db.read(lambda _: shutil.copytree(tmp_path, tmp_path / "crashed"))
            crashed.set()
            return await erase()

        dies.setattr(store._db, "erase", copied)
        deleting = asyncio.ensure_future(deletions[deletes]())
        await crashed.wait()
        dies.setattr(store._db, "erase", erase)
        await deleting
    await close(store)
    assert not await looks(path)
    assert await looks(tmp_path / "crashed" / "memsvc.db")
    assert not await looks(tmp_path / "crashed" / "memsvc.db")
    left = b"".join(contents(tmp_path / "crashed").values()).count(b"zqneedle")
    assert (left > 0) == (deletes != "a scope")
