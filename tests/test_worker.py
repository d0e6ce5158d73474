"""One job at a time, in order, merged while it waits, tried again when it fails, reported as done only when it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import structlog

from memsvc.errors import DiskFull
from memsvc.worker import JobFailed, Worker

Run = Callable[[str], Awaitable[bool]]


class Bench:
    """A worker over jobs that are names, and a record of what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.more: dict[str, int] = {}
        self.errors: dict[str, list[Exception]] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.at_once = 0
        self.worker: Worker[str] = Worker(self.run, lambda: 1_000_000, retry_first_ms=1, retry_max_ms=4)

    async def run(self, job: str) -> bool:
        self.begun.put_nowait(job)
        self.at_once += 1
        assert self.at_once == 1
        try:
            if gate := self.gates.get(job):
                await gate.wait()
            await asyncio.sleep(0)
            if self.errors.get(job):
                raise self.errors[job].pop(0)
        finally:
            self.at_once -= 1
        self.done.append(job)
        self.more[job] = self.more.get(job, 0) - 1
        return self.more[job] > 0

    async def began(self, job: str) -> None:
        """Returns when a job has begun."""
        while await self.begun.get() != job:
            pass


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    bench.worker.start()
    yield bench
    await bench.worker.stop(1_000)


async def test_jobs_run_one_at_a_time_in_the_order_of_their_arrival(bench: Bench) -> None:
    for job in "abcde":
        bench.worker.enqueue(job)
    await bench.worker.join()
    assert bench.done == list("abcde")
    assert bench.worker.pending() == []


async def test_a_job_that_waits_is_the_same_job_and_one_that_runs_runs_once_more(bench: Bench) -> None:
    bench.gates["a"] = asyncio.Event()
    bench.worker.enqueue("a")
    await bench.began("a")
    for job in "abab":
        bench.worker.enqueue(job)
    assert sorted(bench.worker.pending()) == ["a", "b"]
    bench.gates["a"].set()
    await bench.worker.join()
    assert bench.done == ["a", "a", "b"]


async def test_a_job_with_more_to_do_goes_behind_the_others(bench: Bench) -> None:
    bench.more["a"] = 3
    for job in "ab":
        bench.worker.enqueue(job)
    await bench.worker.join()
    assert bench.done == ["a", "b", "a", "a"]


async def test_a_job_that_fails_is_told_of_until_it_succeeds_and_holds_nobody_up(bench: Bench) -> None:
    bench.errors["a"] = [JobFailed("PROVIDER_TIMEOUT", 60_000)]
    for job in "ab":
        bench.worker.enqueue(job)
    await bench.worker.join()
    assert bench.done == ["b"]
    (failure,) = bench.worker.failures()
    assert (failure.job, failure.reason, failure.attempts) == ("a", "PROVIDER_TIMEOUT", 1)
    assert failure.next_attempt_us == 1_000_000 + 60_000_000
    bench.worker.enqueue("a")  # it waits already, and goes on waiting
    await bench.worker.join()
    assert bench.worker.pending() == ["a"]
    bench.worker.retry_now()
    await bench.worker.join()
    assert bench.done == ["b", "a"]
    assert (bench.worker.pending(), bench.worker.failures()) == ([], [])


async def test_a_job_that_is_forgotten_is_told_of_no_more_whatever_it_was_doing(bench: Bench) -> None:
    bench.gates["b"] = asyncio.Event()
    bench.errors = {"a": [JobFailed("PROVIDER_TIMEOUT", 60_000)], "b": [JobFailed("PROVIDER_TIMEOUT", 60_000)]}
    for job in "abc":
        bench.worker.enqueue(job)
    await bench.began("b")  # `a` waits for its next attempt, `b` runs, `c` waits for its turn
    for job in "abc":
        bench.worker.forget(job)
    assert bench.worker.pending() == ["b"]
    bench.gates["b"].set()
    await bench.worker.join()
    assert (bench.worker.pending(), bench.worker.failures(), bench.done) == ([], [], [])
    bench.worker.enqueue("b")  # what comes back is a job like any other
    await bench.worker.join()
    assert bench.done == ["b"]


async def test_the_wait_doubles_up_to_its_most(bench: Bench) -> None:
    bench.errors["a"] = [JobFailed("X") for _ in range(5)]
    bench.gates["a"] = asyncio.Event()
    bench.worker.enqueue("a")
    waits = []
    for _ in range(5):
        await bench.began("a")
        bench.gates["a"].set()
        await bench.worker.join()
        bench.gates["a"].clear()
        (failure,) = bench.worker.failures()
        waits.append((failure.next_attempt_us - 1_000_000) // 1000)
    assert waits == [1, 2, 4, 4, 4]
    bench.gates["a"].set()
    await bench.began("a")
    await bench.worker.join()
    assert bench.worker.failures() == []


async def test_a_bug_in_a_job_ends_no_other_and_tells_nothing_of_its_words(bench: Bench) -> None:
    bench.errors = {"a": [ValueError("出一份试卷")], "b": [DiskFull()]}
    for job in "abc":
        bench.worker.enqueue(job)
    with structlog.testing.capture_logs() as said:
        await bench.worker.join()
    assert bench.done == ["c"]
    assert [f.reason for f in bench.worker.failures()] == ["INTERNAL", "DISK_FULL"]
    assert "试卷" not in str(said)
    assert said[0]["event"] == "job_broke"
    assert said[0]["where"].startswith("test_worker.py:")


async def test_a_job_enqueued_again_while_it_runs_and_fails_waits_like_any_that_failed(bench: Bench) -> None:
    bench.errors["a"] = [JobFailed("X", 60_000)]
    bench.gates["a"] = asyncio.Event()
    bench.worker.enqueue("a")
    await bench.began("a")
    bench.worker.enqueue("a")
    bench.gates["a"].set()
    await bench.worker.join()
    assert (bench.done, bench.worker.pending()) == ([], ["a"])


async def test_to_stop_is_to_finish_the_running_job_and_begin_no_other(bench: Bench) -> None:
    bench.gates["a"] = asyncio.Event()
    for job in "ab":
        bench.worker.enqueue(job)
    await bench.began("a")
    stopping = asyncio.create_task(bench.worker.stop(60_000))
    await asyncio.sleep(0)
    bench.gates["a"].set()
    assert await stopping
    assert bench.done == ["a"]


async def test_a_job_that_outlasts_the_grace_is_given_up(bench: Bench) -> None:
    bench.gates["a"] = asyncio.Event()
    bench.worker.enqueue("a")
    await bench.began("a")
    assert not await bench.worker.stop(1)
    assert bench.done == []


async def test_stopping_an_idle_worker_or_one_that_never_began_is_at_once() -> None:
    worker = Bench().worker
    assert await worker.stop(0)
    worker.start()
    await worker.join()
    assert await worker.stop(1_000)
