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
        # The characters that are asked about, and what each weighs: half a pair, since the pair's other character has
        # the other half; one between function words has but loose pairs, and one by itself has none.
        parts: dict[str, int] = {}
        weights: list[float] = []
        ranks: list[int] = []
        of_terms = [_topics(term.term) if term.kind in _RANK else () for term in terms]
        halves = [worth / 2 if term.kind is Kind.PAIR else worth for term, worth in zip(terms, worths, strict=True)]
        for term, topics, half in zip(terms, of_terms, halves, strict=True):
            rank = _RANK.get(term.kind, 0)
            for character in topics:
                part = parts.setdefault(character, len(weights))
                if part == len(weights):
                    weights.append(half)
                    ranks.append(rank)
                elif rank > ranks[part]:
                    weights[part], ranks[part] = half, rank
                elif rank == ranks[part] and half > weights[part]:
                    weights[part] = half
        # For each term, the parts of the question that it finds, and what it is worth to each. A word is one by itself.
        self._finds: list[list[tuple[int, float]]] = []
        self._parts = len(weights)
        self._weight = sum(weights)
        for term, topics, half in zip(terms, of_terms, halves, strict=True):
            finds = []
            for character in topics:
                part = parts[character]
                weight = weights[part]
                beside_pairs = term.kind is Kind.CHAR and ranks[part] > _RANK[Kind.CHAR]
                finds.append((part, _CHARACTER_WORTH * weight if beside_pairs else min(half, weight)))
            self._finds.append(finds)
        if parts:
            for at, term in enumerate(terms):
                if not self._finds[at] and term.kind is not Kind.DATE:
                    self._finds[at].append((self._parts, worths[at]))
                    self._parts += 1
                    self._weight += worths[at]

    def score(self, gains: Mapping[int, float], terms: int) -> float:
        """Returns the score, 0 to 1, of a run of `terms` distinct terms, in which these of the query have a gain."""
        worths, finds, characters = self._worths, self._finds, self._characters
        chance = chance_share(terms) if characters else 1.0
        evidence = 0.0
        found = [0.0] * self._parts
        for at, of_term in gains.items():
            gain = of_term * chance if characters and at in characters else of_term
            evidence += worths[at] * gain
            for part, worth in finds[at]:
                if (value := worth * gain) > found[part]:
                    found[part] = value
        # What was said on another day may well be about that one: a date counts where it is found, and nowhere else.
        total = self._total
        if self._dates:
            total -= sum([worths[at] for at in self._dates if at not in gains])
        if not self._weight:
            return score(evidence, total, evidence / total if total else 0.0)
        return score(evidence, total, sum(found) / self._weight)


_RANK = {Kind.PAIR: 2, Kind.LOOSE: 1, Kind.CHAR: 0}
"""The kinds that are made of characters; of those that a character stands in, the highest say what it weighs."""


@lru_cache(maxsize=16_384)
def _topics(term: str) -> tuple[str, ...]:
    """The characters of a term that may be what is asked about."""
    return tuple(c for c in dict.fromkeys(term) if is_cjk(c) and not is_function_character(c))
