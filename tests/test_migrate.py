"""Migrations: split as SQLite splits, applied whole or not at all, and never changed behind a database's back."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

import pytest

from memsvc.errors import DatabaseTooNew, MigrationChanged, StartError
from memsvc.store.sqlite import migrate
from memsvc.store.sqlite.migrate import Migration


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    yield opened
    opened.close()


def migration(number: int, sql: str, name: str = "step") -> Migration:
    return migrate.read(f"{number:04}_{name}.sql", sql.encode())


FIRST = migration(1, "CREATE TABLE a (n INTEGER PRIMARY KEY);")
SECOND = migration(2, "CREATE TABLE b (n INTEGER REFERENCES a); INSERT INTO a VALUES (7);")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        ("  \n", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1;"]),
        ("SELECT 1;\n\nSELECT 2;\n", ["SELECT 1;", "SELECT 2;"]),
        ("SELECT ';';SELECT 2", ["SELECT ';';", "SELECT 2"]),
        ('SELECT ";""; ";SELECT 2;', ['SELECT ";""; ";', "SELECT 2;"]),
        ("-- one; two\nSELECT 1; -- three;\nSELECT 2;", ["-- one; two\nSELECT 1;", "-- three;\nSELECT 2;"]),
        ("/* a; b */ SELECT 1;", ["/* a; b */ SELECT 1;"]),
        (
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; DELETE FROM c; END; SELECT 1;",
            ["CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; DELETE FROM c; END;", "SELECT 1;"],
        ),
    ],
)
def test_a_script_is_split_where_a_statement_ends(script: str, expected: list[str]) -> None:
    assert list(migrate.statements(script)) == expected


def test_a_comment_after_the_last_statement_is_no_error(connection: sqlite3.Connection) -> None:
    migrate.apply(connection, [migration(1, "CREATE TABLE a (n); -- the end;\n/* really; */")], 5)
    assert connection.execute("SELECT count(*) FROM a").fetchone() == (0,)


@pytest.mark.parametrize("name", ["1_a.sql", "0001-a.sql", "0001_A.sql", "0001_.sql", "0001_a.txt", "x0001_a.sql"])
def test_a_file_with_another_name_is_an_error_and_not_ignored(name: str) -> None:
    with pytest.raises(ValueError, match="NNNN_name"):
        migrate.read(name, b"")


def test_the_shipped_migrations_are_numbered_without_a_gap_and_apply(connection: sqlite3.Connection) -> None:
    shipped = migrate.shipped()
    assert [m.number for m in shipped] == list(range(1, len(shipped) + 1))
    assert shipped[0].sha256 == hashlib.sha256(shipped[0].sql.encode()).hexdigest()
    migrate.apply(connection, shipped, 5)
    assert migrate.check(connection, "x", shipped) == len(shipped)


def test_each_migration_leaves_a_row_with_the_time_given(connection: sqlite3.Connection) -> None:
    migrate.apply(connection, [FIRST], 5)
    migrate.apply(connection, [SECOND], 6)
    assert connection.execute("SELECT * FROM migrations").fetchall() == [
        (1, "step", FIRST.sha256, 5),
        (2, "step", SECOND.sha256, 6),
    ]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("CREATE TABLE c (n); SELECT nonsense;", sqlite3.OperationalError),
        ("CREATE TABLE c (n); INSERT INTO a VALUES (1), (1);", sqlite3.IntegrityError),
        ("CREATE TABLE c (n INTEGER REFERENCES a); INSERT INTO c VALUES (99);", sqlite3.IntegrityError),
        ("CREATE TABLE c (n); SELECT 'unfinished", sqlite3.OperationalError),
    ],
)
def test_a_migration_that_fails_leaves_no_trace_and_those_before_it_stay(
    connection: sqlite3.Connection, sql: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        migrate.apply(connection, [FIRST, migration(2, sql)], 5)
    assert not connection.in_transaction
    assert connection.execute("SELECT number FROM migrations").fetchall() == [(1,)]
    assert connection.execute("SELECT name FROM sqlite_schema WHERE name = 'c'").fetchall() == []


@pytest.mark.parametrize(
    ("known", "error", "words"),
    [
        ([FIRST], DatabaseTooNew, "0002_step"),
        ([], DatabaseTooNew, "0001_step"),
        ([FIRST, migration(2, "SELECT 1;")], MigrationChanged, "0002_step has another content"),
        ([migration(1, "SELECT 1;"), SECOND], MigrationChanged, "0001_step has another content"),
        ([FIRST, migration(2, SECOND.sql, "other")], MigrationChanged, "0002_step is not in this build"),
    ],
)
def test_another_history_is_refused_and_named(
    connection: sqlite3.Connection, known: list[Migration], error: type[StartError], words: str
) -> None:
    migrate.apply(connection, [FIRST, SECOND], 5)
    with pytest.raises(error) as caught:
        migrate.check(connection, "/data/x.db", known)
    assert words in caught.value.message
    assert "/data/x.db" in caught.value.message


def test_a_hole_in_the_history_is_refused(connection: sqlite3.Connection) -> None:
    third = migration(3, "SELECT 1;")
    migrate.apply(connection, [FIRST, third], 5)
    with pytest.raises(MigrationChanged, match="0002_step was not applied"):
        migrate.check(connection, "x", [FIRST, SECOND, third])


def test_what_is_not_applied_yet_is_counted(connection: sqlite3.Connection) -> None:
    assert migrate.check(connection, "x", [FIRST, SECOND]) == 0
    migrate.apply(connection, [FIRST], 5)
    assert migrate.check(connection, "x", [FIRST, SECOND]) == 1
