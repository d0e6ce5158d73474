"""Facts of the user: when two of them are one, what text may be one at all, and which gives way when there are thirty.

Two texts are the same fact only when nothing but spelling parts them: 喜欢 and 不喜欢, 2道 and 3道, 1.5倍 and 15倍,
C# and C stay two. What is kept is byte for byte what is shown, so what the boundary would change is no fact's text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from memsvc.errors import InvalidField, RedLine
from memsvc.rules import redline
from memsvc.rules.bearing import Bearing
from memsvc.rules.boundary import sanitize
from memsvc.rules.ranking import GAINS, THRESHOLD, gain_level, steady, weight
from memsvc.rules.terms import QueryTerm, count_terms

MAX_FACTS = 30
"""Facts a scope may hold."""
MAX_CHARACTERS = 200
"""Characters (code points) of one fact."""
MAX_CANDIDATES = 200
"""Candidates that wait in a scope; beyond it the least confident gives way, among equals the oldest."""
MAX_SOURCES = 100
"""Runs that are kept as sources of one candidate or fact; what a hundred runs support needs no further one."""

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_QUOTES = "\"'“”‘’„«»「」『』〈〉《》()[]{}<>【】〔〕〖〗"
_STOPS = ",;:!?、。…·•~—–"
# A point, a minus, a number or a percent sign at the edge of a word is part of it (.5, -3, B-, C#, 20%); only at the
# end of the text does a point close a sentence.
_BEGINNING = re.compile(rf"\A[\s{re.escape(_QUOTES + _STOPS)}]+")
_ENDING_MARKS = frozenset(_QUOTES + _STOPS + ".")
_BETWEEN = re.compile(rf"(?<=[{_CJK}])[\s{re.escape(_QUOTES + _STOPS)}.\-]+(?=[{_CJK}])")
_BESIDE = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")
_PARTICLES = frozenset("吧啊呢呀哦嘛")
# Nouns that end in such a character keep it: who likes bars does not like wine.
_NOUNS = ("酒吧", "网吧", "书吧", "茶吧", "贴吧", "毛呢", "花呢", "喇嘛")
# Characters that show nothing: a text could be full of them and look like another.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""Unseen as well, but emoji and some scripts are not written without them."""


class Used(Protocol):
    """What is known of a fact's use."""

    @property
    def last_used_us(self) -> int:
        """Microseconds since the epoch."""


class Worded(Protocol):
    """What is known of a fact's words."""

    @property
    def text(self) -> str:
        """The fact's text."""


def key(text: str) -> str:
    """Returns what two texts have in common when they say the same fact: it differs where anything but spelling does.

    Gone are compatibility forms (NFKC), case, spaces but those between Latin words, punctuation at the ends and between
    CJK characters, and the final particles 吧啊呢呀哦嘛.
    """
    folded = unicodedata.normalize("NFKC", "".join(c for c in text if not _is_invisible(c))).casefold()
    folded = " ".join(_BETWEEN.sub("", _BEGINNING.sub("", folded)).split())
    folded = _BESIDE.sub("", folded)
    end = len(folded)
    while end and (folded[end - 1] in _ENDING_MARKS or folded[end - 1].isspace() or _is_particle(folded, end)):
        end -= 1
    return folded[:end] or folded


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f"


def _is_particle(text: str, end: int) -> bool:
    return text[end - 1] in _PARTICLES and not text.endswith(_NOUNS, 0, end)


def checked(text: str) -> str:
    """Returns a text that a person wrote, without blanks at its ends, or raises InvalidField or RedLine.

    It is not changed otherwise: what the person saw is what is kept, shown and injected, or it is refused.
    """
    fact = text.strip()
    if why := _why_not(fact):
        raise InvalidField("text", why)
    if category := redline.category(fact):
        raise RedLine(category)
    return fact


def _why_not(fact: str) -> str:
    if not 1 <= len(fact) <= MAX_CHARACTERS:
        return f"must be 1 to {MAX_CHARACTERS} characters"
    if len(fact.splitlines()) != 1:
        return "must be one statement on one line"
    if any(unicodedata.category(c) in _UNSEEN and c not in _JOINERS for c in fact):
        return "must not hold characters that nobody can see"
    if not any(c.isalnum() for c in fact):
        return "must hold a word"
    if sanitize(fact) != fact:
        return "reads like a role label, a system marker or a frame of the context; put it in other words"
    return ""


def proposed(text: str) -> str | None:
    """Returns a text that a model proposes, as it may be kept; None where it cannot be a fact's.

    Unlike a person's it is mended: on one line, without what cannot be seen, and sanitized. So a person who confirms
    it has seen every byte of what will be injected. Red lines are the caller's to ask for.
    """
    if any("\ud800" <= c <= "\udfff" for c in text):
        return None
    seen = "".join(c for c in text if unicodedata.category(c) not in _UNSEEN or c in _JOINERS or c.isspace())
    fact = sanitize(" ".join(seen.split())).strip()
    return None if _why_not(fact) else fact


def to_evict(facts: Sequence[Used]) -> int:
    """Returns the index of the fact that gives way, of facts in the order of confirmation.

    The least recently used one, among equals the earliest confirmed.
    """
    return min(range(len(facts)), key=lambda i: (facts[i].last_used_us, i))


def order(facts: Sequence[Worded], terms: Sequence[QueryTerm]) -> list[int]:
    """Returns the indices of facts, given oldest confirmation first: those to keep first when not all fit.

    Those that bear on the query by recall's score come first, the best before the others; then the most recently
    confirmed.
    """
    scores = _scores([fact.text for fact in facts], terms)
    return sorted(range(len(facts)), key=lambda i: (-scores[i] if scores[i] > THRESHOLD else 0.0, -i))


def _scores(texts: Sequence[str], terms: Sequence[QueryTerm]) -> list[float]:
    """How much each text bears on the query, 0 to 1, the facts being the whole of the collection."""
    counts = [_counts(text) for text in texts]
    worths = [steady(t.kind, weight(t.kind, sum(t.term in c for c in counts), len(texts))) for t in terms]
    bearing = Bearing(terms, worths)

    def score_of(found: Mapping[str, int]) -> float:
        length = sum(found.values())
        gains = {at: GAINS[gain_level(found[t.term], length)] for at, t in enumerate(terms) if t.term in found}
        return bearing.score(gains, len(found))

    return [score_of(found) for found in counts]


@lru_cache(maxsize=256)
def _counts(text: str) -> Mapping[str, int]:
    """The terms of a fact, remembered: from call to call the same facts do not fit. At most 16 MiB of them."""
    return count_terms(text)
