"""An import halfway through, for the tests of what comes between its steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from memsvc import exchange
from memsvc.config import Settings
from memsvc.model import NewRun, RunOutcome, Scope, ThreadState
from memsvc.rules.exportfile import End
from memsvc.store import Brought, Page, Prepared, Store, ThreadRef, UsageRow, verify_database
from memsvc.store.core import NewFact
from memsvc.store.sqlite.importing import Numbered
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import RENDERER, SCOPE, prepared
from tests.units import Pause

DONE = RunOutcome.COMPLETED
BESIDE = Scope("school-7", "exam", "beside")
THREADS, TURNS = 6, 5
WORD = "zanzibar"
"""What the imported runs speak of, and nothing else does."""


async def record(store: SqliteStore, run_id: str, ref: ThreadRef, words: str = "", scope: Scope = SCOPE) -> str:
    """Records a run, and returns its thread's id."""
    run = NewRun(run_id, f"{run_id} asks", words or f"{run_id} answers", DONE, provider="own")
    return (await store.record_run(scope, ref, prepared(run, store.secret), 1_000)).thread_id


async def lines(store: SqliteStore, scope: Scope = SCOPE) -> bytes:
    return b"".join([part async for part in exchange.export(store, scope)])


def settings_of(store: SqliteStore) -> Settings:
    return Settings.model_validate({"database": Path(store._db.path)})


async def bring(store: Store, folder: SqliteStore, data: bytes) -> Brought:
    async def parts() -> AsyncIterator[bytes]:
        yield data

    return (await exchange.bring(store, RENDERER, settings_of(folder), SCOPE, parts(), "test", 1)).brought


async def written(path: Path, threads: int = THREADS, turns: int = TURNS) -> bytes:
    """An export that another database wrote: threads with keys and a deletion, a fact."""
    store = await SqliteStore.open(path, RENDERER, 1)
    for turn in range(turns):
        for thread in range(threads):
            await record(store, f"r{thread}-{turn}", ThreadRef(thread_key=f"k{thread}"), f"{WORD} {thread} {turn}")
    await record(store, "gone", ThreadRef(thread_key="k0"))
    await store.delete_run(SCOPE, "gone")
    await store.create_fact(SCOPE, NewFact("f1", f"用户住在 {WORD}", "wang"), 1)
    data = await lines(store)
    await store.close()
    return data


class Halting:
    """A file whose reading waits before its first line of one type, until the test lets it go on."""

    def __init__(self, inner: Prepared, before: type, pause: Pause) -> None:
        self._inner, self._before, self._pause = inner, before, pause

    @property
    def run_ids(self) -> Collection[str]:
        return self._inner.run_ids

    @property
    def runs_of(self) -> Mapping[str, Sequence[str]]:
        return self._inner.runs_of

    def read(self) -> Iterator[Numbered]:
        waited = False
        for number, item in self._inner.read():
            if isinstance(item, self._before) and not waited:
                waited = True
                self._pause.here()
            yield number, item


class Held:
    """A store whose imports wait at a place."""

    def __init__(self, store: SqliteStore, before: type = End) -> None:
        self._store, self._before = store, before
        self.pause = Pause()

    async def import_scope(self, scope: Scope, file: Prepared, by: str, now_us: int) -> Brought:
        return await self._store.import_scope(scope, Halting(file, self._before, self.pause), by, now_us)


class Halfway:
    """An import that has staged all it brings, and shown nothing."""

    def __init__(self, store: SqliteStore, data: bytes) -> None:
        self.held = Held(store)
        self.task = asyncio.ensure_future(bring(cast(Store, self.held), store, data))

    async def __aenter__(self) -> Halfway:
        reached = asyncio.ensure_future(self.held.pause.reached.wait())
        await asyncio.wait((reached, self.task), return_when=asyncio.FIRST_COMPLETED)
        assert reached.done(), self.task.exception()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.held.pause.go()
        await asyncio.wait([self.task])

    async def end(self) -> Brought:
        self.held.pause.go()
        return await self.task


async def at_rest(store: SqliteStore) -> None:
    """Returns when nothing of an import is left to do."""
    await asyncio.wait([store._importer._task])
    await store._janitor.done(store._janitor.ask())


async def rows(store: SqliteStore, query: str, *values: object) -> list[Any]:
    return await store._db.read(lambda db: db.execute(query, values).fetchall())


async def is_clean(store: SqliteStore) -> None:
    """No staging scope is left, and nothing is wrong."""
    assert await rows(store, "SELECT * FROM scopes WHERE agent_id IN ('staging', 'staged')") == []
    assert await rows(store, "SELECT * FROM threads WHERE state < 0") == []
    assert await rows(store, "SELECT * FROM doomed") == []
    assert verify_database(Path(store._db.path)).findings == []


def sums(usage: Sequence[UsageRow]) -> list[tuple[str, int]]:
    return sorted((row.thread_id, row.usage.input_tokens) for row in usage)


async def every_run(store: SqliteStore) -> list[Any]:
    threads = (await store.list_threads(SCOPE, tuple(ThreadState), "", Page(0, 200)))[0]
    return [
        run
        for thread in threads
        for run in (await store.list_runs(SCOPE, thread.thread_id, Page(0, 200), False, 0, 1 << 20))[0]
    ]
