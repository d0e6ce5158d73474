"""The engine room: plain functions of a connection go in, each runs whole on the thread of that connection, and what
they return comes out once it is durable. One writer, a few readers, no lock, one hop there and one back.

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
import traceback
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar, cast

import aiosqlite

from memsvc.errors import DiskFull, RateLimited, Unavailable
from memsvc.store.sqlite import migrate, start
from memsvc.store.sqlite.migrate import Migration
from memsvc.store.sqlite.remnants import Remnants

P = ParamSpec("P")
T = TypeVar("T")

BATCH_UNITS = 64
"""Most units that share one commit. Measured with 256 callers on a busy disk: 200 writes a second alone, 3,700 by 32,
5,000 by 64, 6,000 by 128, where a lost batch would be rerun for long."""

BATCH_MS = 25
"""A batch takes no further unit after this long, so that the first does not wait for a long row of heavy ones."""

WAITING_UNITS = 2048
"""Most units that wait for one connection. Beyond it RateLimited: a longer queue would only hold texts and outlive the
callers' deadlines. Full, it is worked off in 0.1 s on a quiet disk (20,000 writes a second), in 0.5 s on a busy one."""

RETRY_AFTER_MS = 250

# aiosqlite reports each hop twice at DEBUG, which would drown our own lines.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)


class _Unit:
    """A unit of work and its answer. As a context manager it takes what is raised inside for the answer."""

    __slots__ = ("call", "error", "future", "value")

    def __init__(self, call: Callable[[sqlite3.Connection], object], future: asyncio.Future[object]) -> None:
        self.call = call
        self.future = future
        self.value: object = None
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        self.value = self.error = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            let_go(error)
            self.error = _as_answer(error)
        return True

    def settle(self) -> None:
        """Hands the answer to the caller, unless it has gone. On the loop's thread."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


def let_go(error: BaseException | None) -> None:
    """Empties the frames of an error: they hold texts, and cursors that would tie the connection to an old snapshot."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _as_answer(error: BaseException) -> BaseException:
    """The one place where what SQLite says while running becomes an error of ours; anything else is a bug and stays."""
    if isinstance(error, StopIteration):
        # A future refuses it, and the caller would wait for ever.
        answer: BaseException = RuntimeError("a unit of work let StopIteration escape")
    elif not isinstance(error, sqlite3.Error):
        return error
    else:
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_FULL:
                answer = DiskFull()
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
                answer = Unavailable("the database cannot be read or written")
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                answer = Unavailable("another program holds the database")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                answer = Unavailable("the database is damaged")
            case _:
                return error
    answer.__cause__ = error
    return answer


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
        self._waiting: deque[_Unit] = deque()
        self._closing: asyncio.Task[None] | None = None
        self._lock: int
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
        unit = _Unit(call, self.loop.create_future())
        reader.waiting += 1
        reader.submit(partial(self._run_read, reader, unit))
        return cast(T, await unit.future)

    async def write(self, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a unit that writes; returns what it returned once that is durable.

        All of it or none of it is kept, whatever happens. Raises what the unit raises, DiskFull, RateLimited when too
        many wait, Unavailable when the database is closing or cannot be written. A caller who is cancelled does not
        learn which of the two it was; a unit that has not begun by then is dropped.
        """
        self._refuse_if_closing()
        if len(self._waiting) >= WAITING_UNITS:
            raise RateLimited(RETRY_AFTER_MS)
        unit = _Unit(lambda connection: fn(connection, *args, **kwargs), self.loop.create_future())
        # One call of `_run_writes` a unit is queued, and each takes all units that wait: the first after a commit finds
        # everybody who came meanwhile, the others find nothing. So nobody waits for company, and nobody is forgotten.
        self._waiting.append(unit)
        self._writer.submit(self._run_writes)
        return cast(T, await unit.future)

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
        return self._remnants.known or await self._erase(await asyncio.to_thread(self._remnants.scan))

    async def _erase(self, found: Collection[int] | None) -> bool:
        self._refuse_if_closing()
        unit = _Unit(partial(self._remnants.erase, found=found), self.loop.create_future())
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

    def _run_read(self, reader: _Link, unit: _Unit, connection: sqlite3.Connection) -> None:
        if not unit.future.cancelled():
            with unit:
                connection.execute("BEGIN")
                unit.value = unit.call(connection)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        self.loop.call_soon_threadsafe(self._settle_read, reader, unit)

    def _settle_read(self, reader: _Link, unit: _Unit) -> None:
        reader.waiting -= 1
        unit.settle()

    def _run_bare(self, unit: _Unit, connection: sqlite3.Connection) -> None:
        with unit:
            unit.value = unit.call(connection)
        self.loop.call_soon_threadsafe(unit.settle)

    def _run_writes(self, connection: sqlite3.Connection) -> None:
        """Runs the units that wait as one batch, and answers all of them with one wake-up of the loop."""
        room = min(len(self._waiting), BATCH_UNITS)
        units = [self._waiting.popleft() for _ in range(room)]
        batch = [unit for unit in units if not unit.future.cancelled()]
        if len(batch) == 1:
            _run_alone(connection, batch[0])
        elif batch:
            done = _run_together(connection, batch)
            if done == 0:
                for unit in batch:
                    _run_alone(connection, unit)
            else:
                self._waiting.extendleft(reversed(batch[done:]))
                del batch[done:]
        if batch:
            self.loop.call_soon_threadsafe(_settle_all, batch)


def _settle_all(batch: Sequence[_Unit]) -> None:
    for unit in batch:
        unit.settle()


def _run_alone(connection: sqlite3.Connection, unit: _Unit) -> None:
    """Runs a unit in a transaction of its own."""
    with unit:
        connection.execute("BEGIN IMMEDIATE")
        unit.value = unit.call(connection)
        if not connection.in_transaction:
            raise RuntimeError("a unit of work ended its own transaction, or hid an error that did")
        connection.execute("COMMIT")
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _run_together(connection: sqlite3.Connection, batch: Sequence[_Unit]) -> int:
    """Runs units in one transaction, a savepoint each. Returns how many, from the first on, have their answer.

    0 when the transaction was lost, by a unit or at its commit: nothing of the batch is kept then, and it is not told
    whose fault it was.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        for unit in batch:
            unit.error = _as_answer(error)
        return len(batch)
    until = time.monotonic() + BATCH_MS / 1000
    done = 0
    try:
        for unit in batch:
            if done and time.monotonic() > until:
                break
            connection.execute("SAVEPOINT unit")
            with unit:
                unit.value = unit.call(connection)
            if not connection.in_transaction:
                return 0
            if unit.error is not None:
                connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")
            done += 1
        connection.execute("COMMIT")
    except sqlite3.Error:
        return 0
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return done


def _try_to_empty_log(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
