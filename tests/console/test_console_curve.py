"""The cost curve is made of what the runner reported, and never flatters memory."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from memsvc_console.curve import curve

from memsvc.v1 import memory_pb2 as pb

T0 = 1_790_000_000


def at(second: int) -> Timestamp:
    return Timestamp(seconds=T0 + second)


def run(second: int, context: int, read: int, wrote: int) -> pb.Run:
    usage = pb.Usage(input_tokens=read, output_tokens=wrote)
    return pb.Run(run_id=f"r{second}", context_token_count=context, usage=usage, create_time=at(second))


def op(second: int, read: int, wrote: int) -> pb.MemoryOp:
    return pb.MemoryOp(usage=pb.Usage(input_tokens=read, output_tokens=wrote), create_time=at(second))


def test_a_history_is_all_that_was_said_and_the_instructions_once() -> None:
    found = curve([run(0, 0, 60, 100), run(1, 40, 110, 200), run(2, 90, 150, 50)], [op(2, 300, 30)])
    # Each turn's own: 60, 70 and 60 tokens, of which at most 60 are instructions.
    assert [turn.history for turn in found.turns] == [60, 0 + 100 + 70, 0 + 100 + 10 + 200 + 60]
    assert [turn.prompt for turn in found.turns] == [60, 110, 150]
    assert [turn.memory for turn in found.turns] == [0, 0, 330]
    assert (found.with_memory, found.with_history) == (60 + 110 + 150 + 330, 60 + 170 + 370)
    assert found.pays_from is None


def test_memory_pays_from_the_turn_after_which_it_never_cost_more() -> None:
    runs = [run(i, 0 if i == 0 else 50, 20 + (0 if i == 0 else 50), 100) for i in range(6)]
    found = curve(runs, [])
    assert found.running_memory()[:3] == [20, 90, 160]
    assert found.running_history()[:3] == [20, 140, 360]
    assert found.pays_from == 2
    costly = curve(runs, [op(3, 10_000, 0)])
    assert costly.pays_from is None


def test_what_the_runner_did_not_report_is_not_made_up() -> None:
    unreported = curve([run(0, 0, 60, 100), run(1, 40, 0, 0)], [])
    assert [turn.prompt for turn in unreported.turns] == [60, None]
    assert [turn.history for turn in unreported.turns] == [None, None]
    assert not unreported.is_known
    assert unreported.with_memory == 60 + 40
    assert not curve([run(0, 80, 60, 100)], []).is_known
    assert not curve([], []).is_known
    assert curve([], [op(0, 1, 1)]).turns == ()


@dataclass(frozen=True)
class Said:
    """What one turn of a conversation really took, in tokens."""

    asked: int
    answered: int
    context: int


turns = st.lists(
    st.builds(Said, st.integers(0, 500), st.integers(0, 500), st.integers(0, 2000)), min_size=1, max_size=30
)


@given(turns, st.integers(1, 500))
def test_the_history_is_never_counted_longer_than_it_was(said: list[Said], instructions: int) -> None:
    runs = [run(i, s.context, instructions + s.context + s.asked, s.answered) for i, s in enumerate(said)]
    found = curve(runs, [])
    past = instructions
    for turn, each in zip(found.turns, said, strict=True):
        assert turn.history is not None
        assert each.asked + instructions <= turn.history <= past + each.asked
        past += each.asked + each.answered


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 99)), max_size=20),
)
def test_every_call_of_memory_is_counted_at_one_turn(seconds: list[int], calls: list[tuple[int, int]]) -> None:
    found = curve([run(s, 0, 1, 1) for s in seconds], [op(s, tokens, 1) for s, tokens in calls])
    assert sum(turn.memory for turn in found.turns) == sum(tokens + 1 for _, tokens in calls)


def test_a_call_belongs_to_the_turn_before_it() -> None:
    found = curve([run(0, 0, 1, 1), run(10, 0, 1, 1)], [op(-3, 1, 0), op(5, 10, 0), op(10, 100, 0), op(99, 1000, 0)])
    assert [turn.memory for turn in found.turns] == [11, 1100]
