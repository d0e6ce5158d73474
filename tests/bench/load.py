"""Load and figures: so many callers at once, so many calls, and what half and all but one in a hundred of them took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc


@dataclass(frozen=True)
class Figures:
    """Calls a second, and seconds that half and 99% of the calls stayed below."""

    rate: float
    p50: float
    p99: float


async def measure(call: Callable[[int], Awaitable[object]], calls: int, concurrency: int) -> Figures:
    """Makes `calls` calls, `concurrency` at a time; `call` is given the number of the call."""
    times: list[float] = []
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            begun = time.perf_counter()
            await call(number)
            times.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(concurrency)))
    whole = time.perf_counter() - begun
    times.sort()
    return Figures(calls / whole, times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)])


def middle(rounds: list[Figures]) -> Figures:
    """Returns the round in the middle by p50: one that the machine's noise hit least on either side."""
    return sorted(rounds, key=lambda f: f.p50)[len(rounds) // 2]


async def beside(call: Callable[[int], Awaitable[object]], times: list[float], every_s: float) -> None:
    """Calls every so often, whether or not the one before was answered, until it is cancelled.

    `times` gets what each waited, in seconds; of one that was refused because too many waited, infinity.
    """
    running: set[asyncio.Task[None]] = set()

    async def one(number: int) -> None:
        begun = time.perf_counter()
        try:
            await call(number)
            times.append(time.perf_counter() - begun)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            times.append(float("inf"))

    number, due = 0, time.perf_counter()
    try:
        while True:
            number += 1
            task = asyncio.create_task(one(number))
            running.add(task)
            task.add_done_callback(running.discard)
            due += every_s
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
    finally:
        await asyncio.gather(*running)
