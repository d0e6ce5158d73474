"""Keeps the recall index in shape behind the answers: recording a run writes its entry, and what follows is done here.

One bounded unit of work at a time, so that recordings pass between them. What is due is seen from the database: nothing
is lost with the process, and a start goes on with what an earlier one left.
"""

from __future__ import annotations

import asyncio

from memsvc.errors import MemsvcError
from memsvc.store.sqlite import recall
from memsvc.store.sqlite.db import Database

PAUSE_S = 1.0
"""How long to leave a database alone that could not be written. Meanwhile recording does the work where it must."""


class Settler:
    """One task, on the loop of `db`, that settles the index of the scopes it is told of."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._due: dict[int, None] = {}
        self._wake = asyncio.Event()
        self._wake.set()
        self._task = db.loop.create_task(self._work(), name="memsvc-settler")

    def ask(self, scope_no: int) -> None:
        """Says that the index of a scope is to be settled."""
        self._due[scope_no] = None
        self._wake.set()

    async def stop(self) -> None:
        """Ends the task; the unit that is being written is written."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _work(self) -> None:
        known = False
        while True:
            try:
                if not known:
                    self._due.update(dict.fromkeys(await self._db.read(recall.unsettled)))
                    known = True
                while self._due:
                    scope_no = next(iter(self._due))
                    while await self._db.write_behind(recall.settle, scope_no):
                        pass
                    self._due.pop(scope_no, None)
                self._wake.clear()
                await self._wake.wait()
            except MemsvcError:
                await asyncio.sleep(PAUSE_S)
