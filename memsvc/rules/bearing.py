"""How much a run bears on a query, from what is found of each of its terms there: one number for order and threshold.

Pairs of neighbours find Chinese words without a dictionary, but half the pairs of a question straddle two words, and a
run is not to be blamed for lacking those. So a question is also read character by character: each counts as found
with the best that was found of the pairs it stands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from memsvc.rules.ranking import chance_share, score
from memsvc.rules.terms import Kind, QueryTerm, is_cjk, is_function_character

_CHARACTER_WORTH = 0.3  # of a pair's: what a character by itself says where a pair with it is wanted


class Bearing:
    """Made once for a query, by its terms and what each is worth; then asked of each run."""

    __slots__ = ("_characters", "_dates", "_finds", "_parts", "_total", "_weight", "_worths")

    def __init__(self, terms: Sequence[QueryTerm], worths: Sequence[float]) -> None:
        self._worths = worths
        self._total = sum(worths)
        self._characters = frozenset([at for at, term in enumerate(terms) if term.kind is Kind.CHAR])
        self._dates = [at for at, term in enumerate(terms) if term.kind is Kind.DATE]
        # For each term, the parts of the question that it finds, and what it is worth to each.
        self._finds: list[list[tuple[int, float]]] = [[] for _ in terms]
        around: dict[str, list[int]] = {}
        for at, term in enumerate(terms):
            if term.kind in _OF_CHARACTERS:
                for character in _topics(term.term):
                    around.setdefault(character, []).append(at)
        self._weight = sum([self._share_out(part, ats, terms) for part, ats in enumerate(around.values())])
        self._parts = len(around)
        if around:
            for at, term in enumerate(terms):
                if not self._finds[at] and term.kind is not Kind.DATE:
                    self._finds[at].append((self._parts, worths[at]))
                    self._parts += 1
                    self._weight += worths[at]

    def _share_out(self, part: int, ats: Sequence[int], terms: Sequence[QueryTerm]) -> float:
        """Notes what each term is worth to the character in which these meet; returns what the character weighs."""
        worths = [self._worths[at] for at in ats]
        kinds = [terms[at].kind for at in ats]
        # Half a pair, since its other character has the other half; a character between function words has but loose
        # pairs, and one by itself has none.
        weight = max(
            [worth / 2 for worth, kind in zip(worths, kinds, strict=True) if kind is Kind.PAIR]
            or [worth for worth, kind in zip(worths, kinds, strict=True) if kind is Kind.LOOSE]
            or worths
        )
        for at, worth, kind in zip(ats, worths, kinds, strict=True):
            half = worth / 2 if kind is Kind.PAIR else worth
            alone = kind is not Kind.CHAR or len(ats) == 1
            self._finds[at].append((part, min(half, weight) if alone else _CHARACTER_WORTH * weight))
        return weight

    def score(self, gains: Mapping[int, float], terms: int) -> float:
        """Returns the score, 0 to 1, of a run of `terms` distinct terms, in which these of the query have a gain."""
        worths, finds, characters = self._worths, self._finds, self._characters
        chance = chance_share(terms)
        evidence = 0.0
        found = [0.0] * self._parts
        for at, of_term in gains.items():
            gain = of_term * chance if at in characters else of_term
            evidence += worths[at] * gain
            for part, worth in finds[at]:
                if (value := worth * gain) > found[part]:
                    found[part] = value
        # What was said on another day may well be about that one: a date counts where it is found, and nowhere else.
        total = self._total - sum([worths[at] for at in self._dates if at not in gains])
        if not self._weight:
            return score(evidence, total, evidence / total if total else 0.0)
        return score(evidence, total, sum(found) / self._weight)


_OF_CHARACTERS = frozenset({Kind.PAIR, Kind.LOOSE, Kind.CHAR})


@lru_cache(maxsize=16_384)
def _topics(term: str) -> tuple[str, ...]:
    """The characters of a term that may be what is asked about."""
    return tuple(c for c in dict.fromkeys(term) if is_cjk(c) and not is_function_character(c))
