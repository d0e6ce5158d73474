"""Extraction: which exchanges a model is asked about, and what of its answer may be proposed as a fact of the user.

Only what the user said can be a fact of the user; the assistant's words go along, cut short, so that "the second one"
can be understood. An answer is NONE, or objects with a fact, or a failed call; whatever it proposes is a candidate and
no more. Nothing here decides that something is true.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memsvc.rules import facts, redline
from memsvc.rules.boundary import sanitize
from memsvc.rules.budget import Meter
from memsvc.rules.frames import frames as frames_of
from memsvc.rules.frames import lay_out
from memsvc.rules.lenient import objects
from memsvc.rules.shown import ShownText, clip, cut, script
from memsvc.rules.terms import Kind, count_terms, kind_of

INPUT_LIMIT = 2_000
"""Tokens of one input. A longer one is mostly pasted material; what its user says of it stands at its ends."""
OUTPUT_LIMIT = 150
"""Tokens of one output, which is context and no more."""
KNOWN_LIMIT = 1_000
"""Tokens of known facts that are shown, so that the model does not propose them again."""
LEAST_ROOM = 300
"""Tokens for exchanges that every call has, whatever the instructions and the known facts take."""
MAX_PROPOSALS = 10
MAX_ANSWER_CHARACTERS = 20_000
USUAL_CONFIDENCE = 0.5
"""What an answer means that gives none."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A completed run as extraction reads it."""

    own_input: str
    output: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What one call asks about: the numbered lines of the prompt, and what they were made of.

    `exchanges` are those that found room, oldest first; at least one.
    """

    locale: str
    lines: str
    exchanges: Sequence[Exchange]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A fact that a model proposes. `exchanges` and `supersedes` are indices of what it was shown, from 0."""

    text: str
    confidence: float
    exchanges: tuple[int, ...]
    supersedes: int | None


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of an answer: proposals, how many were refused and why, or a `reason` why it is no answer."""

    proposals: Sequence[Proposal] = ()
    refused: dict[str, int] = field(default_factory=dict)
    reason: str = ""


def plan(exchanges: Sequence[Exchange], room: int, meter: Meter) -> Asked:
    """Takes as many exchanges, oldest first, as fit into `room` tokens; at least one, both ends of it if it is long."""
    room = max(room, LEAST_ROOM)
    locale = locale_of(exchanges)
    lines, tokens = "", 0
    for number, exchange in enumerate(exchanges, 1):
        more = _lines(number, exchange, locale, room, meter)
        tokens += meter.count(more)
        if tokens > room and lines:
            return Asked(locale, lines, exchanges[: number - 1])
        lines += more
    return Asked(locale, lines, exchanges)


def locale_of(exchanges: Sequence[Exchange]) -> str:
    """Returns the language that the users of these exchanges write, by their script."""
    return script("\n".join(e.own_input[:500] or e.output[:500] for e in exchanges[:20]))


def _lines(number: int, exchange: Exchange, locale: str, room: int, meter: Meter) -> str:
    frames = frames_of(locale)
    parts = (
        (f"({number}) {frames.user_mark}", exchange.own_input, min(INPUT_LIMIT, room * 2 // 3)),
        (f"({number}) {frames.assistant_mark}", exchange.output, min(OUTPUT_LIMIT, room // 4)),
    )
    lines = ""
    for mark, text, limit in parts:

        def draw(shown: ShownText, mark: str = mark) -> str:
            return lay_out(mark, shown.joined(frames))

        line = cut(clip(text, limit), limit, draw, meter)
        lines += draw(line.text) if line else lay_out(mark, "")
    return lines


def known_lines(texts: Sequence[str], limit: int, meter: Meter) -> tuple[str, int]:
    """Returns the numbered lines of known facts, those to show first given first, and how many found room."""
    lines, tokens = "", 0
    for number, text in enumerate(texts, 1):
        line = lay_out(f"{number}. ", sanitize(text))
        tokens += meter.count(line)
        if tokens > limit:
            return lines, number - 1
        lines += line
    return lines, len(texts)


def judge(answer: str, asked: Asked, known_count: int, instructions: str) -> Judged:
    """Returns what an answer proposes.

    `known_count` is the number of known facts that were shown. A reason is EXTRACTION_EMPTY, EXTRACTION_TOO_LONG,
    EXTRACTION_ECHOED or EXTRACTION_NOT_FACTS. Proposals are refused for FORM, RED_LINE, LANGUAGE, ASSISTANT (only the
    assistant said it) or NUMBER (more than ten).
    """
    text = answer.strip()
    if not any(c.isalnum() or c in "[{【｛" for c in text):
        return Judged(reason="EXTRACTION_EMPTY")
    if len(text) > MAX_ANSWER_CHARACTERS:
        return Judged(reason="EXTRACTION_TOO_LONG")
    if _is_echo(text, instructions):
        return Judged(reason="EXTRACTION_ECHOED")
    found = objects(text)
    items = [item for each in found for item in _items(each)]
    if not items:
        holds_none = _says_none(text) or any(_is_void(each) for each in found)
        return Judged() if holds_none else Judged(reason="EXTRACTION_NOT_FACTS")
    return _admit(items, asked, known_count)


def _admit(items: Sequence[dict[str, Any]], asked: Asked, known_count: int) -> Judged:
    refused: Counter[str] = Counter()
    admitted: dict[str, Proposal] = {}
    heard = _Heard(asked)
    for item in items:
        said = item["fact"]
        if said is None or (isinstance(said, str) and _is_none(said)):
            continue
        fact = facts.proposed(said) if isinstance(said, str) else None
        if fact is None:
            refused["FORM"] += 1
        elif redline.category(said) or redline.category(fact):
            refused["RED_LINE"] += 1
        elif _is_foreign(fact, asked):
            refused["LANGUAGE"] += 1
        elif heard.from_assistant_alone(fact):
            refused["ASSISTANT"] += 1
        elif len(admitted) == MAX_PROPOSALS:
            refused["NUMBER"] += 1
        else:
            supersedes = _number(item.get("supersedes"), known_count)
            proposal = Proposal(fact, confidence(item.get("confidence")), _exchanges(item, asked), supersedes)
            admitted.setdefault(facts.key(fact), proposal)
    return Judged(list(admitted.values()), dict(refused))


# -- reading the answer

_FACT_NAMES = ("fact", "事实")
_LIST_NAMES = ("facts", "candidates", "result", "results", "事实", "fact")


def _items(read: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the proposals that an object is or holds, each with its text under `fact`."""
    for name in _LIST_NAMES:
        if isinstance(read.get(name), list):
            within = [{"fact": e} if isinstance(e, str) else e for e in read[name]]
            return [item for e in within if isinstance(e, dict) for item in _items(e)]
    for name in _FACT_NAMES:
        if name in read:
            return [{**read, "fact": read[name]}]
    return []


def _is_void(read: dict[str, Any]) -> bool:
    """`{}`, or a list of facts without any."""
    return not read or any(read.get(name) in ([], None) for name in _LIST_NAMES if name in read)


# 无法 and 没有办法 are no NONE but a refusal.
_NONE = re.compile(r"(?:none|null|nil|n/a|nothing|[无無](?!法)|[没沒]有(?!办法|辦法)|暂无)(?![a-z0-9])", re.I)
_EMPTY_LIST = re.compile(r"[\[【［]\s*[\]】］]")
_DRESS = "`*_#\"'“”‘’「」『』()（）<>《》【】[].。,，!！:：;；|~-— \t\r\n"


def _says_none(text: str) -> bool:
    """NONE in any dress: as the first word, on a line of its own, behind a colon; or a list of nothing."""
    lines = [bare for line in text.splitlines() if "```" not in line and (bare := line.strip(_DRESS))]
    if not lines:
        return _EMPTY_LIST.search(text) is not None
    return bool(_NONE.match(lines[0])) or any(_is_none(re.split("[:：]", line)[-1]) for line in lines)


def _is_none(text: str) -> bool:
    return _NONE.fullmatch(text.strip(_DRESS)) is not None


def _is_echo(text: str, instructions: str) -> bool:
    """The instructions given back: the form that they show is not a fact."""
    folded = "".join(text.split())
    return any(len(line) >= 12 and line in folded for line in ("".join(i.split()) for i in instructions.splitlines()))


# A number and what may stand around one. Words that hold a digit (an id, the fact itself) are no number.
_NUMBER = re.compile(
    r"[\s#(（\[【\"“]*(?:(?:fact|run|turn|exchange|no|number|known|事实|已知|编号|序号|对话)[\s.:：#]*){0,3}第?\s*"
    r"(\d{1,6})\s*[轮条个号项]?[\s.。、)）\]】\"”]*",
    re.I,
)
_WORDS_FOR = {"high": 0.9, "高": 0.9, "medium": 0.6, "中": 0.6, "low": 0.3, "低": 0.3}


def confidence(value: Any) -> float:
    """Returns a confidence from 0 to 1 of a number, a percentage or a word; 0.5 of anything else."""
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in _WORDS_FOR:
            return _WORDS_FOR[word]
        number = re.match(r"([0-9]{1,6}(?:[.．][0-9]{1,6})?)\s*([%％])?", word)
        if not number:
            return USUAL_CONFIDENCE
        value = float(number[1].replace("．", ".")) / (100 if number[2] else 1)
    if not isinstance(value, float) or math.isnan(value):
        return USUAL_CONFIDENCE
    share = value / 100 if 1 < value <= 100 else value
    return min(max(share, 0.0), 1.0)


def _exchanges(item: dict[str, Any], asked: Asked) -> tuple[int, ...]:
    """Returns the exchanges that a proposal names; all that were shown where it names none of them."""
    value = item.get("run", item.get("runs"))
    named = {_number(v, len(asked.exchanges)) for v in (value if isinstance(value, list) else [value])}
    return tuple(sorted(n for n in named if n is not None)) or tuple(range(len(asked.exchanges)))


def _number(value: Any, most: int) -> int | None:
    """Returns the index that a number from 1 to `most` stands for, however it is written; None for anything else."""
    if isinstance(value, str) and (found := _NUMBER.fullmatch(value[:40])):
        value = float(found[1])
    if isinstance(value, bool) or not isinstance(value, float) or not value.is_integer():
        return None
    return int(value) - 1 if 1 <= value <= most else None


# -- judging what it says

_OF_THE_USER = frozenset({"用户", "user"})
"""What facts begin with; it tells nothing of whose words the rest is."""


class _Heard:
    """Who said what in the exchanges that a call asked about; made once for all proposals of an answer."""

    def __init__(self, asked: Asked) -> None:
        self._exchanges = asked.exchanges
        self._user: frozenset[str] | None = None
        self._assistant: frozenset[str] = frozenset()

    def from_assistant_alone(self, fact: str) -> bool:
        """Says whether what a fact has from the exchanges is in the assistant's words and in none of the user's."""
        if self._user is None:
            self._user = _weighty(*(e.own_input for e in self._exchanges))
            self._assistant = _weighty(*(e.output for e in self._exchanges))
        words = _weighty(fact) - _OF_THE_USER
        return not words & self._user and bool(words & self._assistant)


def _weighty(*texts: str) -> frozenset[str]:
    return frozenset(t for t in count_terms(*texts) if kind_of(t) in (Kind.WORD, Kind.PAIR))


def _is_foreign(fact: str, asked: Asked) -> bool:
    """A fact in another script than the whole of the conversation."""
    has_chinese = any("\u3400" <= c <= "\u9fff" for c in fact)
    if asked.locale == "zh":
        return not has_chinese
    return has_chinese and not any("\u3400" <= c <= "\u9fff" for c in asked.lines)
