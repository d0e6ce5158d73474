"""How often one caller may call: so many times a second in the long run, and a burst above that.

A caller's state is one number: the moment from which on its calls would be even again, had they come evenly. A call
moves it on by one interval; one that would move it further ahead than the burst allows is refused and moves nothing.
"""

from __future__ import annotations


def admit(even_from_s: float, now_s: float, per_second: int, burst: int) -> tuple[float, float]:
    """Returns the caller's new state, and for how many seconds a call would be refused: 0 where this one is admitted.

    Seconds are those of one clock that never steps back; a new caller's state is 0. Whatever the past, at most
    `burst + per_second * t` calls are admitted within any `t` seconds.
    """
    interval_s = 1 / per_second
    even_from_s = max(even_from_s, now_s)
    # A microsecond's grace: sums of intervals are not exact, and who waited as long as told must not be refused.
    wait_s = even_from_s - now_s - (burst - 1) * interval_s
    if wait_s > 1e-6:
        return even_from_s, wait_s
    return even_from_s + interval_s, 0.0
