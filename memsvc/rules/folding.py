"""Folding: which runs go into the next summary, and whether what a model answered is one.

Every recorded run is in the summary's range, shown word for word, or counted as omitted, and none twice: the cursor
moves over whole runs only, in the order of recording, and never into the last K. Nothing is dropped for size; a run
too long for one call is folded in pieces. A model's answer is data and has to prove that it is a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from memsvc.model import RunOutcome
from memsvc.rules import extractive
from memsvc.rules.boundary import sanitize
from memsvc.rules.budget import SUMMARY_LIMIT, Meter
from memsvc.rules.frames import DEFAULT_LOCALE, LOCALES, Frames, lay_out
from memsvc.rules.frames import frames as frames_of
from memsvc.rules.shown import CHARACTERS_PER_TOKEN, script

MAX_ANSWER_TOKENS = 2400
"""An answer up to this is cut to the summary's limit at a sentence; a longer one is no summary."""
MAX_CHECKPOINTS = 16
QUOTED_CHARACTERS = 8_000
LEAST_ROOM = 400
"""Tokens for runs that every call has, whatever the old summary takes."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A run as folding reads it: its user's own words and what came of them, as recorded."""

    outcome: RunOutcome
    own_input: str
    output: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the next call folds: the lines for the prompt, and where the cursor stands after it.

    `run_count` whole runs are covered afterwards; with `draft_offset` above 0 none is, and that many characters of
    the first one are.
    """

    lines: str
    locale: str
    run_count: int
    draft_offset: int = 0


def plan(turns: Sequence[Turn], offset: int, room: int, locale: str, meter: Meter) -> Plan:
    """Takes as many of `turns`, oldest first, as fit into `room` tokens; of a first one too long, a piece.

    `locale` is the language of the conversation, which the prompt and its summary are in.

    `offset` characters of the first turn (its input and output as one text) are in the draft already. At least one
    character is taken, so that folding always ends.
    """
    room = max(room, LEAST_ROOM)
    frames = frames_of(locale)
    first = turns[0]
    length = len(first.own_input) + len(_told(first))
    lines, tokens, end = _piece(first, offset, room, frames, meter)
    if end < length:
        return Plan(lines, locale, 0, end)
    count = 1
    for turn in turns[1:]:
        if len(turn.own_input) + len(_told(turn)) > (room - tokens) * CHARACTERS_PER_TOKEN:
            break
        more = _lines(turn.own_input, _told(turn), turn.outcome, frames)
        tokens += meter.count(more)
        if tokens > room:
            break
        lines += more
        count += 1
    return Plan(lines, locale, count)


def language(summary: str, due: Sequence[str], window: Sequence[str]) -> str:
    """Returns the language of a conversation: that of most of its inputs, those due and those of the window behind.

    Its summary so far has a voice like each of them, and where they are even it decides. So one command or error text
    pasted into a conversation does not turn its summary over, and a user who goes on in another language does. What
    holds no letters has no voice.
    """
    voices = [script(text) for text in (summary, *due, *window) if any(map(str.isalpha, text[:2000]))]
    chinese = voices.count("zh")
    if chinese * 2 == len(voices):
        return voices[0] if voices else DEFAULT_LOCALE
    return "zh" if chinese * 2 > len(voices) else "en"


def quotable(turn: Turn) -> extractive.Turn:
    """Returns a turn as the builtin summarizer may quote it: sanitized, and as much as it looks at."""
    return extractive.Turn(
        sanitize(turn.own_input[:QUOTED_CHARACTERS]), sanitize(_told(turn)[:QUOTED_CHARACTERS]), turn.outcome
    )


def judge(answer: str, asked: Plan, instructions: str, meter: Meter, truncated: bool = False) -> tuple[str, str]:
    """Returns the summary that an answer holds and an empty reason, or an empty text and why it is none.

    An answer that was `truncated` tells the older runs and not the newer ones, unless it is longer than a summary may
    be and is cut here anyway. Reasons: SUMMARY_EMPTY, SUMMARY_TOO_LONG, SUMMARY_NOT_PROSE, SUMMARY_REFUSED,
    SUMMARY_ECHOED, SUMMARY_REPEATS, SUMMARY_WRONG_LANGUAGE, SUMMARY_CUT_OFF.
    """
    text = _unwrapped(answer)
    if not any(c.isalnum() for c in text):
        return "", "SUMMARY_EMPTY"
    if len(text) > MAX_ANSWER_TOKENS * CHARACTERS_PER_TOKEN or meter.count(text) > MAX_ANSWER_TOKENS:
        return "", "SUMMARY_TOO_LONG"
    for reason, holds in (
        ("SUMMARY_NOT_PROSE", _is_not_prose(text)),
        ("SUMMARY_REFUSED", _is_refusal(text)),
        ("SUMMARY_ECHOED", _is_echo(text, asked, instructions)),
        ("SUMMARY_REPEATS", _repeats(text)),
        ("SUMMARY_WRONG_LANGUAGE", _is_foreign(text, asked)),
        ("SUMMARY_CUT_OFF", truncated and meter.count(text) < SUMMARY_LIMIT),
    ):
        if holds:
            return "", reason
    return sanitize(text), ""


def fit(summary: str, meter: Meter) -> str:
    """Returns `summary` cut to the summary's limit, its label and marks included, where it can at a sentence's end."""
    labels = [frames_of(locale).summary_label for locale in LOCALES]

    def tokens(text: str) -> int:
        return max(meter.count(lay_out(label, text)) for label in labels)

    cut, room = summary, SUMMARY_LIMIT
    while tokens(cut) > SUMMARY_LIMIT:
        cut = _to_a_sentence(meter.ends(summary, room, 0)[0])
        # Less each time, in proportion: of many short lines the marks take most.
        room = max(0, min(room - 8, room * SUMMARY_LIMIT // tokens(cut)))
    return cut


def _to_a_sentence(start: str) -> str:
    """Returns a text without the sentence that breaks off at its end; whole, where that would be half of it."""
    ends = [m.end() for m in _SENTENCE_END.finditer(start)]
    return start[: ends[-1]].rstrip() if ends and ends[-1] * 2 > len(start) else start.rstrip()


def keep_checkpoints(folded_counts: Sequence[int]) -> list[int]:
    """Chooses which checkpoints to keep, at most 16, given how many runs each covers, ascending.

    The newest stay; the further back, the wider apart: among too many, the one goes whose neighbours lie nearest to
    one another in proportion to their age, so that a deletion anywhere redoes a bounded share of the work behind it.
    """
    kept = list(folded_counts)
    while len(kept) > MAX_CHECKPOINTS:
        newest = kept[-1]
        gaps = [((kept[i + 1] - kept[i - 1]) / (newest - kept[i] + 1), i) for i in range(1, len(kept) - 1)]
        del kept[min(gaps)[1]]
    return kept


def _told(turn: Turn) -> str:
    """What of an output may be told to a model: nothing of a failed run's."""
    return "" if turn.outcome is RunOutcome.FAILED else turn.output


def _lines(given: str, output: str, outcome: RunOutcome, frames: Frames) -> str:
    answer = sanitize(output)
    if outcome is RunOutcome.FAILED:
        answer = frames.failed_turn
    elif outcome is RunOutcome.CANCELLED:
        answer += frames.stopped_turn
    return lay_out(frames.user_mark, sanitize(given)) + lay_out(frames.assistant_mark, answer)


def _piece(turn: Turn, offset: int, room: int, frames: Frames, meter: Meter) -> tuple[str, int, int]:
    """Returns the lines of a turn from `offset` on that fit into `room`, their tokens, and the offset they end at."""
    output = _told(turn)
    border = len(turn.own_input)
    length = border + len(output)
    window = (turn.own_input + output)[offset : offset + room * CHARACTERS_PER_TOKEN]
    budget = room - meter.count(_lines("", "", turn.outcome, frames)) - 2
    while True:
        taken = window if budget >= len(window) else meter.ends(window, max(budget, 1), 0)[0]
        taken = taken or window[:1]
        end = offset + len(taken)
        given = taken[: max(0, border - offset)]
        answer = taken[len(given) :]
        if end >= length:
            lines = _lines(given, answer, turn.outcome, frames)
        else:  # the marks of the outcome stand at the end, and this is not the end
            lines = lay_out(frames.user_mark, sanitize(given)) if given else ""
            lines += lay_out(frames.assistant_mark, sanitize(answer)) if answer else ""
        tokens = meter.count(lines)
        if tokens <= room or len(taken) <= 1:
            return lines, tokens, end
        # In proportion: short lines take far more when each has its mark, and one token may be many characters.
        budget = min(budget - 8, budget * room // tokens)


# A summary that a model wraps in a fence, a heading or quotation marks is the same summary.
_FENCE = re.compile(r"\A```[\w-]*\n(.*?)\n?```\Z", re.S)
_HEADING = re.compile(
    r"\A[#*\s]*(?:以下|这)?是?(?:新的?|更新后的?|滚动|对话|的)*摘要(?:如下|是)?[*\s]*[:：][*\s]*"
    r"|\A[#*\s]*(?:(?:here is|this is|sure, here is|the|a|new|updated|rolling|revised) ){0,5}"
    r"summary(?: is| of the conversation)?(?: so far)?[*\s]*:[*\s]*",
    re.I,
)
_HEADLINE = re.compile(r"\A(?:#{1,6}[ \t]|\*\*)[^\n]{0,30}(?:摘要|总结|小结|summary)[^\n]{0,20}(?:\n|\Z)\s*", re.I)
_WRAPPERS = {("[", "]"), ("(", ")"), ("（", "）"), ("“", "”"), ('"', '"'), ("「", "」"), ("【", "】")}
_REFUSAL = re.compile(
    r"\A[\s\"“]*(?:(?:非常|很|十分)?(?:抱歉|对不起|遗憾)|我(?:无法|不能|没有办法)|作为(?:一个|一名)?(?:AI|人工智能|语言模型)"
    r"|(?:i'?m|i am) (?:very |so |really )?(?:sorry|afraid|unable)|sorry[,.! ]|(?:i )?apologi[sz]e"
    r"|i (?:can(?:no|')t|cannot|won't|am not able)"
    r"|as an? (?:ai|language model)|unfortunately,? i)",
    re.I,
)
_SENTENCE_END = re.compile(r"[。！？；…\n]+[”’」』）)]*|[.!?;]+[\"')\]]*(?=\s|\Z)")
_CLAUSE_END = re.compile(r"[。！？；，、,;.!?\n]+")


def _unwrapped(answer: str) -> str:
    text = answer.strip()
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    text = _HEADLINE.sub("", text, count=1)
    text = _HEADING.sub("", text, count=1).strip()
    if _is_wrapped(text) and not _is_not_prose(text):
        text = text[1:-1].strip()
    return text


def _is_wrapped(text: str) -> bool:
    """Whether one pair of marks holds the whole: of two quotations the first mark's other half stands further in."""
    if len(text) <= 2 or (text[0], text[-1]) not in _WRAPPERS:
        return False
    opening, closing, depth = text[0], text[-1], 1
    for char in text[1:-1]:
        depth += (char != closing and char == opening) - (char == closing)
        if not depth:
            return False
    return True


def _is_not_prose(text: str) -> bool:
    """JSON, or markup of a page: an error of whatever stands between us and the model, or a misread task."""
    if text[0] == "<":
        return True
    if text[0] in "{[":
        try:
            json.loads(text)
        except ValueError:
            return text[0] == "{" and '":' in text.replace(" ", "")
        return True
    return False


def _is_refusal(text: str) -> bool:
    """An apology at the start that speaks of the model itself. A summary tells what the two did, not what 'I' can't."""
    return _REFUSAL.match(text) is not None


def _is_echo(text: str, asked: Plan, instructions: str) -> bool:
    """The instructions given back, or the conversation copied out instead of summed up."""
    folded = "".join(text.split())
    if any(len(line) >= 12 and line in folded for line in ("".join(i.split()) for i in instructions.splitlines())):
        return True
    frames = frames_of(asked.locale)
    marks = (frames.user_mark.strip(), frames.assistant_mark.strip())
    return sum(line.startswith(marks) for line in text.splitlines()) >= 2


def _repeats(text: str) -> bool:
    """A small model that runs in circles: of eight clauses and more, most said before."""
    clauses = ["".join(c.split()).casefold() for c in _CLAUSE_END.split(text)]
    clauses = [c for c in clauses if c]
    return len(clauses) >= 8 and len(set(clauses)) * 2 < len(clauses)


def _is_foreign(text: str, asked: Plan) -> bool:
    """A summary in another script than the whole of what it sums up."""
    if asked.locale == "zh":
        return script(text) != "zh" and not any("\u3400" <= c <= "\u9fff" for c in text)
    return script(text) == "zh" and not any("\u3400" <= c <= "\u9fff" for c in asked.lines)
