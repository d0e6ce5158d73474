"""The engine room: plain functions of a connection go in, each runs whole on the thread of that connection, and what
they return comes out once it is durable, or where nobody is told of it (`write_behind`) once it is seen. One writer,
a few readers, no lock, one hop there and one back.

A **unit of work** is a synchronous function `fn(connection, *args)`. The rules for it:

- It begins, commits and rolls back nothing; it is inside a transaction when it is called.
- It lets `sqlite3.Error` pass. A full disk takes the whole transaction away, and a unit that went on regardless would
  write in autocommit.
- It may be run again from its start, after a transaction that held it together with others was lost: whatever it
  changes is in the database, or in values of its own.
- It returns values, never a cursor: an open cursor holds its connection to an old state.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar, cast

import aiosqlite

from memsvc.errors import RateLimited, Unavailable
from memsvc.store.sqlite import migrate, start
from memsvc.store.sqlite.migrate import Migration
from memsvc.store.sqlite.remnants import PAGES_AT_ONCE, Remnants
from memsvc.store.sqlite.units import Unit, next_batch, run_batch, settle_all

P = ParamSpec("P")
T = TypeVar("T")

WAITING_UNITS = 2048
"""Most units that wait for one connection. Beyond it RateLimited: a longer queue would only hold texts and outlive the
callers' deadlines. Full, it is worked off in 0.1 s on a quiet disk (20,000 writes a second), in 0.5 s on a busy one."""

RETRY_AFTER_MS = 250

# aiosqlite reports each hop twice at DEBUG, which would drown our own lines.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)


class _Link(aiosqlite.Connection):
    """A connection with its thread. Instead of statements it takes whole functions, and resolves nothing itself."""

    def __init__(self, opener: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(opener, iter_chunk_size=1)
        self.waiting = 0

    def submit(self, function: Callable[[sqlite3.Connection], None]) -> None:
        """Queues a function for the thread: `_execute` without its future, for whoever answers many at once."""
        self._tx.put_nowait((None, partial(function, self._conn)))

    async def start(self) -> None:
        """Starts the thread and opens; when that fails, the thread has ended."""
        try:
            await self
        finally:
            if self._connection is None:
                self._thread.join()

    async def finish(self) -> None:
        """Runs all that is queued, closes, and sees the thread end."""
        await self.close()
        # It has answered for the last time and is a few instructions from its end.
        self._thread.join()


class Database:
    """An open database. Made by `Database.open`, used from the loop that opened it, ended by `close`."""

    path: str
    secret: bytes
    """32 random bytes, drawn when the file was made: what is keyed with them is not to be forged from outside."""
    loop: asyncio.AbstractEventLoop
    """The loop that opened it, and on which it is used."""

    def __init__(self, path: str | os.PathLike[str], readers: int) -> None:
        self.path = os.path.realpath(path)
        self.loop = asyncio.get_running_loop()
        self._waiting: deque[Unit] = deque()
        self._closing: asyncio.Task[None] | None = None
        self._lock: int
        self._file: tuple[int, int]
        self._remnants: Remnants
        self._writer: _Link
        self._readers = [_Link(partial(start.connect, self.path, read_only=True)) for _ in range(readers + 1)]

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        readers: int = 2,
        *,
        migrations: Sequence[Migration] | None = None,
        now_us: int | None = None,
    ) -> Database:
        """Opens or creates the database at `path` (mode 0600), migrated; it is then this process's alone.

        Raises a StartError (DatabaseLocked, DatabaseForeign, DatabaseCorrupt, DatabaseTooNew, MigrationChanged,
        DatabaseUnwritable) and has then touched nothing. `readers` is at least 1; two serve a few thousand reads
        a second; one more is kept for slow ones. `migrations` are those of this build unless given, `now_us` the clock.
        """
        database = cls(path, max(1, readers))
        opening = asyncio.ensure_future(
            database._open(
                migrate.shipped() if migrations is None else migrations,
                time.time_ns() // 1000 if now_us is None else now_us,
            )
        )
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # A thread in the middle of opening cannot be called back: it finishes, and what it opened is closed.
            await asyncio.wait([opening])
            if opening.exception() is None:
                await database.close()
            raise
        return database

    async def _open(self, migrations: Sequence[Migration], now_us: int) -> None:
        def opener() -> sqlite3.Connection:
            connection, self._lock, file, self.secret = start.open_writer(self.path, migrations, now_us)
            self._file = _file_id(os.fstat(file))
            self._remnants = Remnants(self.path, file)
            return connection

        self._writer = _Link(opener)
        await self._writer.start()
        opened = []
        try:
            for reader in self._readers:
                await reader.start()
                opened.append(reader)
        finally:
            if len(opened) < len(self._readers):
                self._readers = opened
                await self._close()

    async def read(self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a unit that only reads, on one snapshot that holds every write acknowledged before this call.

        Raises what the unit raises, RateLimited when too many wait, Unavailable when the database is closing or
        cannot be read. A caller who is cancelled stops waiting; a unit that has begun runs to its end.
        """
        reader = min(self._readers[:-1], key=lambda link: link.waiting)
        return await self._read_on(reader, lambda connection: fn(connection, *args, **kwargs))

    async def read_slowly(
        self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Does what `read` does for a unit that may take seconds. Such units wait for one another and hold up no other
        read.
        """
        return await self._read_on(self._readers[-1], lambda connection: fn(connection, *args, **kwargs))

    async def _read_on(self, reader: _Link, call: Callable[[sqlite3.Connection], T]) -> T:
        self._refuse_if_closing()
        if reader.waiting >= WAITING_UNITS:
            raise RateLimited(RETRY_AFTER_MS)
        unit = Unit(call, self.loop.create_future())
        reader.waiting += 1
        reader.submit(partial(self._run_read, reader, unit))
        return cast(T, await unit.future)

    async def write(self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a unit that writes; returns what it returned once that is durable.

        All of it or none of it is kept, whatever happens. Raises what the unit raises, DiskFull, RateLimited when too
        many wait, Unavailable when the database is closing or cannot be written. A caller who is cancelled does not
        learn which of the two it was; a unit that has not begun by then is dropped.
        """
        return cast(T, await self._write(lambda connection: fn(connection, *args, **kwargs), True))

    async def write_behind(
        self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Does what `write` does, but returns when readers see it: it is durable with the next write, or lost with it.

        For work that is seen from the database to be due, and done again where a power loss took it.
        """
        return cast(T, await self._write(lambda connection: fn(connection, *args, **kwargs), False))

    async def _write(self, call: Callable[[sqlite3.Connection], object], durable: bool) -> object:
        self._refuse_if_closing()
        if len(self._waiting) >= WAITING_UNITS:
            raise RateLimited(RETRY_AFTER_MS)
        unit = Unit(call, self.loop.create_future(), durable)
        # One call of `_run_writes` a unit is queued, and each takes all units that wait: the first after a commit finds
        # everybody who came meanwhile, the others find nothing. So nobody waits for company, and nobody is forgotten.
        self._waiting.append(unit)
        self._writer.submit(self._run_writes)
        return await unit.future

    def log_bytes(self) -> int:
        """Returns how long the log's file is: a little more than was written since it was cut to nothing."""
        with suppress(FileNotFoundError):  # somebody took it away, and the next write says so
            return os.stat(f"{self.path}-wal").st_size
        return 0

    async def checkpoint(self) -> bool:
        """Moves the log into the file and cuts it to nothing, so that no byte of what was deleted is left in it.

        False when a read stood in the way: try again. Writes wait meanwhile, at most a moment beyond the work itself.
        """
        return await self._erase(None)

    async def erase(self) -> bool:
        """Does what `checkpoint` does, and leaves no copy of what was deleted in the file either (see remnants.py).

        Where the log was begun anew since the last time, the whole file is read, on a thread of its own.
        """
        if not await self._erase(None):
            return False
        if self._remnants.known:
            return True
        found = await asyncio.to_thread(self._remnants.scan)
        # A part at a time, because others' writes wait meanwhile; the last one, which may be empty, ends it.
        while len(found) > PAGES_AT_ONCE:
            if not await self._erase(found[:PAGES_AT_ONCE], more=True):
                return False
            del found[:PAGES_AT_ONCE]
        return await self._erase(found)

    async def _erase(self, found: Collection[int] | None, more: bool = False) -> bool:
        self._refuse_if_closing()
        unit = Unit(partial(self._remnants.erase, found=found, more=more), self.loop.create_future())
        self._writer.submit(partial(self._run_bare, unit))
        return cast(bool, await unit.future)

    async def close(self) -> None:
        """Runs what is queued, closes the readers, then empties the log and closes the writer. Safe to call again.

        New units are refused from the call on. A caller who is cancelled does not stop it.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for reader in self._readers:
            await reader.finish()
        # A log that cannot be emptied now (a full disk) is complete and read at the next start.
        self._writer.submit(_try_to_empty_log)
        try:
            await self._writer.finish()
        finally:
            self._remnants.close()
            os.close(self._lock)

    def _refuse_if_closing(self) -> None:
        if self._closing is not None:
            raise Unavailable("the daemon is shutting down")

    def _run_read(self, reader: _Link, unit: Unit, connection: sqlite3.Connection) -> None:
        if not unit.future.cancelled():
            with unit:
                connection.execute("BEGIN")
                unit.value = unit.call(connection)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        self.loop.call_soon_threadsafe(self._settle_read, reader, unit)

    def _settle_read(self, reader: _Link, unit: Unit) -> None:
        reader.waiting -= 1
        unit.settle()

    def _run_bare(self, unit: Unit, connection: sqlite3.Connection) -> None:
        with unit:
            unit.value = unit.call(connection)
        self.loop.call_soon_threadsafe(unit.settle)

    def _is_astray(self) -> bool:
        """Whether another file, or none, is where the open one was; what cannot be looked at is taken to be there."""
        try:
            return _file_id(os.stat(self.path)) != self._file
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _run_writes(self, connection: sqlite3.Connection) -> None:
        """Runs the units that wait as one batch, and answers all of them with one wake-up of the loop."""
        batch = [unit for unit in next_batch(self._waiting) if not unit.future.cancelled()]
        if batch and self._is_astray():
            # What would be acknowledged now could be read until the daemon ends, and by nobody after that.
            for unit in batch:
                unit.error = Unavailable(
                    "another file, or none, is where the database was: put it back, or restart the daemon"
                )
            self.loop.call_soon_threadsafe(settle_all, batch)
        elif batch:
            self._waiting.extendleft(reversed(run_batch(connection, batch)))
            self.loop.call_soon_threadsafe(settle_all, batch)


def _file_id(stat: os.stat_result) -> tuple[int, int]:
    """Returns what tells one file from any other on this machine."""
    return stat.st_dev, stat.st_ino


def _try_to_empty_log(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
