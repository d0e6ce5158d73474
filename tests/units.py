"""Units of work and levers for the tests of the engine room."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from memsvc.store.sqlite import db, sweeping
from memsvc.store.sqlite.db import Database

Unit = Callable[[sqlite3.Connection], object]


@asynccontextmanager
async def opened(path: Path, readers: int = 2) -> AsyncIterator[Database]:
    """A database with tables to play with, which leaves no thread behind."""
    database = await Database.open(path, readers)
    try:
        await database.write(create)
        yield database
    finally:
        await database.close()
    assert threads_left() == []


_others: set[threading.Thread] = set()


def note_threads() -> None:
    """Takes the threads that run now for others': a daemon that several tests share has its own. Before each test."""
    _others.clear()
    _others.update(threading.enumerate())


def threads_left() -> list[threading.Thread]:
    """Threads that this test began. gRPC's poller does not count: any test may have started it, and it never ends."""
    return [t for t in threading.enumerate() if t not in _others and "_poll_wrapper" not in t.name]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, byte for byte."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Pause:
    """A place inside a unit where its thread waits until the test lets it go."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._go = threading.Event()
        self.reached = asyncio.Event()

    def here(self) -> None:
        """Called by the unit."""
        self._loop.call_soon_threadsafe(self.reached.set)
        self._go.wait()

    def go(self) -> None:
        """Called by the test."""
        self._go.set()


def create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE t (n INTEGER, words TEXT)")
    connection.execute("CREATE TABLE parents (n INTEGER PRIMARY KEY)")
    connection.execute("CREATE TABLE children (n INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)")
    connection.execute("CREATE TABLE mines (n INTEGER)")
    connection.execute("CREATE TRIGGER mine AFTER INSERT ON mines BEGIN SELECT RAISE(ROLLBACK, 'all gone'); END")


def put(connection: sqlite3.Connection, n: int, words: str = "") -> int:
    connection.execute("INSERT INTO t VALUES (?, ?)", (n, words))
    return n


def put_twice(connection: sqlite3.Connection, n: int) -> None:
    put(connection, n)
    put(connection, n)


def put_then_raise(connection: sqlite3.Connection, n: int, error: BaseException) -> None:
    put(connection, n)
    raise error


def put_then_step_on_mine(connection: sqlite3.Connection, n: int) -> None:
    put(connection, n)
    connection.execute("INSERT INTO mines VALUES (1)")


def put_then_orphan(connection: sqlite3.Connection, n: int) -> None:
    put(connection, n)
    connection.execute("INSERT INTO children VALUES (99)")


def put_too_much(connection: sqlite3.Connection, n: int) -> None:
    """Runs into the end of the file with a statement that SQLite undoes together with everything before it."""
    put(connection, n)
    put(connection, n, "x" * 9_000_000)


def put_too_many(connection: sqlite3.Connection, n: int) -> None:
    """Runs into the end of the file with a statement that SQLite undoes alone, or not: it has a journal of its own."""
    put(connection, n)
    connection.execute(
        "WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 9000) "
        "INSERT INTO t SELECT ?, printf('%01000d', i) FROM k",
        (n,),
    )


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [n for (n,) in connection.execute("SELECT n FROM t ORDER BY n")]


def cap_file(connection: sqlite3.Connection, spare_pages: int) -> None:
    """A full disk as SQLite sees it: SQLITE_FULL from the page allocator."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + spare_pages}")


@contextmanager
def held(link: db._Link) -> Iterator[Callable[[], None]]:
    """Keeps a connection's thread busy until told, so that what is sent meanwhile surely waits together."""
    gate = threading.Event()

    def wait(connection: sqlite3.Connection) -> None:
        gate.wait()

    link.submit(wait)
    try:
        yield gate.set
    finally:
        gate.set()


async def together(database: Database, *units: Callable[[sqlite3.Connection], object]) -> list[object]:
    """Sends units so that they share a batch; returns answers and errors in order."""
    with held(database._writer) as release:
        tasks = [asyncio.ensure_future(database.write(unit)) for unit in units]
        await asyncio.sleep(0)
        release()
        return await asyncio.gather(*tasks, return_exceptions=True)


def traced(statements: list[str]) -> Callable[[sqlite3.Connection], None]:
    return lambda connection: connection.set_trace_callback(statements.append)


async def swept(database: Database) -> int:
    """Takes out all that is hidden, as the janitor does; returns in how many steps."""
    steps, step = 1, await database.write(sweeping.sweep, database.secret, None)
    while step.more:
        steps, step = steps + 1, await database.write(sweeping.sweep, database.secret, step.walk)
    return steps
