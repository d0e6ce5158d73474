"""Sees deletions to their end: takes out what is hidden, empties the log, erases what is left, and does not give up.

The file itself overwrites what it deletes (`secure_delete`), but for copies that rows left where they once stood
(remnants.py); and the log still holds the pages as they were until it is written back and cut to nothing, and a read
that is under way keeps it from that. So all of it is owed until it is done: by a task of the store's own and not by the
worker, because a deletion must not wait for a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from memsvc.errors import MemsvcError, Unavailable
from memsvc.store.sqlite import erased, sweeping
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.sweeping import Swept

PATIENCE_S = 30.0
"""How long a deletion waits until its words are gone from the files; what takes longer is done behind its answer."""
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0
QUICK_S = 0.25
LOG_BYTES = 2 << 20
"""A step of sweeping that leaves more in the log is followed by emptying it and erasing what it touched: left to the
end, all of the file would have to be looked through, and left to the commit that finds the log full (start.LOG_PAGES),
others would wait for eight times as much at once. A step writes from one to five megabytes."""
SHARE = 3
"""An erasure that took longer, because it read a large file, is followed by a pause of so many times its length."""

log = structlog.get_logger()


class Janitor:
    """One task, on the loop of `db`, that sweeps and empties the log whenever something is owed."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._swept = self._erased = 0
        self._wake = asyncio.Event()
        # The next thing that is told; a new one each time, so that whoever has just looked misses none.
        self._moved: asyncio.Future[None] = db.loop.create_future()
        self._failure: MemsvcError | None = None
        # What an earlier process owed is not known until the file has been asked.
        self._asked = 1
        self._coming = 0
        self._task = self._begin()

    @property
    def owes(self) -> bool:
        """Whether words of something deleted may still stand in the files."""
        return self._erased < self._asked

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Around a write that deletes, and what it asks for then: meanwhile nobody notes that all is erased."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    def ask(self) -> int:
        """Says that something was deleted; returns what `done` wants to know."""
        self._asked += 1
        # What failed before is no answer to this one: it is tried again.
        self._failure = None
        self._wake.set()
        # What no error of ours foresees ends the task and is told to whoever waits; the next one has it tried again.
        if self._task.done() and not self._task.cancelled():  # as it is once this was stopped
            self._task = self._begin()
        return self._asked

    async def done(self, asked: int) -> None:
        """Returns when all that was deleted by then is gone from rows and log, at the latest after `PATIENCE_S`.

        It is hidden from everybody anyway; what a larger deletion of others or a long read holds up is owed, and done
        behind the answer. Raises what keeps it from being taken out (DiskFull, Unavailable).
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._until(lambda: self._swept >= asked or self._failure is not None)
                if self._swept < asked and self._failure is not None:
                    raise self._failure
                await self._until(lambda: self._erased >= asked or self._failure is not None)
        except TimeoutError:
            log.warning("erasure_owed", effect="a long read or a large deletion is in the way; it is done behind it")

    async def stop(self) -> None:
        """Ends the task. What it owes is found at the next start, and closing the database empties the log."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def _begin(self) -> asyncio.Task[None]:
        return self._db.loop.create_task(self._work(), name="memsvc-janitor")

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            task = self._task
            await asyncio.wait((self._moved, task), return_when=asyncio.FIRST_COMPLETED)
            if task.cancelled():
                raise Unavailable("the daemon is shutting down")
            if task.done():
                task.result()

    def _tell(self) -> None:
        self._moved.set_result(None)
        self._moved = self._db.loop.create_future()

    async def _sweep(self) -> None:
        """Takes out all that is doomed. Where it fails, the next time begins with what is left."""
        step, unread = Swept(True), True
        while step.more:
            step = await self._db.write_behind(sweeping.sweep, self._db.secret, step.walk)
            if unread and self._db.log_bytes() > LOG_BYTES:
                # Where a long read keeps the log, the writer would wait for it each time.
                unread = await self._db.checkpoint()

    async def _work(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            if not self.owes:
                self._wake.clear()
                pause_s = FIRST_PAUSE_S
                await self._wake.wait()
            asked = self._asked
            try:
                if asked == 1 and await self._db.read(erased.is_noted):
                    # An earlier process saw to all.
                    self._swept = self._erased = asked
                    self._tell()
                    continue
                await self._sweep()
                self._failure = None
                self._swept = asked
                self._tell()
                began = self._db.loop.time()
                if await self._db.erase():
                    self._erased = asked
                    self._tell()
                    if not self.owes and not self._coming:
                        await self._db.write_behind(erased.note)
                    took_s = self._db.loop.time() - began
                    await asyncio.sleep(SHARE * took_s if took_s > QUICK_S else 0)
                    continue
            except MemsvcError as error:
                self._failure = error
                self._tell()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
