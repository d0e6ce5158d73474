"""Numbers as they are written and drawn: what a chart shows is what it was given, and it all finds room."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memsvc_console import charts, figures
from memsvc_console.charts import Chart, Series, draw, ticks
from memsvc_console.i18n import Language

VALUES = st.integers(0, 10**12)
WIDTHS = st.sampled_from([charts.WIDE, charts.NARROW])


@pytest.mark.parametrize(
    ("number", "zh", "en"),
    [
        (0, "0", "0"),
        (999, "999", "999"),
        (1_500, "1,500", "1.5k"),
        (12_345, "1.23万", "12.3k"),
        (100_000, "10万", "100k"),
        (2_000_000, "200万", "2M"),
        (123_456_789, "1.23亿", "123M"),
        (5_000_000_000, "50亿", "5B"),
    ],
)
def test_short_numbers_are_the_readers_own(number: int, zh: str, en: str) -> None:
    assert (figures.short(number, "zh"), figures.short(number, "en")) == (zh, en)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.00 CNY"),
        (1, "0.000001 CNY"),
        (2_300, "0.0023 CNY"),
        (500_000, "0.50 CNY"),
        (1_000_000, "1.00 CNY"),
        (1_234_567_890, "1,234.57 CNY"),
        (-2_300, "-0.0023 CNY"),
    ],
)
def test_money_is_exact_where_it_is_small(micros: int, text: str) -> None:
    assert figures.money(micros, "CNY") == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "0%"), (0, 9, "0%"), (1, 1000, "<1%"), (1, 3, "33%"), (999, 1000, "99%"), (3, 3, "100%"), (6, 3, "200%")],
)
def test_a_share_is_neither_rounded_to_nothing_nor_to_all(part: int, whole: int, text: str) -> None:
    assert figures.percent(part, whole) == text


@given(st.floats(0, 1e15, allow_subnormal=False), st.booleans())
def test_ticks_begin_at_nothing_and_end_at_or_above_the_peak(peak: float, whole: bool) -> None:
    found = ticks(peak, whole)
    assert found[0] == 0
    assert found[-1] >= peak * (1 - 1e-9)
    assert 2 <= len(found) <= 6
    steps = {round(b - a, 9) / max(found) for a, b in itertools.pairwise(found)}
    assert max(steps) - min(steps) < 1e-6
    if whole:
        assert all(value == int(value) for value in found)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=120), WIDTHS)
def test_columns_stand_on_each_other_within_the_field(days: list[tuple[int, int]], width: int) -> None:
    labels = [f"{i % 12 + 1}/{i % 28 + 1}" for i in range(len(days))]
    runs, memory = Series("runs", [a for a, _ in days]), Series("memory", [b for _, b in days])
    chart = draw(labels, [runs, memory], width=width, scale=lambda n: figures.short(int(n), "en"))
    fits(chart)
    assert {(bar.index, bar.name) for bar in chart.bars} == {
        (i, name) for i, (a, b) in enumerate(days) for name, value in (("runs", a), ("memory", b)) if value
    }
    for i in range(len(days)):
        column = [bar for bar in chart.bars if bar.index == i]
        foot = chart.bottom
        for bar in column:
            assert bar.y + bar.height == pytest.approx(foot, abs=0.21)
            foot = bar.y
    tallest = max((a + b for a, b in days), default=0)
    for (a, b), hover in zip(days, chart.hovers, strict=True):
        top = min((bar.y for bar in chart.bars if bar.index == hover.index), default=chart.bottom)
        if a + b == tallest and tallest:
            assert top <= min(bar.y for bar in chart.bars) + charts.LEAST_SEEN


@given(st.lists(st.none() | VALUES, min_size=1, max_size=80), WIDTHS)
def test_a_line_goes_through_what_is_known_and_has_gaps_elsewhere(values: list[int | None], width: int) -> None:
    chart = draw([str(i) for i in range(len(values))], lines=[Series("prompt", values)], width=width)
    fits(chart)
    known = sum(value is not None for value in values)
    if not known:
        assert chart.lines == ()
        return
    (line,) = chart.lines
    starts = sum(value is not None and (i == 0 or values[i - 1] is None) for i, value in enumerate(values))
    assert (line.path.count("M"), line.path.count("M") + line.path.count("L")) == (starts, known)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_labels_do_not_run_into_each_other(language: Language) -> None:
    labels = [f"12月{i}日" if language == "zh" else f"{i} Dec" for i in range(1, 32)]
    for width in (charts.WIDE, charts.NARROW):
        chart = draw(labels, [Series("runs", range(31))], width=width)
        ends = [(t.at - charts.len_of(t.label) * 3.3, t.at + charts.len_of(t.label) * 3.3) for t in chart.x_ticks]
        assert all(right < left for (_, right), (left, _) in itertools.pairwise(ends))
        assert chart.x_ticks[-1].label == labels[-1]
        assert len(chart.x_ticks) > 2


def fits(chart: Chart) -> None:
    """All that is drawn stands within the field, and the labels within the drawing."""
    for bar in chart.bars:
        assert chart.left - 0.2 <= bar.x
        assert bar.x + bar.width <= chart.right + 0.2
        assert bar.y + bar.height <= chart.bottom + 0.1
        assert bar.height > 0
    assert all(0 <= tick.at <= chart.bottom for tick in chart.y_ticks)
    for tick in chart.x_ticks:
        half = charts.len_of(tick.label) * charts.LETTER / 2
        assert tick.at + half <= chart.width + 1
