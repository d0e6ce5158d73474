"""How often one caller may call, as arithmetic: no clock, no waiting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.rules.rate import admit


def admitted(times_s: list[float], per_second: int, burst: int) -> list[float]:
    """The calls of these moments that are let in."""
    state, let_in = 0.0, []
    for now_s in times_s:
        state, wait_s = admit(state, now_s, per_second, burst)
        if not wait_s:
            let_in.append(now_s)
    return let_in


@pytest.mark.parametrize(
    ("times_s", "per_second", "burst", "wanted"),
    [
        ([100.0] * 5, 1, 3, 3),
        ([100.0] * 3 + [101.0] * 3, 1, 3, 4),
        ([100.0] * 3 + [103.0] * 5, 1, 3, 6),
        ([100.0 + i / 10 for i in range(100)], 10, 1, 100),
        ([100.0 + i / 20 for i in range(100)], 10, 1, 50),
        ([0.0], 1, 1, 1),
        ([1e9 + i for i in range(1000)], 1, 1, 1000),
    ],
)
def test_so_many_calls_are_let_in(times_s: list[float], per_second: int, burst: int, wanted: int) -> None:
    assert len(admitted(times_s, per_second, burst)) == wanted


steps = st.lists(st.floats(0, 3), min_size=1, max_size=80)
rates, bursts = st.integers(1, 50), st.integers(1, 20)


@given(steps, rates, bursts, st.floats(0, 1e6))
def test_within_any_time_no_more_than_the_burst_and_the_rate_are_let_in(
    gaps_s: list[float], per_second: int, burst: int, begun_s: float
) -> None:
    times_s = [begun_s]
    for gap_s in gaps_s:
        times_s.append(times_s[-1] + gap_s)
    let_in = admitted(times_s, per_second, burst)
    for i, first in enumerate(let_in):
        for j in range(i, len(let_in)):
            assert j - i + 1 <= burst + per_second * (let_in[j] - first) + 1e-3


@given(steps, rates, bursts)
def test_who_waits_as_long_as_told_is_let_in_and_a_refused_call_costs_nothing(
    gaps_s: list[float], per_second: int, burst: int
) -> None:
    state, now_s = 0.0, 1000.0
    for gap_s in gaps_s:
        now_s += gap_s
        state, wait_s = admit(state, now_s, per_second, burst)
        if wait_s:
            assert wait_s <= 1 / per_second + 1e-5
            assert admit(state, now_s, per_second, burst) == (state, wait_s)
            now_s += wait_s
            state, wait_s = admit(state, now_s, per_second, burst)
            assert wait_s == 0
