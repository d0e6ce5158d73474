"""What a start refuses it leaves alone: the folder is compared byte for byte, before and after."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.errors import (
    DatabaseCorrupt,
    DatabaseForeign,
    DatabaseLocked,
    DatabaseTooNew,
    DatabaseUnwritable,
    MigrationChanged,
    StartError,
)
from memsvc.store.sqlite import migrate, start
from memsvc.store.sqlite.db import Database
from tests.units import contents, threads_left

ROOT = Path(__file__).resolve().parents[2]


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


async def make(path: Path) -> None:
    """A database of ours with something in it."""
    database = await Database.open(path)
    await database.write(fill)
    await database.close()


def fill(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE extra (n INTEGER, words TEXT)")
    connection.executemany("INSERT INTO extra VALUES (?, ?)", [(n, "x" * 1000) for n in range(200)])


async def check_refused(path: Path, error: type[StartError], words: str, folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(error) as caught:
        await Database.open(path)
    assert contents(folder) == before
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert threads_left() == []


def text_file(path: Path) -> None:
    path.write_text("SQLite is what this file is about. " * 9)


def short_file(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def foreign(path: Path) -> None:
    sql(path, "CREATE TABLE theirs (n)", "INSERT INTO theirs VALUES (1)")


def foreign_with_id(path: Path) -> None:
    sql(path, "PRAGMA application_id = 77", "CREATE TABLE theirs (n)")


def foreign_in_use(path: Path) -> None:
    crash(path, "PRAGMA journal_mode = WAL", "CREATE TABLE theirs (n)")


def orphaned_log(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"somebody's last words")


def empty_with_journal(path: Path) -> None:
    path.touch()
    Path(f"{path}-journal").write_bytes(b"somebody's last words")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("prepare", "error", "words"),
    [
        (text_file, DatabaseForeign, "not an SQLite file"),
        (short_file, DatabaseForeign, "not an SQLite file"),
        (foreign, DatabaseForeign, "application_id"),
        (foreign_with_id, DatabaseForeign, "application_id"),
        (foreign_in_use, DatabaseForeign, "application_id"),
        (orphaned_log, DatabaseCorrupt, "m.db-wal is there"),
        (empty_with_journal, DatabaseCorrupt, "m.db-journal is there"),
        (a_folder, DatabaseUnwritable, "no regular file"),
        (a_pipe, DatabaseUnwritable, "no regular file"),
    ],
)
async def test_what_is_not_ours_is_refused_and_left_alone(
    tmp_path: Path, prepare: Callable[[Path], None], error: type[StartError], words: str
) -> None:
    path = tmp_path / "m.db"
    prepare(path)
    await check_refused(path, error, words, tmp_path)


async def test_a_folder_that_is_missing_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await check_refused(tmp_path / "none" / "m.db", DatabaseUnwritable, "No such file or directory", tmp_path)
    await check_refused(tmp_path / "file" / "m.db", DatabaseUnwritable, "Not a directory", tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it likes")
async def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(0o500)
    await check_refused(folder / "m.db", DatabaseUnwritable, "Permission denied", tmp_path)


def zeroed_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = bytes(4096)
    path.write_bytes(content)


def scribbled_schema(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100:4000] = os.urandom(3900)
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 4096 // 2 * 4096)


def newer(path: Path) -> None:
    sql(path, f"INSERT INTO migrations VALUES ({len(migrate.shipped()) + 1}, 'later', 'ff', 0)")


def changed(path: Path) -> None:
    sql(path, "UPDATE migrations SET sha256 = 'ff' WHERE number = 1")


def secret_lost(path: Path) -> None:
    sql(
        path,
        "DELETE FROM meta WHERE name = 'secret'",
        "INSERT INTO scopes (tenant_id, agent_id, user_id) VALUES ('t', 'a', '')",
    )


OURS_AND_WRONG = [
    (zeroed_page, DatabaseCorrupt, "damaged"),
    (scribbled_schema, DatabaseCorrupt, "damaged"),
    (cut_short, DatabaseCorrupt, "malformed"),
    (newer, DatabaseTooNew, "newer memsvc (migration"),
    (changed, MigrationChanged, "migration 0001_init has another content"),
]


@pytest.mark.parametrize(("damage", "error", "words"), OURS_AND_WRONG)
async def test_what_is_ours_and_wrong_is_refused_and_left_alone(
    tmp_path: Path, damage: Callable[[Path], None], error: type[StartError], words: str
) -> None:
    path = tmp_path / "m.db"
    await make(path)
    damage(path)
    await check_refused(path, error, words, tmp_path)


async def test_a_database_that_lost_its_secret_gets_no_other_one(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await make(path)
    secret_lost(path)
    with pytest.raises(DatabaseCorrupt, match="its secret is gone"):
        await Database.open(path)


def crash(path: Path, *statements: str) -> None:
    """Runs statements in a process that dies before SQLite can tidy up."""
    program = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for statement in sys.argv[2:]: connection.execute(statement)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path), *statements], check=False)


@pytest.mark.parametrize("keep_index", [True, False])
async def test_a_refusal_after_a_crash_keeps_the_log_and_its_index(tmp_path: Path, keep_index: bool) -> None:
    path = tmp_path / "m.db"
    await make(path)
    crash(path, f"INSERT INTO migrations VALUES ({len(migrate.shipped()) + 1}, 'later', 'ff', 0)")
    assert contents(tmp_path)["m.db-wal"]
    if not keep_index:
        os.unlink(f"{path}-shm")
    await check_refused(path, DatabaseTooNew, "later", tmp_path)


async def test_what_a_crash_left_in_the_log_is_there_after_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await make(path)
    crash(path, "INSERT INTO extra VALUES (4711, '')")
    database = await Database.open(path)
    assert await database.read(lambda c: c.execute("SELECT count(*) FROM extra WHERE n = 4711").fetchone()) == (1,)
    await database.close()
    assert sorted(contents(tmp_path)) == ["m.db", "m.db.lock"]


@pytest.mark.parametrize("keep_index", [True, False])
async def test_whoever_reads_beside_sees_what_a_killed_daemon_acknowledged_last(
    tmp_path: Path, keep_index: bool
) -> None:
    path = tmp_path / "m.db"
    await make(path)
    crash(path, "INSERT INTO extra VALUES (4711, '')")
    if not keep_index:
        os.unlink(f"{path}-shm")
    before = contents(tmp_path)
    with closing(start.open_beside(str(path), migrate.shipped())) as connection:
        assert connection.execute("SELECT count(*) FROM extra WHERE n = 4711").fetchone() == (1,)
    after = contents(tmp_path)
    assert [after[name] for name in ("m.db", "m.db-wal")] == [before[name] for name in ("m.db", "m.db-wal")]


async def test_whoever_reads_beside_nobody_leaves_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await make(path)
    before = contents(tmp_path)
    with closing(start.open_beside(str(path), migrate.shipped())) as connection:
        assert connection.execute("SELECT count(*) FROM extra").fetchone() == (200,)
    assert contents(tmp_path) == before


async def test_a_new_database_is_private_ours_and_keeps_its_secret(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    database = await Database.open(path, now_us=5)
    for name in ("m.db", "m.db-wal", "m.db-shm", "m.db.lock"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    secret = database.secret
    assert len(secret) == 32
    rows = await database.read(lambda c: c.execute("SELECT number, applied_us FROM migrations").fetchall())
    assert rows == [(m.number, 5) for m in migrate.shipped()]
    await database.close()
    assert path.read_bytes()[68:72] == b"mems"

    database = await Database.open(path)
    assert database.secret == secret
    await database.close()

    other = await Database.open(tmp_path / "other.db")
    assert other.secret != secret
    await other.close()


async def test_an_empty_file_and_remains_of_a_cut_creation_become_a_database(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    path.touch()
    (tmp_path / "m.db.new").write_bytes(b"half a page")
    (tmp_path / "m.db.new-journal").write_bytes(b"half a journal")
    await make(path)
    assert sorted(contents(tmp_path)) == ["m.db", "m.db.lock"]


async def test_pending_migrations_are_applied_to_a_database_with_data(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await make(path)
    shipped = migrate.shipped()
    further = migrate.read(f"{len(shipped) + 1:04}_further.sql", b"ALTER TABLE extra ADD COLUMN more TEXT;")
    database = await Database.open(path, migrations=[*shipped, further])
    assert await database.read(lambda c: c.execute("SELECT count(*), max(more) FROM extra").fetchone()) == (200, None)
    await database.close()
    await check_refused(path, DatabaseTooNew, "_further", tmp_path)


async def test_a_second_start_on_the_file_is_refused_under_any_name(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    (tmp_path / "link.db").symlink_to(path)
    database = await Database.open(path)
    try:
        for name in (path, tmp_path / "link.db", tmp_path / "." / "m.db"):
            with pytest.raises(DatabaseLocked, match="in use by another memsvc"):
                await Database.open(name)
        program = (
            "import asyncio, sys\n"
            "from memsvc.errors import StartError\n"
            "from memsvc.store.sqlite.db import Database\n"
            "try: asyncio.run(Database.open(sys.argv[1]))\n"
            "except StartError as error: sys.exit(error.exit_status)\n"
        )
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), cwd=ROOT)
        assert await child.wait() == DatabaseLocked.exit_status
        await database.write(fill)
    finally:
        await database.close()
    await (await Database.open(path)).close()


async def test_a_lock_file_that_nobody_holds_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    (tmp_path / "m.db.lock").touch()
    await make(path)
    text_file(path)
    await check_refused(path, DatabaseForeign, "not an SQLite file", tmp_path)


async def test_paths_with_the_signs_of_an_address_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#b%20 记忆.db"
    await make(path)
    assert path.stat().st_size > 0


async def test_a_large_file_gets_the_short_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.db"
    await make(path)
    monkeypatch.setattr(start, "FULL_CHECK_BYTES", 4096)
    await (await Database.open(path)).close()
    cut_short(path)
    await check_refused(path, DatabaseCorrupt, "malformed", tmp_path)


async def test_a_start_that_is_cancelled_leaves_neither_thread_nor_lock(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    for steps in range(12):
        opening = asyncio.ensure_future(Database.open(path))
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert threads_left() == []
    await (await Database.open(path)).close()
