"""Units of work on their connection: in a transaction of their own, or many in one with a savepoint each, and what
SQLite says of them as an error of ours.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from memsvc.errors import DiskFull, Unavailable

BATCH_UNITS = 64
"""Most units that share one commit. Measured with 256 callers on a busy disk: 200 writes a second alone, 3,700 by 32,
5,000 by 64, 6,000 by 128, where a lost batch would be rerun for long."""

BATCH_MS = 25
"""A batch takes no further unit after this long, so that the first does not wait for a long row of heavy ones."""


class Unit:
    """A unit of work and its answer. As a context manager it takes what is raised inside for the answer."""

    __slots__ = ("call", "durable", "error", "future", "value")

    def __init__(
        self, call: Callable[[sqlite3.Connection], object], future: asyncio.Future[object], durable: bool = True
    ) -> None:
        self.call = call
        self.future = future
        self.durable = durable
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


def next_batch(waiting: deque[Unit]) -> list[Unit]:
    """Takes those from the front that may share a commit: at most `BATCH_UNITS`, all durable or none of them."""
    units: list[Unit] = []
    while waiting and len(units) < BATCH_UNITS and (not units or waiting[0].durable == units[0].durable):
        units.append(waiting.popleft())
    return units


def _begin(connection: sqlite3.Connection, durable: bool) -> None:
    """Begins a transaction that is on disk when it is committed, or else with the next one that is.

    In the log it stands before that one and is synced with it: a power loss keeps the order. SQLite syncs the log
    before it moves anything from there into the file, whatever is set here.
    """
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.execute("BEGIN IMMEDIATE")


def settle_all(batch: Sequence[Unit]) -> None:
    """Hands out the answers of a batch. On the loop's thread."""
    for unit in batch:
        unit.settle()


def run_batch(connection: sqlite3.Connection, batch: list[Unit]) -> list[Unit]:
    """Runs units, together or where that fails each alone; leaves those in `batch` that have their answer.

    Returns the others, for whom there was no time.
    """
    if len(batch) == 1:
        _run_alone(connection, batch[0])
        return []
    done = _run_together(connection, batch)
    if done == 0:
        for unit in batch:
            _run_alone(connection, unit)
        return []
    rest = batch[done:]
    del batch[done:]
    return rest


def _run_alone(connection: sqlite3.Connection, unit: Unit) -> None:
    """Runs a unit in a transaction of its own."""
    with unit:
        _begin(connection, unit.durable)
        unit.value = unit.call(connection)
        if not connection.in_transaction:
            raise RuntimeError("a unit of work ended its own transaction, or hid an error that did")
        connection.execute("COMMIT")
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _run_together(connection: sqlite3.Connection, batch: Sequence[Unit]) -> int:
    """Runs units in one transaction, a savepoint each. Returns how many, from the first on, have their answer.

    0 when the transaction was lost, by a unit or at its commit: nothing of the batch is kept then, and it is not told
    whose fault it was.
    """
    try:
        _begin(connection, batch[0].durable)
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
