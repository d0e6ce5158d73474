"""The token ledger: what each section may take, and how a limit is shared where not all fits.

Limits are tokens throughout. Two orders, on purpose: sections are rendered core, thread, recall, knowledge, and paid
core, thread, knowledge, recall. What is granted is never exceeded; what is not used goes to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

DEFAULT_BUDGET = 6000
MAX_BUDGET = 128_000

CORE_LIMIT = 1000
THREAD_LIMIT = 2000
SUMMARY_LIMIT = 600
RECENT_LIMIT = 1200
RECALL_LIMIT = 1000
GIST_INPUT_LIMIT = 100
GIST_OUTPUT_LIMIT = 200
"""Of a recalled run; three such runs and the frame fit into the recall section."""

NEWEST_WEIGHT = 3
OLDER_WEIGHT = 2


class Meter(Protocol):
    """Counts tokens; `memsvc.tokens.Tokenizer` is one. Cuts are remembered by the meter that made them."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """The encoding's name."""

    @property
    def additive(self) -> bool:
        """Whether counts of pieces add up: each piece begins with a non-space and ends in a line feed."""

    def count(self, text: str) -> int:
        """Returns the tokens of `text`."""

    def ends(self, text: str, head: int, tail: int) -> tuple[str, str]:
        """Returns about the first `head` and the last `tail` tokens of `text`."""


def share(needs: Sequence[int], limit: int) -> list[int]:
    """Shares `limit` among `needs`, which stand newest first; no grant exceeds its need.

    All of it where all fit. Else the newest weighs 3 against 2 of every other, and what one leaves over is shared
    among the rest, so that a newer run never keeps less than an equally long older one.
    """
    grants = [0] * len(needs)
    open_needs = [i for i, need in enumerate(needs) if need > 0]
    left = max(0, limit)
    while open_needs:
        weights = {i: NEWEST_WEIGHT if i == 0 else OLDER_WEIGHT for i in open_needs}
        total = sum(weights.values())
        satisfied = [i for i in open_needs if needs[i] <= left * weights[i] // total]
        if not satisfied:
            for i in open_needs:
                grants[i] = left * weights[i] // total
            break
        for i in satisfied:
            grants[i] = needs[i]
        left -= sum(needs[i] for i in satisfied)
        open_needs = [i for i in open_needs if i not in satisfied]
    return grants


def share_runs(needs: Sequence[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """Shares `limit` among the (input, output) needs of runs, newest first.

    Inputs go before outputs: what the user asked steers what comes next. Long inputs leave the outputs half all the
    same, since an answer nobody sees was given in vain.
    """
    wanted_by_outputs = sum(output for _, output in needs)
    inputs = share([given for given, _ in needs], max(limit // 2, limit - wanted_by_outputs))
    outputs = share([output for _, output in needs], limit - sum(inputs))
    return list(zip(inputs, outputs, strict=True))
