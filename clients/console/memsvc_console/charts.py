"""Charts as geometry: what stands where in a drawing of so many units, for a template to draw. Nothing here knows a
colour or a language; the template gives every chart a title, a description and a table of the same numbers.

A drawing is as wide as it is shown, so that its letters keep their size: a page holds one for wide windows and one for
narrow ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDE, NARROW = 720, 320
HEIGHT = 220
TOP, BOTTOM = 12, 26
LETTER = 6.6
"""Width of a digit of the axes, in units, on the safe side."""
APART = 12
"""Units between two labels."""
MOST_BAR = 40.0
LEAST_SEEN = 1.5
"""What is not nothing is drawn at least so high."""


@dataclass(frozen=True, slots=True)
class Series:
    """A row of values with a name; None where nothing is known. `name` is a class of the drawing."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis and where it stands."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of a series; `index` counts along the axis."""

    name: str
    index: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a series, as an SVG path, and the dot at its end."""

    name: str
    path: str
    end_x: float
    end_y: float


@dataclass(frozen=True, slots=True)
class Hover:
    """A strip of full height that belongs to one place of the axis."""

    index: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing: its size, the field within the axes, and what stands in it."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]
    hovers: tuple[Hover, ...]


def draw(
    labels: Sequence[str],
    stacked: Sequence[Series] = (),
    lines: Sequence[Series] = (),
    *,
    width: int = WIDE,
    scale: Callable[[float], str] = str,
    whole: bool = True,
) -> Chart:
    """Draws stacked columns and, over them, lines; one place of the axis for each label.

    `scale` writes a value at the axis; `whole`: no tick stands at a fraction.
    """
    heights = [sum(series.values[i] or 0 for series in stacked) for i in range(len(labels))]
    peak = max([*heights, *(value or 0 for series in lines for value in series.values)], default=0)
    steps = ticks(peak, whole)
    names = [scale(step) for step in steps]
    left = max(len_of(name) for name in names) * LETTER + 10
    right, top, bottom = width - 8.0, float(TOP), float(HEIGHT - BOTTOM)
    high = steps[-1]

    def y(value: float) -> float:
        return _round(bottom - (bottom - top) * value / high)

    step = (right - left) / max(1, len(labels))
    centres = [left + step * (i + 0.5) for i in range(len(labels))]
    return Chart(
        width,
        HEIGHT,
        _round(left),
        right,
        top,
        bottom,
        tuple(Tick(y(value), name) for value, name in zip(steps, names, strict=True)),
        _x_ticks(labels, centres, right),
        _bars(stacked, centres, step, y, bottom),
        tuple(line for series in lines if (line := _line(series, centres, y))),
        tuple(Hover(i, _round(centre - step / 2), _round(step)) for i, centre in enumerate(centres)),
    )


def ticks(peak: float, whole: bool = True) -> tuple[float, ...]:
    """Round numbers from 0 to `peak` or just above it: three to six of them, evenly apart."""
    if peak <= 0:
        return (0, 1)
    for exponent in itertools.count(-12):
        for factor in (1, 2, 5):
            step = factor * 10.0**exponent
            if peak <= step * 5:
                step = max(1.0, step) if whole else step
                steps = max(1, -int(-peak * (1 - 1e-9) // step))
                return tuple(step * i for i in range(steps + 1))
    raise AssertionError("some power of ten is large enough")


def len_of(label: str) -> float:
    """How many digits wide a label is; Chinese letters are wider."""
    return sum(1.0 if ord(c) < 0x2E80 else 1.8 for c in label)


def _x_ticks(labels: Sequence[str], centres: Sequence[float], right: float) -> tuple[Tick, ...]:
    """The labels that find room, evenly apart, the last one always."""
    if not labels:
        return ()
    halves = [len_of(label) * LETTER / 2 for label in labels]
    places = [min(centre, right - half) for centre, half in zip(centres, halves, strict=True)]
    last = len(labels) - 1
    for every in range(1, len(labels) + 1):
        shown = range(last % every, len(labels), every)
        if all(places[b] - halves[b] - places[a] - halves[a] >= APART for a, b in itertools.pairwise(shown)):
            break
    return tuple(Tick(_round(places[i]), labels[i]) for i in shown)


def _bars(
    stacked: Sequence[Series], centres: Sequence[float], step: float, y: Callable[[float], float], bottom: float
) -> tuple[Bar, ...]:
    width = min(MOST_BAR, step * 0.72 if step > 4 else step)
    found = []
    for i, centre in enumerate(centres):
        base, under = 0.0, bottom
        for series in stacked:
            value = series.values[i] or 0
            if value <= 0:
                continue
            over = min(y(base + value), under - LEAST_SEEN)
            found.append(Bar(series.name, i, _round(centre - width / 2), over, _round(width), _round(under - over)))
            base, under = base + value, over
    return tuple(found)


def _line(series: Series, centres: Sequence[float], y: Callable[[float], float]) -> Line | None:
    """A path through the known values; a gap where one is not known. None where none is."""
    path, joined, end = [], False, None
    for centre, value in zip(centres, series.values, strict=True):
        if value is None:
            joined = False
            continue
        end = _round(centre), y(value)
        path.append(f"{'L' if joined else 'M'}{end[0]:g} {end[1]:g}")
        joined = True
    return Line(series.name, "".join(path), *end) if end else None


def _round(value: float) -> float:
    return round(value, 1)
