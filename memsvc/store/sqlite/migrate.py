"""Schema by numbered files, each applied once, whole, and for ever: a migration and its row in `migrations` are one
transaction, and a file that has been applied is never edited. Whoever runs another history than the files tell is
refused rather than guessed at.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import NamedTuple

from memsvc.errors import DatabaseTooNew, MigrationChanged

_FILE_NAME = re.compile(r"([0-9]{4})_([a-z0-9_]+)\.sql")

_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    sha256     TEXT    NOT NULL,
    applied_us INTEGER NOT NULL
) STRICT
"""


class Migration(NamedTuple):
    """One file; `sha256` is over its bytes, in hex."""

    number: int
    name: str
    sql: str
    sha256: str

    @property
    def label(self) -> str:
        """As the file is called, without its ending."""
        return f"{self.number:04}_{self.name}"


def read(file_name: str, content: bytes) -> Migration:
    """Makes a migration of a file `NNNN_name.sql`. ValueError for another name: a file that nobody runs is a trap."""
    match = _FILE_NAME.fullmatch(file_name)
    if match is None:
        raise ValueError(f"{file_name}: a migration is called NNNN_name.sql, in lower case")
    sha256 = hashlib.sha256(content).hexdigest()
    return Migration(int(match[1]), match[2], content.decode(), sha256)


def shipped() -> list[Migration]:
    """Returns the migrations of this build in order. ValueError when their numbers are not 1, 2, 3 …"""
    folder = resources.files(__package__).joinpath("migrations")
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    found = sorted(read(file.name, file.read_bytes()) for file in files)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are numbered from 0001 without a gap: two have one number, or one is missing")
    return found


def check(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration]) -> int:
    """Returns how many of `migrations` are applied; reads only. `path` is for the errors.

    DatabaseTooNew when the database knows more of them, MigrationChanged when it knows others.
    """
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone():
        return 0
    applied = connection.execute("SELECT number, name, sha256 FROM migrations ORDER BY number").fetchall()
    for index, (number, name, sha256) in enumerate(applied):
        label = f"{number:04}_{name}"
        if number > len(migrations):
            raise DatabaseTooNew(path, label)
        expected = migrations[index]
        if number != expected.number:
            raise MigrationChanged(path, expected.label, "was not applied, but later ones were")
        if name != expected.name:
            raise MigrationChanged(path, label, "is not in this build")
        if sha256 != expected.sha256:
            raise MigrationChanged(path, label, "has another content in this build")
    return len(applied)


def apply(connection: sqlite3.Connection, pending: Sequence[Migration], now_us: int) -> None:
    """Applies migrations in order, each in one transaction with its row; `now_us` is written beside them.

    Expects a writer outside a transaction and with `foreign_keys` off, as SQLite's own recipe for rebuilding a table
    wants it; references are checked before the commit instead. On any error the migration at hand leaves no trace and
    those before it stay.
    """
    for migration in pending:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(_TABLE)
            for statement in statements(migration.sql):
                connection.execute(statement)
            broken = connection.execute("PRAGMA foreign_key_check").fetchone()
            if broken is not None:
                raise sqlite3.IntegrityError(f"{migration.label} leaves table {broken[0]} with a dangling reference")
            row = (migration.number, migration.name, migration.sha256, now_us)
            connection.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", row)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def statements(script: str) -> Iterator[str]:
    """Splits a script where SQLite itself sees a statement end: not within strings, comments or trigger bodies.

    `executescript` would do it too, but commits first, and a migration must be all or nothing.
    """
    statement = ""
    for piece in re.split("(?<=;)", script):
        statement += piece
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if statement.strip():
        yield statement.strip()
