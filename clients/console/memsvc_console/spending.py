"""What was spent, laid out for a page: days without gaps, groups by size, and amounts in tokens or in money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from memsvc_console import charts, figures
from memsvc_console.charts import Chart, Series
from memsvc_console.curve import Curve
from memsvc_console.i18n import Words
from memsvc_console.times import MONTHS

PERIODS = (7, 30, 90, 0)
"""Days that a page may look back; 0 for all."""
DEFAULT_PERIOD = 30
MAX_DAYS = 400
"""A chart of more days would hold columns thinner than a pixel: the oldest are left out of it, not of the table."""
UNITS = ("tokens", "cost")


@dataclass(frozen=True, slots=True)
class Row:
    """One day, provider or thread: what its runs and what memory took, in the chosen unit."""

    key: str
    runs: int
    memory: int
    usage_runs: pb.Usage
    usage_memory: pb.Usage

    @property
    def total(self) -> int:
        """Both together."""
        return self.runs + self.memory


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart in both widths, and a line of text for each place of its axis."""

    wide: Chart
    narrow: Chart
    hovers: tuple[str, ...]


def tokens(usage: pb.Usage) -> int:
    """Tokens read and written."""
    return usage.input_tokens + usage.output_tokens


def worth(unit: str) -> Callable[[pb.Usage], int]:
    """How usage is measured in a unit: in tokens, or in millionths of the currency."""
    return tokens if unit == "tokens" else lambda usage: usage.cost_micros


def start_of(period: int, zone: ZoneInfo, now: datetime) -> datetime | None:
    """The midnight at which a period of so many days begins, today included; None for all time."""
    if not period:
        return None
    first = now.astimezone(zone).date() - timedelta(days=period - 1)
    return datetime.combine(first, time(), zone).astimezone(UTC)


def rows(buckets: Sequence[rpc.UsageBucket], unit: str) -> list[Row]:
    """The buckets in a unit, in their own order."""
    measure = worth(unit)
    return [Row(each.key, measure(each.runs), measure(each.memory), each.runs, each.memory) for each in buckets]


def largest(buckets: Sequence[rpc.UsageBucket], unit: str) -> list[Row]:
    """The buckets in a unit, the largest first; those of equal size by name."""
    return sorted(rows(buckets, unit), key=lambda row: (-row.total, row.key))


def by_day(buckets: Sequence[rpc.UsageBucket], unit: str, period: int, zone: ZoneInfo, now: datetime) -> list[Row]:
    """A row for every day up to today, at most 400: days on which nothing was spent are days too."""
    known = {row.key: row for row in rows(buckets, unit)}
    last = max([now.astimezone(zone).date(), *(date.fromisoformat(key) for key in known)])
    first = last - timedelta(days=period - 1) if period else min((date.fromisoformat(k) for k in known), default=last)
    first = max(first, last - timedelta(days=MAX_DAYS - 1))
    days = [(first + timedelta(days=i)).isoformat() for i in range((last - first).days + 1)]
    return [known.get(day, Row(day, 0, 0, pb.Usage(), pb.Usage())) for day in days]


def day_label(key: str, words: Words) -> str:
    """A day in few characters."""
    day = date.fromisoformat(key)
    return words("cost.day", month=day.month, day=day.day, name=MONTHS[day.month - 1])


def draw_days(days: Sequence[Row], unit: str, words: Words, currency: str) -> Drawing:
    """Columns of a day each: runs below, memory on them."""
    labels = [day_label(row.key, words) for row in days]
    stacked = [Series("runs", [row.runs for row in days]), Series("memory", [row.memory for row in days])]
    write = writer(unit, currency)

    def scale(value: float) -> str:
        return figures.short(int(value), words.language) if unit == "tokens" else figures.amount(int(value))

    hovers = tuple(
        words("cost.day.is", day=label, runs=write(row.runs), memory=write(row.memory))
        for label, row in zip(labels, days, strict=True)
    )
    return Drawing(
        charts.draw(labels, stacked, width=charts.WIDE, scale=scale),
        charts.draw(labels, stacked, width=charts.NARROW, scale=scale),
        hovers,
    )


def writer(unit: str, currency: str) -> Callable[[int], str]:
    """How an amount is written in a unit."""
    return figures.count if unit == "tokens" else lambda micros: figures.money(micros, currency)


def draw_turns(curve: Curve, words: Words) -> Drawing:
    """Tokens of each turn: memory's own calls as columns, what was read and the whole history as lines."""
    turns = curve.turns
    columns = [Series("context", [turn.context for turn in turns]), Series("memory", [turn.memory for turn in turns])]
    lines = [Series("prompt", [turn.prompt for turn in turns])]
    if curve.is_known:
        lines.append(Series("history", [turn.history for turn in turns]))
    hovers = tuple(
        words(
            "curve.turn.is" if turn.history is not None else "curve.turn.is.unknown",
            number=turn.number,
            context=figures.count(turn.context),
            prompt="—" if turn.prompt is None else figures.count(turn.prompt),
            memory=figures.count(turn.memory),
            history=figures.count(turn.history or 0),
        )
        for turn in turns
    )
    return _draw_curve(curve, columns, lines, hovers, words)


def draw_running(curve: Curve, words: Words) -> Drawing:
    """Tokens up to each turn, with memory and with the whole history."""
    ours, theirs = curve.running_memory(), curve.running_history()
    lines = [Series("prompt", ours)]
    if curve.is_known:
        lines.append(Series("history", theirs))
    hovers = tuple(
        words("curve.running.is", number=turn.number, ours=figures.count(a), theirs=figures.count(b))
        if curve.is_known
        else words("curve.running.is.unknown", number=turn.number, ours=figures.count(a))
        for turn, a, b in zip(curve.turns, ours, theirs, strict=True)
    )
    return _draw_curve(curve, [], lines, hovers, words)


def _draw_curve(
    curve: Curve, columns: Sequence[Series], lines: Sequence[Series], hovers: tuple[str, ...], words: Words
) -> Drawing:
    labels = [str(turn.number) for turn in curve.turns]

    def scale(value: float) -> str:
        return figures.short(int(value), words.language)

    return Drawing(
        charts.draw(labels, columns, lines, width=charts.WIDE, scale=scale),
        charts.draw(labels, columns, lines, width=charts.NARROW, scale=scale),
        hovers,
    )
