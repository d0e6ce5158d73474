"""How much a past run bears on a query, on a scale that means the same in a small scope and in a large one.

BM25 in substance. What it lacks for a threshold is added: a term is judged by the *other* runs that have it, towards
a prior that its kind sets and never beyond it, and a length by a fixed one instead of the scope's mean. What comes
first among the runs of a scope is asked with all that the scope tells (`weight`); how far a run bears on the query is
asked with weights that lean on the scope as little as may be (`steady`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memsvc.rules.terms import Kind, QueryTerm

THRESHOLD = 0.2
"""A run that scores above it bears on the query; measured in docs/recall.md."""

_NEIGHBOUR_SHARE = 0.5  # what a term in the turn before or after counts at the most, against one in the run itself
_SHORT_TURN = 40  # distinct terms; a run that says more leans less on its neighbours, and has characters by chance

_SATURATION = 0.6  # BM25's k1: how much a second occurrence still adds
_LENGTH_SHARE = 0.6  # BM25's b: how much of a text's length counts against it
_USUAL_LENGTH = 100  # terms, repetitions counted: about what a short exchange has

# The share of runs in which a term of this kind is found before anything is known of it, and what its kind is worth.
_PRIOR_SHARE = {
    Kind.WORD: 0.003,
    Kind.SHORT: 0.02,
    Kind.PAIR: 0.002,
    Kind.LOOSE: 0.03,
    Kind.CHAR: 0.02,
    Kind.DATE: 0.003,
}
_WORTH = {Kind.WORD: 1, Kind.SHORT: 1, Kind.PAIR: 1, Kind.LOOSE: 0.5, Kind.CHAR: 0.3, Kind.DATE: 1}
_RARE = 6.0  # a term of this logarithm, in one run of 400, weighs as much
_EVENNESS = 0.75  # below 1, common terms come nearer to rare ones, so that no weight hangs on a few runs more or less


def _weight(kind: Kind, share: float) -> float:
    return _WORTH[kind] * _RARE * math.pow(-math.log(share) / _RARE, _EVENNESS)


_PRIOR_WEIGHT = {kind: _weight(kind, share) for kind, share in _PRIOR_SHARE.items()}
# In a score, words, numbers and dates weigh by their kind: who is named in every run of a scope is the same as before.
# Of pairs the scope has to tell which are words and which only stand beside each other.
_STEADY = {kind: _PRIOR_WEIGHT[kind] for kind in (Kind.SHORT, Kind.CHAR, Kind.DATE)} | {
    Kind.WORD: _weight(Kind.WORD, 0.01)
}
# Among the runs of a scope, a pair that few have is a name more often than two words that happen to meet.
_LEAST_SHARE = _PRIOR_SHARE | {kind: _PRIOR_SHARE[kind] / 4 for kind in (Kind.PAIR, Kind.LOOSE)}
_MOST_WEIGHT = {kind: _weight(kind, share) for kind, share in _LEAST_SHARE.items()}
_PRIOR_RUNS = 50  # how many runs the prior outweighs
_MAX_SHARE = 0.2  # a name that everybody mentions still says whom a question is about; above it nothing counts less
_FEW_TERMS = 4  # beside characters; a query of fewer looks its characters up as well
_ENOUGH_TERMS = 12  # beside characters; to a query of as many its characters add more chance than evidence
_BY_CHARACTERS = 0.4  # of the share that is found: by characters, which know nothing of pairs that straddle two words
_SCALE = 1.395  # puts the threshold at 0.4 of the query; a steeper curve would say more than what is found does
_MUCH_EVIDENCE = 100  # some fifteen rare words: then much was found, however little of a long query it may be

GAIN_LEVELS = 64
"""A gain is kept as one of so many levels, each 1.05 times the one below, the highest `1 + _SATURATION`."""
_LEVEL_RATIO = 1.05
GAINS = tuple((1 + _SATURATION) * _LEVEL_RATIO ** (level - GAIN_LEVELS + 1) for level in range(GAIN_LEVELS))
"""What each level stands for."""


def gain_level(count: int, length: int) -> int:
    """Returns the level (an index of `GAINS`) of a term found `count` times in a run of `length` terms."""
    slack = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / _USUAL_LENGTH)
    gain = count * (1 + _SATURATION) / (count + slack)
    level = GAIN_LEVELS - 1 + round(math.log(gain / (1 + _SATURATION), _LEVEL_RATIO))
    return min(max(level, 0), GAIN_LEVELS - 1)


def divide(terms: Sequence[QueryTerm]) -> tuple[list[QueryTerm], list[QueryTerm]]:
    """Returns the terms that find candidates and those that only add to what is found.

    Single characters are in so many runs that they are read for themselves only where little else is said (早, 早报),
    and not at all where much is.
    """
    others = [term for term in terms if term.kind is not Kind.CHAR]
    if len(others) < _FEW_TERMS:
        return list(terms), []
    if len(others) >= _ENOUGH_TERMS:
        return others, []
    return others, [term for term in terms if term.kind is Kind.CHAR]


def weight(kind: Kind, found: int, entries: int) -> float:
    """Returns what a term weighs in the order that `found` of the scope's `entries` have; above 0, at most 7.2.

    The entry in question does not speak against the term, so one is taken off: in a scope of one run nothing is
    common. Single characters are judged by their kind alone.
    """
    if kind is Kind.CHAR or found <= 1:
        return _MOST_WEIGHT[kind]
    share = (found - 1 + _PRIOR_RUNS * _PRIOR_SHARE[kind]) / (entries - 1 + _PRIOR_RUNS)
    return _weight(kind, min(max(share, _LEAST_SHARE[kind]), _MAX_SHARE))


def steady(kind: Kind, weight: float) -> float:
    """Returns what a term of this kind counts in a score, given what it weighs among the runs of its scope.

    No term counts as rarer than its kind, so that a hundred thousand runs in which it is missing change nothing.
    """
    return _STEADY.get(kind) or min(weight, _PRIOR_WEIGHT[kind])


def neighbour_share(terms: int) -> float:
    """Returns what a term in a neighbouring turn counts for a run of `terms` distinct terms, against one of its own."""
    return _NEIGHBOUR_SHARE * min(1.0, _SHORT_TURN / max(terms, 1))


def chance_share(terms: int) -> float:
    """Returns what a single character counts in a run of `terms` distinct terms: a long text has many by chance."""
    return min(1.0, _SHORT_TURN / max(terms, 1))


def score(evidence: float, total: float, share: float) -> float:
    """Returns the score, 0 to 1, of an entry whose terms of the query weigh `evidence` of `total`.

    `share` is how much of the query that is by characters (see bearing). The score rises with both shares and,
    because a long chatty query has low ones by nature, with what is found as such.
    """
    if total <= 0 or evidence <= 0:
        return 0.0
    found = (1 - _BY_CHARACTERS) * evidence / total + _BY_CHARACTERS * share + evidence / _MUCH_EVIDENCE
    return 1 - math.exp(-_SCALE * min(found, 10.0) ** 2)
