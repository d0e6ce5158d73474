"""Load and figures: so many callers at once, so many calls, and what half and all but one in a hundred of them took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


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
