"""The time that retention goes by: it follows a clock that moves as time does, and any other only after some days."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from memsvc import retention
from memsvc.config import Settings
from memsvc.model import ThreadState
from memsvc.rules.seentime import PROOF_US, SLACK_US, SeenTime, look
from memsvc.store import Page
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import RENDERER, SCOPE
from tests.test_deletion import record
from tests.units import opened

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
YEAR_US = 365 * DAY_US
T = 2_000 * DAY_US
"""Where the tables begin."""


def after(*looks: tuple[int, int], seen: SeenTime | None = None) -> SeenTime:
    """What is known after looks, given as how far the clock moved and how long the daemon was awake, in hours."""
    seen = seen or SeenTime(T, T)
    clock_us = seen.clock_us
    for moved, awake in looks:
        clock_us += moved * HOUR_US
        seen = look(seen, clock_us, awake * HOUR_US)
    return seen


HOURLY = (1, 1)
JUMP = (20_000, 1)
BACK = (-19_998, 1)

ROWS: list[tuple[str, list[tuple[int, int]], int, bool]] = [
    # What happened; looks; the time that retention goes by then, in hours from the beginning; whether it doubts.
    ("an hour passes", [HOURLY], 1, False),
    ("off for a night", [(12, 0)], 12, False),
    ("asleep for a night, in one life", [(12, 1)], 12, False),
    ("a little back", [(-2, 0)], -2, False),
    ("years ahead", [JUMP], 1, True),
    ("years ahead at a start", [(20_000, 0)], 0, True),
    ("years ahead, and goes on for less than three days", [JUMP, *[HOURLY] * 71], 72, True),
    ("years ahead, and goes on for three days", [JUMP, *[HOURLY] * 72], 20_072, False),
    ("the same with starts in between", [JUMP, *[(1, 0)] * 71], 1, True),
    ("the same with starts in between, for three days", [JUMP, *[(1, 0)] * 72], 20_072, False),
    ("started again and again in one minute", [JUMP, *[(0, 0)] * 500], 1, True),
    ("years ahead, and stands still", [JUMP, *[(0, 1)] * 500], 501, True),
    ("years ahead, and comes back", [JUMP, HOURLY, BACK], 3, False),
    ("years ahead, comes back, and jumps again", [JUMP, *[HOURLY] * 71, BACK, JUMP, *[HOURLY] * 71], 145, True),
    ("years ahead, and further soon after", [JUMP, *[HOURLY] * 71, JUMP, HOURLY], 20_097, True),
    ("off for three months", [(2_160, 0)], 0, True),
    ("off for three months, and on for three days", [(2_160, 0), *[HOURLY] * 72], 2_232, False),
    ("years back", [(-20_000, 1)], -20_000, True),
    ("years back, and comes back", [(-20_000, 1), HOURLY, (20_002, 1)], 3, False),
    ("years back, and goes on for three days", [(-20_000, 1), *[HOURLY] * 72], -20_000 + 72, False),
    ("years back, and from there as far ahead as ever later", [(-20_000, 1), *[HOURLY] * 72, JUMP], -19_927, True),
]


@pytest.mark.parametrize(("looks", "hours", "doubted"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_time_follows_a_clock_that_moves_as_time_does(
    looks: list[tuple[int, int]], hours: int, doubted: bool
) -> None:
    seen = after(*looks)
    assert ((seen.retained_us - T) // HOUR_US, seen.doubted_us is not None) == (hours, doubted)


def test_of_a_clock_that_jumps_on_while_it_is_doubted_only_what_was_gone_through_is_believed() -> None:
    # A clock that was honestly ahead by ten days, almost proven, and then years ahead at a start.
    seen = after((240, 0), *[HOURLY] * 71)
    assert seen.retained_us == T + 71 * HOUR_US
    seen = after((50_000, 0), seen=seen)
    assert seen.retained_us == T + (240 + 71 + 24) * HOUR_US
    assert seen.doubted_us is not None
    assert after(*[HOURLY] * 71, seen=seen).doubted_us is not None


gaps = st.integers(0, 40 * DAY_US) | st.integers(0, 2 * HOUR_US)
schedules = st.lists(st.tuples(gaps, st.booleans()), max_size=60)
"""How long it is until the next look, and whether the daemon was awake all the time or is started for it."""
jumps = st.integers(SLACK_US + 1, 100 * YEAR_US)


@given(schedules, jumps)
def test_whatever_the_starts_nothing_is_early_before_a_jump_has_stood_for_three_days(
    schedule: list[tuple[int, bool]], jump_us: int
) -> None:
    seen = look(SeenTime(T, T), T + jump_us, 0)
    true_us = T
    for gap_us, awake in schedule:
        true_us += gap_us
        if true_us - T >= PROOF_US:
            return
        seen = look(seen, true_us + jump_us, gap_us if awake else 0)
        assert seen.retained_us <= true_us


@given(schedules)
def test_of_a_right_clock_no_time_is_believed_that_it_did_not_show(schedule: list[tuple[int, bool]]) -> None:
    seen, clock_us = SeenTime(T, T), T
    for gap_us, awake in schedule:
        clock_us += gap_us
        before = seen
        seen = look(seen, clock_us, gap_us if awake else 0)
        assert before.retained_us <= seen.retained_us <= clock_us
        assert seen.doubted_us is not None or seen.retained_us == clock_us


@given(schedules)
def test_whatever_came_before_three_days_awake_are_enough(schedule: list[tuple[int, bool]]) -> None:
    seen, clock_us = SeenTime(T, T), T
    for gap_us, awake in schedule:
        clock_us += gap_us
        seen = look(seen, clock_us, gap_us if awake else 0)
    # Twice: the first may end what was watched before, and leave what was jumped over to the second.
    for _ in range(2 * PROOF_US // HOUR_US):
        clock_us += HOUR_US
        seen = look(seen, clock_us, HOUR_US)
    assert (seen.retained_us, seen.doubted_us) == (clock_us, None)


@given(st.lists(st.integers(DAY_US, 60 * DAY_US), min_size=6, max_size=30))
def test_a_daemon_that_is_started_now_and_then_for_a_moment_is_some_starts_behind(gaps_us: list[int]) -> None:
    seen = SeenTime(T, T)
    clocks = list(itertools.accumulate(gaps_us, initial=T))
    for number, clock_us in enumerate(clocks[1:], 1):
        seen = look(seen, clock_us, 0)
        if number > 5:
            assert seen.retained_us >= clocks[number - 5]


@given(st.lists(st.tuples(st.integers(-YEAR_US, YEAR_US), st.integers(0, DAY_US)), max_size=60))
def test_retention_never_goes_ahead_of_the_clock(moves: list[tuple[int, int]]) -> None:
    seen = SeenTime(T, T)
    for moved_us, awake_us in moves:
        before, seen = seen, look(seen, seen.clock_us + moved_us, awake_us)
        assert seen.retained_us <= seen.clock_us
        # And what it gains at one look is the time that passed, a day, or what was gone through since it was doubted.
        proven_us = 0 if before.doubted_us is None else before.doubted_us + before.watched_us
        assert seen.retained_us <= max(before.believed_us, proven_us) + awake_us + 2 * SLACK_US


# -- over the store


SETTINGS = Settings.model_validate({"limits": [{"retention_days": 30}]})


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[SqliteStore]:
    """The store of a process of its own."""
    store = SqliteStore(await Database.open(path), RENDERER)
    yield store
    await store.close()


async def kept(store: SqliteStore) -> set[str]:
    """The runs that are there."""
    listed, _ = await store.list_threads(SCOPE, set(ThreadState), "", Page(0, 100))
    pages = [await store.list_runs(SCOPE, thread.thread_id, Page(0, 100), False, 0, 1 << 20) for thread in listed]
    return {run.run_id for runs, _ in pages for run in runs}


async def left(store: SqliteStore, clock_us: int, awake_us: int) -> set[str]:
    """Looks at the clock and deletes, once; returns the runs that are left."""
    seen = await store.look_at_clock(clock_us, awake_us)
    await retention.expire(store, SETTINGS, seen.retained_us, lambda *_: None)
    return await kept(store)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A file whose newest run is of `T`, and which no version with this rule has opened."""
    async with opened(tmp_path / "memsvc.db") as db:
        await record(db, "old", now_us=T - 20 * DAY_US)
        await record(db, "new", now_us=T)
    return tmp_path / "memsvc.db"


async def test_a_clock_that_is_years_ahead_deletes_nothing_whatever_is_recorded_and_started(path: Path) -> None:
    for hour in range(10):
        wrong_us = T + 5 * YEAR_US + hour * HOUR_US
        async with started(path) as store:
            assert {"old", "new"} <= await left(store, wrong_us, 0)
            await record(store._db, f"meanwhile {hour}", now_us=wrong_us)
    async with started(path) as store:
        # The clock is right again, and what is of age by it goes from then on.
        for day in range(1, 13):
            assert ("old" in await left(store, T + day * DAY_US, DAY_US)) == (day < 12)
        assert "new" in await kept(store)


async def test_a_daemon_that_was_off_for_three_months_deletes_what_is_old_three_days_later(path: Path) -> None:
    for half_day in range(7):
        async with started(path) as store:
            there = await left(store, T + 90 * DAY_US + half_day * 12 * HOUR_US, 0)
            assert there == ({"old", "new"} if half_day < 6 else set())


async def test_a_clock_that_steps_back_deletes_nothing_and_what_it_recorded_is_kept_its_days(path: Path) -> None:
    async with started(path) as store:
        assert await left(store, T, 0) == {"old", "new"}
        for hour in range(80):
            assert await left(store, T - 10 * YEAR_US + hour * HOUR_US, HOUR_US) == {"old", "new"}


async def test_a_file_without_runs_believes_the_clock(tmp_path: Path) -> None:
    async with started(tmp_path / "memsvc.db") as store:
        assert await store.look_at_clock(T, 0) == SeenTime(T, T)
        assert (await store.look_at_clock(T + YEAR_US, 0)).doubted_us == T + YEAR_US


async def test_it_is_said_that_the_clock_is_doubted_and_that_it_is_believed_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    clock_us = T
    told: asyncio.Queue[bool] = asyncio.Queue()
    async with started(path) as store:
        with capture_logs() as logs:
            keeping = asyncio.create_task(
                retention.keep(store, SETTINGS, lambda: clock_us, lambda *_: None, told.put_nowait)
            )
            assert await told.get() is False
            clock_us = T + YEAR_US
            while not await told.get():
                pass
            clock_us = T
            while await told.get():
                pass
            keeping.cancel()
            await asyncio.wait([keeping])
        assert await kept(store) == {"old", "new"}
    assert [line["event"] for line in logs] == ["clock_doubted", "clock_believed"]
    # Less what it ran meanwhile.
    assert 0 <= YEAR_US // 1_000_000 - logs[0]["ahead_s"] < 600
