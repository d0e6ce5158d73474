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

    __slots__ = ("_characters", "_dates", "_finds", "_parts", "_shape", "_total", "_weight", "_worths")

    def __init__(self, terms: Sequence[QueryTerm], worths: Sequence[float]) -> None:
        self._weigh(_Shape(terms), worths)

    def weighed(self, worths: Sequence[float]) -> Bearing:
        """Returns the same for other worths of the terms."""
        other = Bearing.__new__(Bearing)
        other._weigh(self._shape, worths)
        return other

    def _weigh(self, shape: _Shape, worths: Sequence[float]) -> None:
        self._shape, self._characters, self._dates = shape, shape.single, shape.dates
        self._worths = worths
        self._total = sum(worths)
        # Half a pair, since the pair's other character has the other half.
        halves = list(worths)
        for at in shape.pairs:
            halves[at] /= 2
        weights = [0.0] * shape.characters
        for at, part in shape.weighing:
            if (half := halves[at]) > weights[part]:
                weights[part] = half
        # For each term, the parts of the question that it finds, and what it is worth to each.
        finds: list[list[tuple[int, float]]] = [[] for _ in worths]
        for at, part in shape.finding:
            half, weight = halves[at], weights[part]
            finds[at].append((part, half if half < weight else weight))
        for at, part in shape.beside:
            finds[at].append((part, _CHARACTER_WORTH * weights[part]))
        if weights:
            for at in shape.words:
                finds[at].append((len(weights), worths[at]))
                weights.append(worths[at])
        self._finds = finds
        self._parts = len(weights)
        self._weight = sum(weights)

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


_RANK = {Kind.PAIR: 3, Kind.LOOSE: 2, Kind.CHAR: 1}
"""The kinds that are made of characters; of those that a character stands in, the highest say what it weighs: one
between function words has but loose pairs, and one by itself has none."""


class _Shape:
    """How the terms of a question, by their places in it, stand to its parts: its characters, and each of its words."""

    __slots__ = ("beside", "characters", "dates", "finding", "pairs", "single", "weighing", "words")

    def __init__(self, terms: Sequence[QueryTerm]) -> None:
        self.single = frozenset([at for at, term in enumerate(terms) if term.kind is Kind.CHAR])
        self.dates = [at for at, term in enumerate(terms) if term.kind is Kind.DATE]
        self.pairs = [at for at, term in enumerate(terms) if term.kind is Kind.PAIR]
        self.words: list[int] = []
        parts: dict[str, int] = {}
        ranks: list[int] = []
        members: list[tuple[int, int, int]] = []
        for at, term in enumerate(terms):
            rank = _RANK.get(term.kind, 0)
            topics = _topics(term.term) if rank else ()
            for character in topics:
                part = parts.setdefault(character, len(ranks))
                if part == len(ranks):
                    ranks.append(rank)
                elif rank > ranks[part]:
                    ranks[part] = rank
                members.append((rank, at, part))
            if not topics and term.kind is not Kind.DATE:
                self.words.append(at)
        self.characters = len(ranks)
        self.weighing = [(at, part) for rank, at, part in members if rank == ranks[part]]
        self.finding = [(at, part) for rank, at, part in members if rank > 1 or ranks[part] == 1]
        self.beside = [(at, part) for rank, at, part in members if rank == 1 < ranks[part]]


@lru_cache(maxsize=16_384)
def _topics(term: str) -> tuple[str, ...]:
    """The characters of a term that may be what is asked about."""
    return tuple(c for c in dict.fromkeys(term) if is_cjk(c) and not is_function_character(c))
