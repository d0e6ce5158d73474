"""Reads that are done at once, on the loop's own thread: for a unit of half a millisecond two hops take as long again.

Only what was quick the last time is read so. What has not been asked about lately may have to come from a disk, and
what took long may take long again; that is read on a reader's thread, where nothing else waits for it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Hashable
from typing import Concatenate, ParamSpec, TypeVar

from memsvc.errors import MemsvcError
from memsvc.store.sqlite import start
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.units import let_go

P = ParamSpec("P")
T = TypeVar("T")

QUICK_MS = 50
"""A read that took longer holds up the loop once; the next one about the same thing does not."""
MAX_KNOWN = 10_000
"""Things that are remembered to be quick; of one more, all are learnt anew."""


class QuickReads:
    """A connection of the loop's own to an open database, beside those of its readers. It ends before that does."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: set[Hashable] = set()
        self._connection = start.connect(db.path, read_only=True)
        self._connection.execute("PRAGMA busy_timeout = 0")

    async def read(
        self, about: Hashable, fn: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Does what Database.read does for a unit that is bounded, and usually done in less than a millisecond."""
        begun = time.perf_counter()
        try:
            if about in self._known:
                return self._read_here(lambda: fn(self._connection, *args, **kwargs))
            return await self._db.read(fn, *args, **kwargs)
        except sqlite3.Error:
            return await self._db.read(fn, *args, **kwargs)  # whose answer says what is wrong
        finally:
            self._note(about, (time.perf_counter() - begun) * 1000 < QUICK_MS)

    def close(self) -> None:
        """Closes the connection; what is asked from now on is the database's own to refuse."""
        self._known.clear()
        self._connection.close()

    def _read_here(self, call: Callable[[], T]) -> T:
        connection = self._connection
        connection.execute("BEGIN")
        try:
            return call()
        except (MemsvcError, sqlite3.Error) as error:
            let_go(error)
            raise
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _note(self, about: Hashable, quick: bool) -> None:
        if not quick:
            self._known.discard(about)
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known.add(about)
