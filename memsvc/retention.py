"""What is older than a scope may keep is deleted, as a person would delete it: hidden, taken out, gone from the files.

A run's age counts from its recording by this daemon's clock and not from `end_time`, which callers choose. A thread is
gone through once its oldest run is a day over its time, so that a summary which covered deleted runs is made anew once
a day and not with every run that comes of age.

What is deleted is gone for good, so the clock alone does not decide: retention goes by the time that the database has
seen, which follows the clock while this moves as time does (rules/seentime.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from memsvc.config import Settings
from memsvc.errors import MemsvcError
from memsvc.model import Scope
from memsvc.rules.seentime import SeenTime
from memsvc.store import Store

PAUSE_S = 3600.0
DAY_US = 86_400_000_000

log = structlog.get_logger()


async def keep(
    store: Store,
    settings: Settings,
    now_us: Callable[[], int],
    shortened: Callable[[Scope, str], None],
    doubted: Callable[[bool], None],
) -> None:
    """Deletes what has come of age, at once and then every hour, until it is cancelled.

    `shortened` is told of each thread that lost runs, `doubted` after each look whether the clock `now_us` is doubted.
    What cannot be deleted now (a full disk) is, an hour later.
    """
    awake_s = asyncio.get_running_loop().time
    looked_s, doubts = awake_s(), False
    while True:
        try:
            look_s = awake_s()
            seen = await store.look_at_clock(now_us(), round((look_s - looked_s) * 1_000_000))
            looked_s = look_s
            if doubts != (doubts := seen.doubted_us is not None):
                _tell(seen)
            doubted(doubts)
            threads = await expire(store, settings, seen.retained_us, shortened)
            if threads:
                log.info("expired", threads=threads)
        except MemsvcError as error:
            log.error("retention_failed", reason=error.reason)
        await asyncio.sleep(PAUSE_S)


def _tell(seen: SeenTime) -> None:
    """Says that the clock is doubted from now on, or is believed again."""
    if seen.doubted_us is None:
        log.info("clock_believed")
        return
    log.warning(
        "clock_doubted",
        ahead_s=(seen.clock_us - seen.believed_us) // 1_000_000,
        effect="what is too old by this clock alone is kept until the clock has gone on evenly for three days",
    )


async def expire(store: Store, settings: Settings, now_us: int, shortened: Callable[[Scope, str], None]) -> int:
    """Goes through all scopes once; returns how many threads lost runs. DiskFull, Unavailable."""
    threads = 0
    for scope in await store.scopes():
        days = settings.limit_of(scope.tenant_id, scope.agent_id).retention_days
        if days is None:
            continue
        for thread_id in await store.aged_threads(scope, now_us - (days + 1) * DAY_US):
            while await store.expire(scope, thread_id, now_us - days * DAY_US):
                pass
            shortened(scope, thread_id)
            threads += 1
    return threads
