"""What the daemon asks of its memory about the user: facts that people confirmed, candidates that models proposed.

There is one way from candidate to fact, `confirm_candidate`; every change of a fact is in the trail with its author.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from memsvc.model import Candidate, Fact, Scope
from memsvc.store.values import DueRun, NewNotice, NewOp, Page


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to keep, its text checked. `fact_id` is one that nothing bears yet."""

    fact_id: str
    text: str
    confirmed_by: str


@dataclass(frozen=True, slots=True)
class NewCandidate:
    """A proposal to keep, its text as it will be shown. `served_by` is whose runs and facts it was drawn from."""

    candidate_id: str
    text: str
    confidence: float
    sequences: Sequence[int]
    supersedes_fact_id: str
    served_by: frozenset[str]


class FactChange(NamedTuple):
    """A fact that was written or confirmed, the one that it replaced, and the one that gave way for room."""

    fact: Fact
    superseded: Fact | None = None
    evicted: Fact | None = None


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact as extraction needs it; `served_by` is empty where a person wrote it."""

    fact_id: str
    text: str
    served_by: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExtractState:
    """What a thread owes extraction, as of `revision` and `extracted_upto`, in the scope of that number.

    `runs` are the next completed ones that one provider served (empty: none is left), as many as a call could take.
    `cursors` has, for each of them, where the cursor stands once it has been looked at; `end` is where it stands
    without any. `known` are the scope's facts, oldest confirmation first.
    """

    scope_no: int
    revision: int
    extracted_upto: int
    latest_provider: str
    runs: Sequence[DueRun]
    cursors: Sequence[int]
    end: int
    known: Sequence[KnownFact]


@dataclass(frozen=True, slots=True)
class ImportedFact:
    """A fact or a candidate of a file, its text checked.

    `named_id` is the id that the file gives it, and is kept where nothing bears it; else it gets `fresh_id`.
    """

    fresh_id: str
    text: str
    source_run_ids: Sequence[str]
    served_by: frozenset[str]
    created_us: int
    named_id: str = ""
    last_used_us: int = 0
    confirmed_by: str = ""
    confidence: float = 0.0
    supersedes_fact_id: str = ""


class Imported(NamedTuple):
    """How many an import brought that were not there, and how many facts found no room."""

    facts: int
    candidates: int
    no_room: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One change of what is known: who did it, when, and the words before and after.

    `change` is created, updated, deleted, confirmed, superseded, evicted, rejected or imported. The words of a fact
    that was deleted are gone from all its entries; a rejected candidate's never were there.
    """

    created_us: int
    actor: str
    change: str
    item_id: str
    text_before: str
    text_after: str


class CoreStore(Protocol):
    """The part of the Store that keeps facts; its rules are the Store's."""

    async def list_facts(self, scope: Scope) -> list[Fact]:
        """Returns the facts, most recently used first, among equals the latest confirmed first."""

    async def create_fact(self, scope: Scope, new: NewFact, now_us: int) -> FactChange:
        """Keeps what a person wrote; a fact that says the same stays as it is and is returned.

        Lifts the memory of a rejection of this text, and takes a candidate that says the same for confirmed.
        """

    async def update_fact(self, scope: Scope, fact_id: str, text: str, by: str, now_us: int) -> Fact:
        """Gives a fact the wording of a person; the old one is not proposed again. FactNotFound, InvalidField."""

    async def delete_fact(self, scope: Scope, fact_id: str, by: str, now_us: int) -> None:
        """Deletes a fact and its words from the trail; the text is not proposed again. FactNotFound."""

    async def list_candidates(self, scope: Scope, page: Page) -> tuple[list[Candidate], int]:
        """Returns candidates, most confident first, among equals the oldest, and the position behind the last."""

    async def confirm_candidate(self, scope: Scope, candidate_id: str, new: NewFact, now_us: int) -> FactChange:
        """Turns a candidate into the fact `new`; an empty text keeps the candidate's.

        One that was confirmed before answers with its fact. CandidateNotFound; RedLine where the candidate's own text
        may not be kept.
        """

    async def reject_candidate(self, scope: Scope, candidate_id: str, by: str, now_us: int) -> None:
        """Drops a candidate; the text is not proposed again. CandidateNotFound."""

    async def touch_facts(self, scope: Scope, fact_ids: Sequence[str], now_us: int) -> None:
        """Notes that facts were injected; those that are gone are passed over."""

    async def unread_threads(self) -> list[tuple[Scope, str]]:
        """Returns every thread with runs that extraction has not come to."""

    async def extract_state(self, scope: Scope, thread_id: str) -> ExtractState | None:
        """Returns what extraction has not come to in a thread; None where that is nothing, or the thread is gone."""

    async def commit_extraction(
        self,
        scope: Scope,
        thread_id: str,
        state: ExtractState,
        upto: int,
        candidates: Sequence[NewCandidate],
        op: NewOp | None,
        notice: NewNotice | None,
        now_us: int,
    ) -> bool:
        """Moves the cursor to `upto` and keeps what was proposed, with the cost, in one.

        False, with cost and notice alone written, where the thread has moved since `state` was read: a run that was
        deleted meanwhile leaves no word behind. Of a scope that was deleted meanwhile, not even those are. Proposals
        that a fact says already, or that a person rejected or deleted, are left out; those that a candidate says are
        joined to it.
        """

    async def import_core(
        self,
        scope: Scope,
        facts: Sequence[ImportedFact],
        candidates: Sequence[ImportedFact],
        by: str,
        now_us: int,
    ) -> Imported:
        """Brings in facts and candidates that are not there yet, while there is room; repeating it adds nothing.

        Facts of a file stand for a person's word and lift the memory of a deletion; candidates do not, and one
        whose runs were all deleted here is left out.
        """

    async def fact_origins(self, scope: Scope) -> dict[str, frozenset[str]]:
        """Returns, by id of fact or candidate, whose runs it was drawn from."""
