"""Whether a path may be opened, decided before a byte of it is touched: every refusal leaves the folder as it was.

The lock comes first, even before looking. POSIX locks fall when any descriptor of the file is closed by the process,
so one careless look at a database that this process has open would take the locks away from under SQLite.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from memsvc.errors import DatabaseCorrupt, DatabaseForeign, DatabaseLocked, DatabaseUnwritable, SettingWrong
from memsvc.store.sqlite import migrate
from memsvc.store.sqlite.migrate import Migration

APPLICATION_ID = 0x6D656D73
"""`mems`, at offset 68 of the file, where `file(1)` looks for it too."""

FULL_CHECK_BYTES = 512 << 20
"""Up to here the whole file is checked at every start. Measured on 509 MiB: 1.5 s when the file is in memory, 20 s when
it is not and the check fetches page by page, 2.7 s when it is read through in order first."""

LOG_PAGES = 4000
"""The commit that finds this many pages (16 MiB) in the log moves them into the file: by the writer alone, between
transactions. Measured on writes of a run with 150 terms: SQLite's own 1,000 pages make every hundredth wait 12 ms, 4000
every four hundredth 24 ms, and the average is 8% better."""

LOG_LIMIT_BYTES = 64 << 20
"""What the log's file is cut to when it starts anew; only a long read lets it grow so far."""

PATIENCE_MS = 250
"""Only a tool of somebody else's can hold a lock against us; a writer waits this long for it and no longer."""

_SECRET_BYTES = 32


class Opened(NamedTuple):
    """What a start leaves open: the writer's connection, descriptors of the lock and the file, and the secret."""

    connection: sqlite3.Connection
    lock: int
    file: int
    secret: bytes


def open_writer(path: str, migrations: Sequence[Migration], now_us: int) -> Opened:
    """Locks, looks, creates or migrates, and returns what the writer needs. Every error is a StartError.

    Runs whole on the thread that keeps the connection. `path` is absolute and free of symbolic links, so that two
    names of one file meet at one lock.
    """
    with refusals(path), locked(path) as lock:
        if is_absent(path):
            _create(path)
        pending = migrations[_inspect(path, migrations) :]
        connection = connect(path, read_only=False)
        try:
            migrate.apply(connection, pending, now_us)
            connection.execute("PRAGMA foreign_keys = ON")
            secret = _secret(connection, path)
            return Opened(connection, lock, os.open(path, os.O_RDWR | os.O_CLOEXEC), secret)
        except BaseException:
            connection.close()
            raise


def connect(path: str, *, read_only: bool) -> sqlite3.Connection:
    """Opens one connection to an existing database and sets what must be set on each.

    `mode=ro` and not `query_only` alone: a reader's descriptor then cannot write, so that not even a bug lets a second
    connection checkpoint. Cache and `mmap_size` stay SQLite's: 2 to 32 MiB and a mapped file made no difference on a
    database of 509 MiB, and a mapping turns a disk's error into a dead process.
    """
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(_uri(path, f"mode={mode}"), uri=True, isolation_level=None, cached_statements=256)
    # Sorting must not spill what people said into files that nobody erases.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA busy_timeout = {PATIENCE_MS}")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
        return connection
    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise DatabaseUnwritable(path, "its file system cannot hold a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
    # A lock taken and given back tells a file that is read-only now from one that will be at the first write.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")
    return connection


def open_beside(path: str, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """Opens a database to read it, beside a daemon that may be at work on it; every error is a StartError.

    Without a log and its index nobody is at work, and the file is opened as it is, so that reading it leaves no file
    behind. With a log it must be read through it: that may hold what a killed daemon acknowledged last. Where its index
    is missing, SQLite makes it; it is left there, because a daemon that has just started may be using it.
    """
    with refusals(path):
        if is_absent(path):
            raise SettingWrong("MEMSVC_DATABASE", f"there is no database at {path}")
        connection = (
            connect(path, read_only=True)
            if _has_log(path) or os.path.exists(f"{path}-shm")
            else sqlite3.connect(_uri(path, "mode=ro&immutable=1"), uri=True, isolation_level=None)
        )
        try:
            migrate.check(connection, path, migrations)
        except BaseException:
            connection.close()
            raise
        return connection


def _has_log(path: str) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:  # never made, or taken away this moment by a daemon that stops
        return False


def _uri(path: str, options: str) -> str:
    return f"file:{quote(os.fsencode(path))}?{options}"


@contextmanager
def refusals(path: str) -> Iterator[None]:
    """The one place where what the system and SQLite say at a start becomes a line for a person."""
    try:
        yield
    except OSError as error:
        raise DatabaseUnwritable(path, error.strerror or "the system refused") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DatabaseCorrupt(path, str(error)) from error
        if code == sqlite3.SQLITE_BUSY:
            raise DatabaseLocked(path) from error
        if code in (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
        ):
            raise DatabaseUnwritable(path, str(error)) from error
        raise


@contextmanager
def locked(path: str) -> Iterator[int]:
    """Takes the lock beside the database for good; when the body fails, lets go and removes it if it is new.

    The system lets go of it when the process dies, however it dies. A file that was unlinked between our opening and
    locking it locks nothing, hence the second look.
    """
    name = f"{path}.lock"
    while True:
        is_new = not os.path.exists(name)
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(lock, name):
                break
        except BlockingIOError as error:
            os.close(lock)
            raise DatabaseLocked(path) from error
        os.close(lock)
    try:
        yield lock
    except BaseException:
        if is_new:
            os.unlink(name)
        os.close(lock)
        raise


def _is_same_file(descriptor: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(name))
    except FileNotFoundError:
        return False


def is_absent(path: str) -> bool:
    """Tells a path to create (missing, or an empty file) from a database of ours; whatever else is there is refused."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise DatabaseUnwritable(path, "it is no regular file")
    if status is None or status.st_size == 0:
        # SQLite would replay an orphaned log into whatever new file it finds beside it.
        for orphan in (f"{path}-wal", f"{path}-journal"):
            if os.path.exists(orphan):
                raise DatabaseCorrupt(path, f"it is missing or empty, but {orphan} is there")
        return True
    with open(path, "rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise DatabaseForeign(path, "not an SQLite file")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise DatabaseForeign(path, "its application_id is not ours")
    return False


def _create(path: str) -> None:
    """Makes an empty database of ours, in one step for whoever looks: the file is there and ours, or not there.

    Built under another name, so that a crash never leaves a file which the next start would take for a foreign one.
    """
    draft = f"{path}.new"
    for leftover in (draft, f"{draft}-journal", f"{draft}-wal", f"{draft}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(leftover)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(_uri(draft, "mode=rw"), uri=True, isolation_level=None)
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    os.replace(draft, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _inspect(path: str, migrations: Sequence[Migration]) -> int:
    """Returns how many migrations are applied; DatabaseCorrupt, DatabaseTooNew or MigrationChanged else.

    Without a log the file is opened as immutable: SQLite then makes no file and takes no lock. With one (after a
    crash) it must be read through its index `-shm`, which is put back as it was.
    """
    is_small = os.stat(path).st_size <= FULL_CHECK_BYTES
    if is_small:
        _read_through(path)
    index, has_log = Path(f"{path}-shm"), _has_log(path)
    before = index.read_bytes() if has_log and index.exists() else None
    connection = sqlite3.connect(
        _uri(path, "mode=ro" if has_log else "mode=ro&immutable=1"), uri=True, isolation_level=None
    )
    try:
        _look_for_damage(connection, path, whole=is_small)
        return migrate.check(connection, path, migrations)
    finally:
        connection.close()
        if before is not None:
            index.write_bytes(before)
        elif has_log:
            index.unlink(missing_ok=True)


def _look_for_damage(connection: sqlite3.Connection, path: str, *, whole: bool) -> None:
    """A whole check, or (of a large file) of its size, its schema and the way to the first row of each table.

    A start must not take minutes because memory has grown old, and a crash is no reason to doubt a file: its log
    sees to that. Who doubts a large file runs `PRAGMA quick_check` on it while the daemon is down.
    """
    if whole:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise DatabaseCorrupt(path, verdict[:200])
        return
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for (table,) in tables:
        quoted = '"' + table.replace('"', '""') + '"'
        connection.execute(f"SELECT * FROM {quoted} LIMIT 1").fetchone()


def _read_through(path: str) -> None:
    """Brings a file into memory in the order of the disk; the check then walks it in the order of its trees."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def _secret(connection: sqlite3.Connection, path: str) -> bytes:
    """Returns the database's secret and draws it when the database is new.

    One that lost its secret is damaged: with another, no thread id and no tombstone of it would hold any more.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        row = connection.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone()
        if row is None:
            if connection.execute("SELECT 1 FROM scopes").fetchone():
                raise DatabaseCorrupt(path, "its secret is gone")
            row = (secrets.token_bytes(_SECRET_BYTES),)
            connection.execute("INSERT INTO meta (name, value) VALUES ('secret', ?)", row)
        connection.execute("COMMIT")
        return bytes(row[0])
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
