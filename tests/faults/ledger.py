"""What callers know of a daemon that may die at any moment: what it acknowledged, and what they asked and never heard
of.

Each text carries a **mark**, a word that stands nowhere else, so that it can be looked for in summaries and in the
bytes of the files.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from enum import Enum

from memsvc.v1 import memory_pb2 as pb

MARK = re.compile("zq[bcdfghjkmnp]{8}")
_LETTERS = "bcdfghjkmnp"
_numbers = itertools.count(1)


class State(Enum):
    """What is known of a thing. An audit of the file turns what nobody knows into one of the other two."""

    SENT = "sent, not answered: it is there or not"
    KEPT = "acknowledged: it must be there"
    DELETING = "its deletion was sent, not answered: it is there or not"
    GONE = "its deletion was acknowledged, or it never came: it must not be there"


UNKNOWN = (State.SENT, State.DELETING)


@dataclass
class RunEntry:
    """A run as it was sent."""

    run_id: str
    mark: str
    input: str
    output: str
    outcome: pb.RunOutcome.ValueType
    state: State = State.SENT
    sequence: int = 0


@dataclass
class Conversation:
    """A thread as its caller knows it; its runs in the order of sending."""

    key: str
    provider: str
    thread_id: str = ""
    runs: dict[str, RunEntry] = field(default_factory=dict)
    state: State = State.KEPT


@dataclass
class Ledger:
    """What one caller knows of the scope that is its own. Facts are known by their texts."""

    scope: pb.Scope
    conversations: list[Conversation] = field(default_factory=list)
    facts: dict[str, State] = field(default_factory=dict)
    fact_ids: dict[str, str] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)

    @property
    def names(self) -> tuple[str, str, str]:
        """The scope's names as the database has them."""
        return (self.scope.tenant_id, self.scope.agent_id, self.scope.user_id)

    def runs(self) -> list[tuple[Conversation, RunEntry]]:
        """Every run with its conversation; those of a conversation that is being deleted are as unknown as it is."""
        return [(talk, run) for talk in self.conversations for run in talk.runs.values()]

    def deleted_marks(self) -> set[str]:
        """Marks of all that was deleted and must not be found again."""
        texts = {text for text, state in self.facts.items() if state is State.GONE} | self.rejected
        marks = {found[0] for text in texts if (found := MARK.search(text))}
        return marks | {run.mark for talk, run in self.runs() if State.GONE in (run.state, talk.state)}


def new_mark() -> str:
    """Returns a word that no text has had yet; no vowel is in it, so that no list of words knows it."""
    number, word = next(_numbers), ""
    for _ in range(8):
        number, digit = divmod(number, len(_LETTERS))
        word = _LETTERS[digit] + word
    return "zq" + word
