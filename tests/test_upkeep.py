"""The database file looked after by commands: verified, copied beside a daemon that records, put back."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.__main__ import main
from memsvc.store import verify_database
from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Running, Start
from tests.fakes.provider import FakeProvider
from tests.talk import Talk
from tests.test_export import exported, of_type
from tests.test_import import full

Run = Callable[..., tuple[int, str, str]]


def runs(data: bytes) -> list[str]:
    return [run["run_id"] for run in of_type(data, "run")]


def listed(folder: Path, part: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if part in path.name)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command on a database of the test's own; returns exit status, output and complaint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMSVC_DATABASE", str(tmp_path / "memsvc.db"))

    def command(*arguments: str) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return command


async def test_a_backup_taken_while_runs_are_recorded_is_whole_and_holds_all_that_was_acknowledged(
    running: Running, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    talk = Talk(running, scope)
    await talk.turns(*[f"第{n}问" for n in range(5)])
    going = True

    async def record() -> None:
        while going:
            await talk.record("und noch eins", "x" * 2_000)

    recording = asyncio.create_task(record())
    for number in range(3):
        before = list(talk.run_ids)
        code, out, err = await asyncio.to_thread(run, "backup", f"backup-{number}.db")
        assert (code, err) == (0, "")
        assert "verified, 1 scopes, 1 threads" in out
        copy = tmp_path / f"backup-{number}.db"
        with closing(sqlite3.connect(copy)) as db:
            kept = {run_id for (run_id,) in db.execute("SELECT run_id FROM runs")}
            assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert set(before) <= kept
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    going = False
    await recording
    assert not listed(tmp_path, ".part")
    code, out, _ = await asyncio.to_thread(run, "verify")
    assert code == 0, out


async def test_a_backup_is_restored_and_served_and_what_stood_there_is_kept(
    start: Start, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    async with FakeProvider() as cloud:
        running, talk, _ = await full(start, scope, cloud)
        first = await exported(running, scope)
        assert (await asyncio.to_thread(run, "backup", "copy.db"))[0] == 0
        await talk.record("later", thread_id="")
        code, _, err = await asyncio.to_thread(run, "restore", "copy.db")
        assert (code, err.split(" ")[2:5]) == (75, ["is", "in", "use"])
        later = await exported(running, scope)
        await start.stop()  # type: ignore[attr-defined]
        assert (await asyncio.to_thread(run, "backup", "stopped.db"))[0] == 0
        code, out, err = await asyncio.to_thread(run, "restore", "copy.db")
        assert (code, err) == (0, "")
        (aside,) = listed(tmp_path, ".replaced-")
        assert aside.name in out
        assert runs(await exported(await start(), scope)) == runs(first)
        await start.stop()  # type: ignore[attr-defined]
        assert runs(await exported(await start(database=aside), scope)) == runs(later)


def test_a_backup_overwrites_nothing_unless_told_and_never_the_database(run: Run, tmp_path: Path) -> None:
    assert run("export-core", "--tenant", "t", "--agent", "a")[0] == 78
    (tmp_path / "file").write_text('{"facts": ["用户住在杭州"]}')
    assert run("import-core", "--tenant", "t", "--agent", "a", "file")[0] == 0
    assert run("backup", "memsvc.db")[0] == 73
    assert run("backup", "--force", "memsvc.db")[0] == 73
    assert run("restore", "memsvc.db")[0] == 73
    assert run("backup", "copy.db")[0] == 0
    code, _, err = run("backup", "copy.db")
    assert (code, "it exists" in err) == (73, True)
    assert run("backup", "--force", "copy.db")[0] == 0
    assert run("backup", "nowhere/copy.db")[0] == 73
    assert run("restore", "missing.db")[0] != 0
    (tmp_path / "foreign.db").write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    assert run("restore", "foreign.db")[0] == 65
    assert run("verify")[0] == 0


async def test_a_damaged_backup_is_refused_and_the_database_stays(
    start: Start, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    talk = Talk(await start(), scope)
    await talk.turns("一", "二", "三", "四")
    await start.stop()  # type: ignore[attr-defined]
    assert run("backup", "copy.db")[0] == 0
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
        db.execute("UPDATE threads SET folded_count = 1")
        db.commit()
    before = (tmp_path / "memsvc.db").read_bytes()
    code, _, err = run("restore", "copy.db")
    assert (code, "its summary covers other runs" in err) == (65, True)
    assert (tmp_path / "memsvc.db").read_bytes() == before
    assert listed(tmp_path, ".part") == listed(tmp_path, ".replaced") == []
    with closing(sqlite3.connect(tmp_path / "memsvc.db")) as db:
        db.execute("UPDATE threads SET folded_count = 1")
        db.commit()
    code, _, err = run("backup", "another.db")
    assert code == 65
    assert not (tmp_path / "another.db").exists()


HARM: tuple[tuple[str, str], ...] = (
    ("UPDATE threads SET run_count = run_count + 1", "its count of runs is"),
    ("UPDATE threads SET last_sequence = last_sequence + 1", "its latest run is another"),
    ("UPDATE threads SET folded_upto = folded_upto + 1", "its summary covers other runs than it counts"),
    ("UPDATE threads SET summary = ''", "a cursor without a summary"),
    ("UPDATE threads SET draft = 'x'", "a draft without its place"),
    ("UPDATE checkpoints SET folded_count = folded_count + 1", "an earlier summary covers"),
    ("DELETE FROM recall_entries WHERE entry_no = 2", "it is completed and not in the index"),
    ("DELETE FROM recall_entries WHERE entry_no = 2", "the index counts"),
    ("UPDATE runs SET outcome = 2 WHERE sequence = 2", "without a completed run"),
    ("UPDATE runs SET input = 'zebra', output = 'giraffe' WHERE sequence = 1", "is not of its words"),
    ("UPDATE recall_pages SET size = size + 1", "holds something else than it says"),
    ("UPDATE recall_pages SET first = first + 1", "holds something else than it says"),
    ("UPDATE recall_levels SET size = size + 1", "of the index counts"),
    ("UPDATE recall_scopes SET waiting = waiting + 1", "as waiting"),
    (
        "DELETE FROM recall_pages WHERE page_no = (SELECT max(page_no) FROM recall_pages)",
        "stand on the pages of the index",
    ),
    ("DELETE FROM scopes", "refers to nothing in table scopes"),
    ("DROP INDEX runs_by_thread", ""),
)


async def test_verify_names_what_is_wrong_in_a_line_without_a_word_that_was_said(
    start: Start, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    talk = Talk(await start(), scope)
    for number in range(8):
        words = " ".join(f"zqneedle{number * 1_000 + k}" for k in range(650))
        await talk.record(f"{number} 饕餮", words)
    for number in range(30):
        await talk.record(f"{number}", " ".join(f"w{number * 900 + k}" for k in range(600)))
    await talk.running.settle()
    await start.stop()  # type: ignore[attr-defined]
    database = tmp_path / "memsvc.db"
    code, out, _ = run("verify")
    assert (code, out) == (0, f"{database}: verified, 1 scopes, 1 threads, 38 runs, schema {_schema(database)}\n")
    for statement, told in HARM:
        harmed = tmp_path / "harmed.db"
        shutil.copyfile(database, harmed)
        with closing(sqlite3.connect(harmed)) as db:
            db.execute(statement)
            db.commit()
        code, out, err = run("verify", str(harmed))
        assert (code, told in out, err) == (1 if told else 0, True, ""), (statement, out)
        assert "zqneedle" not in out
        assert "饕餮" not in out


def _schema(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM migrations").fetchone()[0])


async def test_a_torn_page_is_found(start: Start, scope: pb.Scope, run: Run, tmp_path: Path) -> None:
    talk = Talk(await start(), scope)
    for number in range(30):
        await talk.record(f"{number}", "x" * 9_000)
    await start.stop()  # type: ignore[attr-defined]
    content = bytearray((tmp_path / "memsvc.db").read_bytes())
    content[-40_000:-20_000] = b"\xff" * 20_000
    (tmp_path / "torn.db").write_bytes(content)
    code, out, _ = run("verify", "torn.db")
    assert code == 1
    assert "damage" in out
    assert verify_database(tmp_path / "memsvc.db").findings == []


async def test_a_scope_goes_out_of_one_daemon_and_into_another_by_commands(
    start: Start, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    names = ("--tenant", scope.tenant_id, "--agent", scope.agent_id, "--user", scope.user_id)
    one = await start()
    await Talk(one, scope).turns("一", "二", "三", "四")
    other = await start(database=tmp_path / "other.db")

    async def command(*arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(run, *arguments)

    assert (await command("export", *names, "--address", one.daemon.address, "scope.jsonl")) == (0, "", "")
    file = tmp_path / "scope.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    code, out, _ = await command("import", *names, "--address", other.daemon.address, "scope.jsonl")
    assert code == 0
    assert out.endswith("imported 1 threads, 4 runs, 0 facts and 0 candidates that were not there\n")
    assert await exported(other, scope) == file.read_bytes()
    code, out, _ = await command("export", *names, "--address", other.daemon.address, "-")
    assert out.encode().endswith(file.read_bytes())
    code, _, err = await command("import", *names[:2], "--agent", "b", "--address", one.daemon.address, "scope.jsonl")
    assert (code, err.startswith("memsvc: INVALID_ARGUMENT: line 2: thread_id belongs")) == (1, True)
    code, _, err = await command("export", *names, "--address", "127.0.0.1:1", "none.jsonl")
    assert (code, err.startswith("memsvc: no daemon answers at 127.0.0.1:1;")) == (69, True)
    assert not (tmp_path / "none.jsonl").exists()
    code, _, err = await command("import", *names, "--address", one.daemon.address, "missing.jsonl")
    assert (code, "cannot be read" in err) == (1, True)
