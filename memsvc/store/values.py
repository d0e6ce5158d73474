"""The values that go into the store and come out of it: made by one side, read by the other, changed by neither."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from memsvc.model import NewRun, NoticeKind, Run, RunOutcome, Scope, Usage
from memsvc.rules.context import Memory
from memsvc.rules.exportfile import Line, RunLine
from memsvc.rules.terms import QueryTerm


class ThreadRef(NamedTuple):
    """How a caller names a thread: by its id, or by the runner's own key. Never both."""

    thread_id: str = ""
    thread_key: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What GetContext wants of the store beside the thread itself."""

    terms: Sequence[QueryTerm] = ()
    recall_top_k: int = 3
    recall_threshold: float = 0.2


@dataclass(frozen=True, slots=True)
class ContextRead:
    """One snapshot for one block. `locale` is the thread's, empty while it has no run."""

    thread_id: str
    thread_new: bool
    locale: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run with all that is computed of it before the write: the writer's thread only writes.

    `fresh_thread_id` is that of the thread to open where the call names none. `terms` are the run's index entry (term
    to frequency); None for a run that is not recalled.
    """

    run: NewRun
    fresh_thread_id: str
    title: str
    locale: str
    own_offset: int
    renderer: int
    whole: int
    shown: str
    terms: Mapping[str, int] | None


class Recorded(NamedTuple):
    """What RecordRun answers, and whether the thread now has more runs than are shown word for word."""

    run_id: str
    thread_id: str
    created: bool
    sequence: int
    fold_due: bool


@dataclass(frozen=True, slots=True)
class DueRun:
    """A run that folding has not reached; `own_input` is without a context block of ours."""

    sequence: int
    served_by: str
    outcome: RunOutcome
    own_input: str
    output: str


@dataclass(frozen=True, slots=True)
class FoldState:
    """What a thread owes its summary, as of `revision`, in the scope of that number (see Store.commit_fold).

    `runs` are the next ones to fold, oldest first: at least one, as many as a model call could take, never one of the
    last K. `draft` is a summary that covers `draft_offset` characters of the first of them as well. `due_since_us` is
    when that run left the recent window. `window` are the inputs of the last K, which tell the language that is spoken.
    """

    scope_no: int
    revision: int
    summary: str
    summary_providers: frozenset[str]
    folded_count: int
    draft: str
    draft_offset: int
    latest_provider: str
    due_since_us: int
    runs: Sequence[DueRun]
    window: Sequence[str]


@dataclass(frozen=True, slots=True)
class Fold:
    """The outcome of one folding call. A `draft_offset` above 0 leaves the cursor where it is."""

    summary: str
    providers: frozenset[str]
    folded_upto: int
    folded_count: int
    draft_offset: int = 0


class Found(NamedTuple):
    """A run that a search found, texts cut as lists show them, its own words whole for choosing a passage."""

    run: Run
    score: float
    own_input: str
    output: str


class DeletedScope(NamedTuple):
    """How much a scope held that was deleted."""

    threads: int
    runs: int
    facts: int


class NewOp(NamedTuple):
    """One model call to write down; see model.MemoryOp."""

    kind: int
    provider: str
    model: str
    usage: Usage
    error_reason: str
    duration_ms: int


class NewNotice(NamedTuple):
    """A notice to raise once; `occasion` is what may raise the same one again (a day)."""

    kind: NoticeKind
    text: str
    from_provider: str = ""
    to_provider: str = ""
    occasion: str = ""


class Page(NamedTuple):
    """Where a list goes on (0: from the start) and how much of it to return."""

    after: int
    size: int


class UsageRow(NamedTuple):
    """Usage of one time, provider and thread; `thread_id` is empty where the thread was deleted."""

    created_us: int
    provider: str
    thread_id: str
    memory: bool
    usage: Usage


@dataclass(frozen=True, slots=True)
class ExportBounds:
    """Up to where an export goes: the last number of each table when it began.

    `sequences` are its runs in order, eight bytes each; `breaks` is how often something had ended an export by then.
    """

    scope: Scope
    scope_no: int
    sequences: Sequence[int]
    threads: int
    ops: int
    notices: int
    changes: int
    breaks: int = 0

    @property
    def runs(self) -> int:
        """The last run's sequence."""
        return self.sequences[-1] if self.sequences else 0


class ExportPosition(NamedTuple):
    """Where an export goes on: the kind of lines, the last one's place, and how many lines came before."""

    stage: int = 0
    after: int | str = 0
    lines: int = 0


class ExportPage(NamedTuple):
    """Whole lines of an export, and where it goes on; None where that was all."""

    data: bytes
    position: ExportPosition | None


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run of a file with all that is computed of it before the write, as in PreparedRun."""

    line: RunLine
    renderer: int
    whole: int
    shown: str
    terms: Mapping[str, int] | None


class Prepared(Protocol):
    """A file that was read to its end, found right and put where it can be read again."""

    @property
    def run_ids(self) -> Collection[str]:
        """The ids of all runs, in order."""

    @property
    def runs_of(self) -> Mapping[str, Sequence[str]]:
        """The ids of each thread's runs, in order."""

    def read(self) -> Iterator[tuple[int, Line | ImportedRun]]:
        """Gives every line anew, with its number."""


class Brought(NamedTuple):
    """How much an import brought that was not there, and how many facts of it found no room."""

    threads: int
    runs: int
    facts: int
    candidates: int
    no_room: int


class Verified(NamedTuple):
    """What a database is found to be: complaints, each a line without a word that was said, and how much it holds."""

    findings: list[str]
    scopes: int
    threads: int
    runs: int
    schema: int
