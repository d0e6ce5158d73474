"""The cost curve: what a conversation's turns took with memory, and what sending its whole history would have taken.

What the runner reported is all there is to go by. A prompt is the context, the runner's own instructions and the
user's words; `usage.input_tokens` less `context_token_count` is therefore the latter two. The least of that in a thread
is taken for the instructions, which are sent once and not with every turn of a history: so the history is counted at
least as short as it was, and the comparison never flatters memory. It holds where a run is one call of a model; a run
that makes several counts its context as often, and the reader is told so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_pb2 as pb


@dataclass(frozen=True, slots=True)
class Turn:
    """One run, in tokens. `prompt` is what the model read, None where the runner did not say; `memory` is what memory's
    own calls took between this run and the next; `history` what the prompt would have been with the whole history at
    least, None where that cannot be told.
    """

    number: int
    run_id: str
    context: int
    prompt: int | None
    output: int
    memory: int
    history: int | None


@dataclass(frozen=True, slots=True)
class Curve:
    """The turns of a thread, oldest first."""

    turns: tuple[Turn, ...]

    @property
    def is_known(self) -> bool:
        """Whether the whole history can be told, and so compared."""
        return bool(self.turns) and all(turn.history is not None for turn in self.turns)

    @property
    def with_memory(self) -> int:
        """Tokens that were read, memory's own calls included."""
        return sum((turn.prompt or turn.context) + turn.memory for turn in self.turns)

    @property
    def with_history(self) -> int:
        """Tokens that would have been read, at least."""
        return sum(turn.history or 0 for turn in self.turns)

    @property
    def pays_from(self) -> int | None:
        """The first turn from which on memory has been the cheaper way in all; None where it has not been yet."""
        first = None
        for turn, ours, theirs in zip(self.turns, self.running_memory(), self.running_history(), strict=True):
            if ours > theirs:
                first = None
            elif first is None and ours < theirs:
                first = turn.number
        return first

    def running_memory(self) -> list[int]:
        """Tokens read up to each turn, with memory."""
        return list(accumulate((turn.prompt or turn.context) + turn.memory for turn in self.turns))

    def running_history(self) -> list[int]:
        """The same with the whole history, at least."""
        return list(accumulate(turn.history or 0 for turn in self.turns))


def curve(runs: Sequence[pb.Run], ops: Sequence[pb.MemoryOp]) -> Curve:
    """Makes the curve of a thread's runs, oldest first from its first one on, and of memory's calls for it."""
    own = [run.usage.input_tokens - run.context_token_count for run in runs]
    known = bool(runs) and all(run.usage.input_tokens > 0 for run in runs) and min(own) >= 0
    instructions = min(own) if known else 0
    memory = _by_turn(runs, ops)
    past = 0
    turns = []
    for i, run in enumerate(runs):
        turns.append(
            Turn(
                i + 1,
                run.run_id,
                run.context_token_count,
                run.usage.input_tokens or None,
                run.usage.output_tokens,
                memory[i],
                past + own[i] if known else None,
            )
        )
        past += own[i] - instructions + run.usage.output_tokens
    return Curve(tuple(turns))


def _by_turn(runs: Sequence[pb.Run], ops: Sequence[pb.MemoryOp]) -> list[int]:
    """Memory's tokens by the turn after which they were spent; of a call before the first, by the first."""
    begun = list(accumulate((_nanos(run.create_time) for run in runs), max))
    found = [0] * len(runs)
    if found:
        for op in ops:
            turn = max(0, bisect_right(begun, _nanos(op.create_time)) - 1)
            found[turn] += op.usage.input_tokens + op.usage.output_tokens
    return found


def _nanos(stamp: Timestamp) -> int:
    return stamp.ToNanoseconds()
