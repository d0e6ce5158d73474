"""kill -9, again and again on one file: what was acknowledged is there, whole and once."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

from memsvc.store.sqlite.db import Database

ROOT = Path(__file__).resolve().parents[2]


async def test_what_was_acknowledged_survives_kill_9_whole_and_once(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    database = await Database.open(path)
    await database.write(lambda c: c.execute("CREATE TABLE written (n INTEGER, half TEXT, words TEXT)") and None)
    await database.close()
    acknowledged: set[int] = set()
    for round_no in range(4):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.writer", str(path), str(round_no * 1_000_000)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        for _ in range(1 + round_no * 61):
            acknowledged.add(int(await child.stdout.readline()))
        child.send_signal(signal.SIGKILL)
        rest = await child.stdout.read()
        acknowledged.update(int(n) for n in re.findall(rb"(\d+)\n", rest))
        await child.wait()

        database = await Database.open(path)
        rows = await database.read(lambda c: c.execute("SELECT n, half FROM written").fetchall())
        await database.close()
        assert len(rows) == len(set(rows))
        assert {n for n, half in rows if half == "a"} == {n for n, half in rows if half == "b"}
        assert acknowledged <= {n for n, _ in rows}
    assert len(acknowledged) > 100
