"""Backups and restores that are killed, or meet: a place holds the old database or the new one, whole."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from memsvc.errors import BackupRefused
from memsvc.store import backup_database, verify_database
from memsvc.store.sqlite import backup
from tests.child import ROOT
from tests.test_sweeping import record
from tests.units import opened

KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from memsvc.store import restore_database

def restore(folder, calls):
    # Killed instead of the call of that number to the file system.
    def counted(call):
        def made(*arguments, **named):
            nonlocal calls
            if not calls:
                os.kill(os.getpid(), signal.SIGKILL)
            calls -= 1
            return call(*arguments, **named)
        return made
    for name in ("replace", "rename", "link", "unlink", "fsync", "open", "close"):
        setattr(os, name, counted(getattr(os, name)))
    restore_database(folder.parent / "copy.db", folder / "memsvc.db", 0)

base, calls, ended = Path(sys.argv[1]), 0, 0
while not ended:
    folder = base / str(calls)
    shutil.copytree(base / "place", folder)
    child = os.fork()
    if not child:
        restore(folder, calls)
        os._exit(7)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status) == 7
    assert ended or os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
    calls += 1
"""


async def test_a_restore_that_is_killed_leaves_the_old_database_or_the_new_one(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    async with opened(tmp_path / "memsvc.db") as db:
        await record(db, 1, 0)
        backup_database(tmp_path / "memsvc.db", tmp_path / "copy.db", force=False)
        await record(db, 2, 0)
        # As a kill leaves it: what was recorded stands in the log.
        for name in ("memsvc.db", "memsvc.db-wal"):
            (place / name).write_bytes((tmp_path / name).read_bytes())
    assert (place / "memsvc.db-wal").stat().st_size
    await asyncio.to_thread(every_kill_leaves_one_of_them, tmp_path)


def every_kill_leaves_one_of_them(base: Path) -> None:
    """Kills restores of `copy.db`, with one run, to copies of `place`, with two, each one call later than the last."""
    subprocess.run([sys.executable, "-c", KILLED, str(base)], check=True, cwd=ROOT)
    folders = sorted((f for f in base.iterdir() if f.name.isdigit()), key=lambda folder: int(folder.name))
    found = []
    for folder in folders:
        verified = verify_database(folder / "memsvc.db")
        assert verified.findings == [], folder
        found.append(verified.runs)
    assert set(found) == {1, 2}
    assert found == sorted(found, reverse=True)
    (kept,) = folders[-1].glob("*.replaced-*Z")
    assert verify_database(kept).runs == 2


def test_of_two_backups_to_one_file_the_second_is_refused_and_what_a_killed_one_left_is_taken_over(
    tmp_path: Path,
) -> None:
    target = tmp_path / "copy.db"
    left = tmp_path / "copy.db.part"
    left.write_bytes(b"left by a command that was killed")
    with backup._draft(target) as draft:
        assert draft.read_bytes() == b""
        draft.write_bytes(b"the first")
        with pytest.raises(BackupRefused, match="another command"), backup._draft(target):
            pass
        assert draft.read_bytes() == b"the first"
    assert (target.read_bytes(), left.exists()) == (b"the first", False)
    with backup._draft(target) as draft:
        draft.write_bytes(b"the next")
    assert target.read_bytes() == b"the next"
