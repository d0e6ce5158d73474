"""What the agent is to remember, as one text under one hard token bound.

Sections are rendered core, thread, recall, knowledge and paid core, thread, knowledge, recall. The line that ends the
block is charged first. A section has its whole frame or is not there; nothing is injected twice; equal state and
equal request give equal bytes. Sections are made of lines of ours, each piece ending in a line feed, so that token
counts add up and no text is counted twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from zoneinfo import ZoneInfo

from memsvc.model import RECENT_RUNS, Fact, RunOutcome, SectionKind
from memsvc.rules import facts
from memsvc.rules.boundary import sanitize
from memsvc.rules.budget import (
    CORE_LIMIT,
    RECALL_LIMIT,
    RECENT_LIMIT,
    SUMMARY_LIMIT,
    THREAD_LIMIT,
    Meter,
    share_runs,
)
from memsvc.rules.frames import frames as frames_of
from memsvc.rules.frames import lay_out
from memsvc.rules.shown import (
    Line,
    Shown,
    ShownText,
    clip,
    cut,
    day,
    draw_input,
    draw_output,
    fit_run,
    quoted,
)
from memsvc.rules.tags import disown
from memsvc.rules.terms import QueryTerm

LEAST_EXTRA = 48
"""Tokens below which a run that waits to be folded is not squeezed in: its ends would say nothing."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A recorded run as the context needs it."""

    sequence: int
    run_id: str
    outcome: RunOutcome
    ended_us: int
    shown: Shown


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled run and its relevance from 0 to 1."""

    run: PastRun
    score: float


@dataclass(frozen=True, slots=True)
class Memory:
    """What the store holds for one request.

    `runs` are those of the thread that the summary does not cover or that are among its last K, newest first; there
    may be more than are listed: `waiting_count` is the number of all of them. `facts` stand oldest confirmation
    first, `hits` best first.
    """

    summary: str = ""
    runs: Sequence[PastRun] = ()
    waiting_count: int = 0
    facts: Sequence[Fact] = ()
    hits: Sequence[Hit] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """What one call wants: the frames' language and tag, the tokens to share, and what the caller adds.

    `terms` are those of the input: where not all facts fit, they say which ones bear on it.
    """

    locale: str
    tag: str
    token_limit: int
    knowledge: str = ""
    recall_top_k: int = 3
    terms: Sequence[QueryTerm] = ()
    time_zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))


@dataclass(frozen=True, slots=True)
class Source:
    """Where a piece came from; the score is recall's."""

    fact_id: str = ""
    run_id: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Section:
    """One framed part of the block. `text` ends without a line feed; `token_count` charges for the joining one."""

    kind: SectionKind
    text: str
    token_count: int
    token_limit: int
    truncated: bool = False
    sources: tuple[Source, ...] = ()
    omitted_count: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """The context: `token_count` is that of `text`, and never above `token_limit`."""

    text: str
    sections: tuple[Section, ...]
    token_count: int
    token_limit: int


class _Page:
    """A section in the making: its frame is paid when it opens, lines as they come."""

    def __init__(self, kind: SectionKind, limit: int, ask: Ask, meter: Meter) -> None:
        frames = frames_of(ask.locale)
        self.kind, self.limit, self._meter = kind, limit, meter
        self._open = frames.open(kind, ask.tag) + "\n"
        self._close = frames.close(kind, ask.tag) + "\n"
        self.used = meter.count(self._open) + meter.count(self._close)
        self.lines: list[str] = []
        self.sources: list[Source] = []
        self.truncated = False
        self.omitted = 0

    @property
    def room(self) -> int:
        return self.limit - self.used

    def add(self, line: str, tokens: int) -> None:
        self.lines.append(line)
        self.used += tokens

    def done(self) -> Section | None:
        if not self.lines:
            return None
        text = "".join((self._open, *self.lines, self._close))[:-1]
        return Section(
            self.kind,
            text,
            self.used,
            self.limit,
            self.truncated or self.omitted > 0,
            tuple(self.sources),
            self.omitted,
        )


def render(memory: Memory, ask: Ask, meter: Meter) -> Block:
    """Renders the block for `ask`; never above its token limit, whatever the texts hold.

    An encoding whose counts do not add up is counted again on the joined texts; where those take more than their
    pieces did, pieces are charged for it until text and sections hold their limits.
    """
    if meter.additive:
        return _render(memory, ask, meter)
    surcharge = 0
    while True:
        block = _render(memory, ask, _Wary(meter, surcharge))
        sections = tuple(replace(section, token_count=meter.count(section.text)) for section in block.sections)
        tokens = meter.count(block.text)
        if tokens <= ask.token_limit and all(s.token_count <= s.token_limit for s in sections):
            return Block(block.text, sections, tokens, ask.token_limit)
        # It ends: before long the closing line alone is charged more than there is, and the block is empty.
        surcharge = max(1, 2 * surcharge)


@dataclass(frozen=True, slots=True)
class _Wary:
    """A meter that charges every piece for what it may cost beside others."""

    meter: Meter
    surcharge: int
    additive: bool = False

    @property
    def name(self) -> str:
        return self.meter.name

    def count(self, text: str) -> int:
        return self.meter.count(text) + self.surcharge

    def ends(self, text: str, head: int, tail: int) -> tuple[str, str]:
        return self.meter.ends(text, head, tail)


def _render(memory: Memory, ask: Ask, meter: Meter) -> Block:
    closing = frames_of(ask.locale).request(ask.tag)
    left = ask.token_limit - meter.count(closing)
    sections: list[Section] = []
    shown: set[int] = set()
    if left > 0:
        for make in (_core, _thread, _knowledge, _recall):
            if section := make(memory, ask, left, meter, shown):
                sections.append(section)
                left -= section.token_count
    if not sections:
        return Block("", (), 0, ask.token_limit)
    sections.sort(key=lambda s: s.kind)
    text = "\n".join([*(s.text for s in sections), closing])
    return Block(text, tuple(sections), ask.token_limit - left, ask.token_limit)


def _core(memory: Memory, ask: Ask, left: int, meter: Meter, _: set[int]) -> Section | None:
    """Whole facts only, oldest confirmation first; where not all fit, those that bear on the input are chosen first."""
    if not memory.facts:
        return None
    page = _Page(SectionKind.CORE, min(CORE_LIMIT, left), ask, meter)
    lines = [_fact_line(fact.text, ask.tag) for fact in memory.facts]
    costs = [meter.count(line) for line in lines]
    chosen: Collection[int] = range(len(lines))
    if sum(costs) > page.room:
        chosen, room = set(), page.room
        for i in facts.order(memory.facts, ask.terms):
            if costs[i] <= room:
                chosen.add(i)
                room -= costs[i]
    for i in sorted(chosen):
        page.add(lines[i], costs[i])
        page.sources.append(Source(fact_id=memory.facts[i].fact_id))
    page.omitted = len(lines) - len(chosen)
    return page.done()


@lru_cache(maxsize=4_096)
def _fact_line(text: str, tag: str) -> str:
    """Returns a fact as it is shown; remembered, since the same few stand in every block of their scope."""
    return lay_out("- ", disown(sanitize(text), tag))


def _thread(memory: Memory, ask: Ask, left: int, meter: Meter, shown: set[int]) -> Section | None:
    """The summary, then runs oldest first: the last K, before them those that wait to be folded."""
    if not memory.summary and not memory.runs:
        return None
    frames = frames_of(ask.locale)
    page = _Page(SectionKind.THREAD, min(THREAD_LIMIT, left), ask, meter)
    if memory.summary:
        # Of a smaller limit the summary keeps its share, else a tight budget would lose all but the last words.
        limit = min(SUMMARY_LIMIT, page.limit * SUMMARY_LIMIT // THREAD_LIMIT, page.room)
        if summary := _summary(memory.summary, limit, ask.locale, ask.tag, meter):
            page.add(lay_out(frames.summary_label, summary.text.joined(frames)), summary.tokens)
            page.truncated |= summary.text.omitted > 0
    _runs(page, memory, ask, meter, shown)
    return page.done()


@lru_cache(maxsize=512)
def _summary(summary: str, limit: int, locale: str, tag: str, meter: Meter) -> Line | None:
    """Returns the summary within `limit`, None where it cannot be shown; remembered, since it changes once a turn."""
    frames = frames_of(locale)
    return cut(
        ShownText(disown(sanitize(summary), tag)),
        limit,
        lambda t: lay_out(frames.summary_label, t.joined(frames)),
        meter,
    )


def _runs(page: _Page, memory: Memory, ask: Ask, meter: Meter, shown: set[int]) -> None:
    label = frames_of(ask.locale).recent_label + "\n"
    room = page.room - meter.count(label)
    recent = memory.runs[:RECENT_RUNS]
    lines: list[tuple[PastRun, str, int, bool]] = []  # newest first
    while recent and not lines:
        lines = _recent_lines(recent, min(RECENT_LIMIT, room), ask, meter)
        recent = recent[:-1]
    room -= sum(tokens for _, _, tokens, _ in lines)
    if len(lines) == min(RECENT_RUNS, len(memory.runs)):
        for run in memory.runs[RECENT_RUNS:]:
            # Newest first, each as whole as the rest of the limit allows; the first that is cut is the last.
            if room < LEAST_EXTRA:
                break
            if fitted := _run_lines(run, *_grants(run, room, ask, meter), ask, meter):
                lines.append((run, *fitted))
                room -= fitted[1]
    if lines:
        page.add(label, meter.count(label))
    for run, line, tokens, was_cut in reversed(lines):
        page.add(line, tokens)
        page.truncated |= was_cut
        page.sources.append(Source(run_id=run.run_id))
        shown.add(run.sequence)
    page.omitted = memory.waiting_count - len(lines)


def _recent_lines(runs: Sequence[PastRun], limit: int, ask: Ask, meter: Meter) -> list[tuple[PastRun, str, int, bool]]:
    """Returns the lines of the last runs within `limit`, newest first, or nothing where one finds no place."""
    shown = [quoted(run.shown, run.outcome, ask.locale, ask.tag, meter) for run in runs]
    grants = share_runs([(s.input.tokens, s.output.tokens) for s in shown], limit)
    lines = []
    for run, (given, answer) in zip(runs, grants, strict=True):
        fitted = _run_lines(run, given, answer, ask, meter)
        if fitted is None:
            return []
        lines.append((run, *fitted))
    return lines


def _grants(run: PastRun, room: int, ask: Ask, meter: Meter) -> tuple[int, int]:
    shown = quoted(run.shown, run.outcome, ask.locale, ask.tag, meter)
    return share_runs([(shown.input.tokens, shown.output.tokens)], room)[0]


def _run_lines(
    run: PastRun, input_limit: int, output_limit: int, ask: Ask, meter: Meter
) -> tuple[str, int, bool] | None:
    """Returns a run's lines, their tokens and whether anything is missing; None where it cannot be shown."""
    frames = frames_of(ask.locale)
    shown = quoted(run.shown, run.outcome, ask.locale, ask.tag, meter)
    given, answer = fit_run(shown, run.outcome, input_limit, output_limit, meter)
    if given is None or answer is None:
        return None
    text = draw_input(given.text, frames) + draw_output(answer.text, run.outcome, frames)
    return text, given.tokens + answer.tokens, bool(given.text.omitted or answer.text.omitted)


def _recall(memory: Memory, ask: Ask, left: int, meter: Meter, placed: set[int]) -> Section | None:
    """At most `recall_top_k` past runs that say what neither the thread section nor a better one does: the date, the
    input, the gist of the output.
    """
    told = {run.shown.gist for run in memory.runs if run.sequence in placed} if memory.hits else set()
    fresh: dict[tuple[ShownText, ShownText], Hit] = {}
    for hit in memory.hits:
        if hit.run.sequence not in placed and hit.run.shown.gist not in told:
            fresh.setdefault(hit.run.shown.gist, hit)
    hits = list(fresh.values())[: ask.recall_top_k]
    if not hits:
        return None
    frames = frames_of(ask.locale)
    page = _Page(SectionKind.RECALL, min(RECALL_LIMIT, left), ask, meter)
    for hit in hits:
        run = hit.run
        date = f"- {day(run.ended_us, ask.time_zone)}\n"
        shown = quoted(run.shown, run.outcome, ask.locale, ask.tag, meter)
        tokens = meter.count(date) + shown.gist_input.tokens + shown.gist_output.tokens
        if tokens > page.room:
            page.omitted += 1
            continue
        given, answer = shown.gist_input.text, shown.gist_output.text
        page.add(date + draw_input(given, frames) + draw_output(answer, run.outcome, frames), tokens)
        page.truncated |= bool(given.omitted or answer.omitted)
        page.sources.append(Source(run_id=run.run_id, score=hit.score))
    return page.done()


def _knowledge(memory: Memory, ask: Ask, left: int, meter: Meter, _: set[int]) -> Section | None:
    """The caller's text, as many whole lines as fit; of a first line too long, its two ends."""
    if not ask.knowledge.strip():
        return None
    frames = frames_of(ask.locale)
    page = _Page(SectionKind.KNOWLEDGE, left, ask, meter)
    if page.room <= 0:
        return None
    text = clip(ask.knowledge, page.room)
    lines = lay_out("> ", disown(text.before, ask.tag)).splitlines(keepends=True)
    page.truncated = text.omitted > 0
    kept, tokens = _leading_lines(lines, page.room, meter)
    if kept:
        page.add("".join(lines[:kept]), tokens)
        page.truncated |= kept < len(lines)
    elif first := cut(ShownText(lines[0][2:-1]), page.room, lambda t: lay_out("> ", t.joined(frames)), meter):
        page.add(lay_out("> ", first.text.joined(frames)), first.tokens)
        page.truncated = True
    return page.done()


def _leading_lines(lines: Sequence[str], room: int, meter: Meter) -> tuple[int, int]:
    """Returns how many whole lines fit into `room`, and their tokens; counts in halves, each text once or so."""
    tokens = meter.count("".join(lines))
    if tokens <= room:
        return len(lines), tokens
    low, low_tokens, high = 0, 0, len(lines)  # the first `low` fit, the first `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        more = meter.count("".join(lines[low:middle]))
        if low_tokens + more <= room:
            low, low_tokens = middle, low_tokens + more
        else:
            high = middle
    return low, low_tokens
