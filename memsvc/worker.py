"""The one serialized worker: one job at a time, in order of arrival, and it knows no job.

A job is an id that can be compared and hashed; losing it loses nothing, since what is due stands in the database.
Enqueued again while it waits, it is the same job; enqueued while it runs, it runs once more. A job that fails is tried
again, later and later, and is told of until it succeeds. Nothing is ever reported as done that was not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from memsvc.errors import MemsvcError

J = TypeVar("J", bound=Hashable)

log = structlog.get_logger()


class JobFailed(Exception):  # noqa: N818  the name says it already
    """A job could not be done now. `reason` is one of ours; `retry_after_ms` replaces the worker's own delay.

    `fatal` reasons do not exist: what can never succeed is not due.
    """

    def __init__(self, reason: str, retry_after_ms: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_ms = retry_after_ms


@dataclass(frozen=True, slots=True)
class Failure(Generic[J]):
    """A job that failed and waits: how often, why, and when it is tried next (microseconds since the epoch)."""

    job: J
    reason: str
    attempts: int
    next_attempt_us: int


class Worker(Generic[J]):
    """Runs jobs with `run`, which returns whether more of the same job is due, or raises JobFailed.

    Times are milliseconds; `now_us` is the wall clock, for telling people when.
    """

    def __init__(
        self,
        run: Callable[[J], Awaitable[bool]],
        now_us: Callable[[], int],
        retry_first_ms: int = 1_000,
        retry_max_ms: int = 60_000,
    ) -> None:
        self._run = run
        self._now_us = now_us
        self._retry_first_ms, self._retry_max_ms = retry_first_ms, retry_max_ms
        self._queue: deque[J] = deque()
        self._queued: set[J] = set()
        self._failures: dict[J, Failure[J]] = {}
        self._timers: dict[J, asyncio.TimerHandle] = {}
        self._running: J | None = None
        self._forgotten = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to work, on the running event loop."""
        self._task = asyncio.create_task(self._loop(), name="memsvc-worker")

    def enqueue(self, job: J) -> None:
        """Adds a job behind those that wait. One that waits already, or for its next attempt, stays where it is."""
        if job in self._queued or job in self._timers:
            return
        self._queued.add(job)
        self._queue.append(job)
        self._idle.clear()
        self._wake.set()

    def forget(self, job: J) -> None:
        """Drops a job that can never be due again. One that runs goes on, and is not told of should it fail."""
        if job in self._queued:
            self._queued.discard(job)
            self._queue.remove(job)
        if timer := self._timers.pop(job, None):
            timer.cancel()
        self._failures.pop(job, None)
        self._forgotten |= job == self._running

    def pending(self) -> list[J]:
        """Returns the jobs that wait or run, those that failed and will be tried again included."""
        jobs = dict.fromkeys([*self._queue, *self._failures])
        if self._running is not None:
            jobs.setdefault(self._running)
        return list(jobs)

    def failures(self) -> list[Failure[J]]:
        """Returns the jobs whose last attempt failed."""
        return list(self._failures.values())

    def retry_now(self) -> None:
        """Makes every job that waits for its next attempt due at once."""
        for job in list(self._timers):
            self._timers.pop(job).cancel()
            self.enqueue(job)

    async def join(self) -> None:
        """Returns when nothing waits or runs; jobs that wait for their next attempt are not waited for."""
        await self._idle.wait()

    async def stop(self, grace_ms: int) -> bool:
        """Takes no further job, and gives up the running one after `grace_ms`; returns whether it had finished."""
        self._stopping = True
        for timer in self._timers.values():
            timer.cancel()
        self._wake.set()
        if self._task is None:
            return True
        done, _ = await asyncio.wait([self._task], timeout=grace_ms / 1000)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task])
        return bool(done)

    async def _loop(self) -> None:
        while not self._stopping:
            if not self._queue:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
                continue
            job = self._queue.popleft()
            self._queued.discard(job)
            self._running, self._forgotten = job, False
            try:
                more = await self._run(job)
            except JobFailed as failure:
                self._fail(job, failure.reason, failure.retry_after_ms)
            except MemsvcError as error:
                self._fail(job, error.reason, None)
            except Exception as error:  # noqa: BLE001  the one of the two that guards the jobs
                # One of the two broad excepts of the daemon: a bug in one job must not end the others. Its text could
                # hold content, so the log has the type and the place alone.
                log.error("job_broke", error=type(error).__name__, where=place(error))
                self._fail(job, "INTERNAL", None)
            else:
                self._failures.pop(job, None)
                if more:
                    self.enqueue(job)
            finally:
                self._running = None

    def _fail(self, job: J, reason: str, retry_after_ms: int | None) -> None:
        if self._forgotten:
            return
        attempts = self._failures[job].attempts + 1 if job in self._failures else 1
        delay_ms = min(self._retry_first_ms * 2 ** min(attempts - 1, 30), self._retry_max_ms)
        if retry_after_ms is not None:
            delay_ms = retry_after_ms
        self._failures[job] = Failure(job, reason, attempts, self._now_us() + delay_ms * 1000)
        # It may have been enqueued again while it ran; now it waits like any other that failed.
        if job in self._queued:
            self._queued.discard(job)
            self._queue.remove(job)
        loop = asyncio.get_running_loop()
        self._timers[job] = loop.call_later(delay_ms / 1000, self._due, job)
        log.info("job_failed", reason=reason, attempts=attempts, retry_ms=delay_ms)

    def _due(self, job: J) -> None:
        del self._timers[job]
        self.enqueue(job)


def place(error: BaseException) -> str:
    """Returns the file and line where an error was raised."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}" if trace else ""
