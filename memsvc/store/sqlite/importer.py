"""Carries imports through, one at a time: staged in short writes, shown in one, indexed behind it; and after a start
sees to what an earlier process left, which is taken out where it was not shown, and indexed where it was.

A write that others wait for never holds more than a step of staging.py, but for the last one (showing.py). That one
alone waits for the disk, which has what was staged before it then as well; indexing is due until it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import groupby

from memsvc.errors import MemsvcError
from memsvc.model import Scope
from memsvc.rules.exportfile import Header, Key, ThreadLine, Tombstone
from memsvc.store.sqlite import showing, staging
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.importing import Import, Numbered
from memsvc.store.sqlite.janitor import Janitor
from memsvc.store.sqlite.settler import Settler
from memsvc.store.values import Brought, ImportedRun, Prepared

CHUNK_LINES = 200
CHUNK_CHARACTERS = 256 << 10
"""Lines that are looked at together, and the text of runs among them."""
PAUSE_S = 1.0
"""How long to leave a database alone that could not be written."""


class Importer:
    """One task, on the loop of `db`, that tidies up; imports run in their callers'."""

    def __init__(self, db: Database, janitor: Janitor, settler: Settler) -> None:
        self._db, self._janitor, self._settler = db, janitor, settler
        self._turn = asyncio.Lock()
        self._stopped = False
        self._task = self._begin()

    async def bring(
        self,
        scope: Scope,
        prepared: Prepared,
        by: str,
        now_us: int,
        showing_it: Callable[[], AbstractContextManager[None]],
    ) -> Brought:
        """See Store.import_scope. `showing_it` is around the write that shows it."""
        async with self._turn:
            if await self._db.read(staging.left):
                # What failed before may hold the very ids that come now.
                await self._db.write(staging.doom_left)
                await self._janitor.done(self._janitor.ask())
            numbers = await self._db.write_behind(staging.begin, scope)
            coming = Import(self._db.secret, scope, numbers, prepared)
            shown = False
            try:
                await self._stage(coming, scope, prepared)
                with showing_it():
                    brought = await self._db.write(
                        showing.show, self._db.secret, scope, coming.plan, prepared.runs_of, by, now_us
                    )
                shown = True
            finally:
                if not shown:
                    self._tidy()
        await self._index()
        self._settler.ask(numbers[0])
        return brought

    async def stop(self) -> None:
        """Ends the task; what it owes is found at the next start."""
        self._stopped = True
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _stage(self, coming: Import, scope: Scope, prepared: Prepared) -> None:
        """Reads a chunk, finds out what it brings, writes that in steps; then the next."""
        await self._db.read_slowly(coming.begin)
        chunks = _chunks(prepared.read())
        counted = False
        while chunk := await asyncio.to_thread(next, chunks, None):
            groups = []
            if not counted and is_behind_runs(chunk[0][1]):
                counted = True
                groups = await self._db.read_slowly(coming.counted)
                await self._write(scope, coming, groups)
            groups = await self._db.read_slowly(coming.groups, chunk)
            await self._write(scope, coming, groups)

    async def _write(self, scope: Scope, coming: Import, groups: list[staging.Group]) -> None:
        done = 0
        while done < len(groups):
            done += await self._db.write_behind(staging.write, scope, coming.plan.scope_no, groups[done:])

    async def _index(self) -> None:
        """Lets what was shown enter the index; what cannot be done now is done behind the answer."""
        try:
            while await self._db.write_behind(staging.adopt):
                pass
        except MemsvcError:
            self._tidy()

    def _begin(self) -> asyncio.Task[None]:
        return self._db.loop.create_task(self._work(), name="memsvc-importer")

    def _tidy(self) -> None:
        """Has what is left seen to, by the task if it is still at work."""
        if self._task.done() and not self._stopped:
            self._task = self._begin()

    async def _work(self) -> None:
        while True:
            try:
                async with self._turn:
                    if await self._db.read(staging.left) and await self._db.write(staging.doom_left):
                        self._janitor.ask()
                if await self._db.read(staging.waits):
                    while await self._db.write_behind(staging.adopt):
                        pass
                return
            except MemsvcError:
                await asyncio.sleep(PAUSE_S)


def _chunks(lines: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    """Lines of one type, as many as are looked at together."""
    for _, alike in groupby(lines, key=lambda numbered: type(numbered[1])):
        chunk: list[Numbered] = []
        size = 0
        for numbered in alike:
            chunk.append(numbered)
            item = numbered[1]
            size += (
                len(item.line.input) + len(item.line.output) + len(item.shown) if isinstance(item, ImportedRun) else 0
            )
            if len(chunk) == CHUNK_LINES or size >= CHUNK_CHARACTERS:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk


def is_behind_runs(item: object) -> bool:
    """Tells whether a line stands behind all runs of a file."""
    return not isinstance(item, (Header, Key, Tombstone, ThreadLine, ImportedRun))
