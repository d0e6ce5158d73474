"""Power that goes: an answer waits for the disk, and no disk that a power loss may leave has lost what was answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Running
from tests.faults.power import (
    FOLDER,
    LOG,
    Kind,
    answered,
    losing_images,
    record,
    unsynced_answers,
    why_not,
    without_syncs,
)

RUNS, IMAGES = 40, 40
FULL = 2


async def test_every_commit_of_the_writer_waits_for_the_disk(running: Running) -> None:
    store: Any = running.daemon.store
    assert await store._db.write(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (FULL,)
    assert await store._db.write(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)


async def test_no_run_is_answered_before_the_disk_has_it_and_no_power_loss_takes_it_away(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(f"NOT SHOWN that a commit is synced before it is answered: {reason}")
    recording = await record(tmp_path, RUNS, seed=1)
    assert answered(recording.events) == recording.sent.keys()
    assert unsynced_answers(recording) == []
    made = next(event for event in recording.started if event.kind is Kind.CREATE and event.file == LOG)
    # A log whose name is not in the folder would be lost whole.
    assert any(e.kind is Kind.SYNC and e.file == FOLDER and made.done < e.begun for e in recording.started)
    assert losing_images(recording, IMAGES, seed=1, folder=tmp_path) == []

    careless = without_syncs(recording, LOG)
    assert len(unsynced_answers(careless)) == len(recording.sent)
    assert losing_images(careless, IMAGES, seed=1, folder=tmp_path), "no image shows what syncing is for"
