"""Exports beside what ends them: whatever is deleted while one is under way, what came is no export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memsvc.errors import RunNotFound, Unavailable
from memsvc.store import ExportPosition, ThreadRef
from memsvc.store.sqlite import export
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import RENDERER, SCOPE
from tests.staged import at_rest, lines, record, rows
from tests.units import held

RUNS = 4


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "memsvc.db", RENDERER, 1)
    await at_rest(opened)
    for number in range(RUNS):
        await record(opened, f"r{number}", ThreadRef(thread_key="k"))
    yield opened
    await opened.close()


@pytest.mark.parametrize("pages", range(RUNS + 2))
async def test_wherever_an_export_is_a_deletion_ends_it(
    store: SqliteStore, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE_ROWS", 1)
    bounds = await store.begin_export(SCOPE)
    position: ExportPosition | None = ExportPosition()
    for _ in range(pages):
        assert position is not None
        _, position = await store.export_page(SCOPE, bounds, position)
    await store.delete_run(SCOPE, "r2")
    assert await rows(store, "SELECT 1 FROM runs WHERE run_id = 'r2'") == []
    while position is not None:
        with pytest.raises(Unavailable):
            await store.export_page(SCOPE, bounds, position)
        position = position._replace(stage=position.stage + 1, after=0) if position.stage < 10 else None


async def test_an_export_that_begins_beside_a_deletion_does_not_outlive_it(store: SqliteStore) -> None:
    with held(store._db._writer):
        deleting = asyncio.ensure_future(store.delete_run(SCOPE, "r2"))
        await asyncio.sleep(0)
        bounds = await store.begin_export(SCOPE)
        with pytest.raises(Unavailable):
            await store.export_page(SCOPE, bounds, ExportPosition())
    await deleting
    with pytest.raises(Unavailable):
        await store.export_page(SCOPE, bounds, ExportPosition())
    assert b"r3" in await lines(store)


async def test_a_deletion_of_nothing_ends_no_export_and_hides_none_that_does(store: SqliteStore) -> None:
    with held(store._db._writer):
        failing = asyncio.ensure_future(store.delete_run(SCOPE, "nobody"))
        await asyncio.sleep(0)
        bounds = await store.begin_export(SCOPE)
    with pytest.raises(RunNotFound):
        await failing
    await store.export_page(SCOPE, bounds, ExportPosition())
    await store.delete_run(SCOPE, "r2")
    with pytest.raises(Unavailable):
        await store.export_page(SCOPE, bounds, ExportPosition())
