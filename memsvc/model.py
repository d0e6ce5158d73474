"""What the daemon keeps, as values: frozen dataclasses that every layer shares and none changes.

Times are integers, microseconds since the Unix epoch in UTC, named `*_us`. Text is exactly as it was sent unless a
name says otherwise (`shown_*` is sanitized, `own_input` is without a context block of ours).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

RECENT_RUNS = 2
"""K: how many runs of a thread are always shown word for word and never folded while they are the last."""

BASIC_VIEW_BYTES = 2 << 10
"""What lists show of each of a run's texts, in bytes of UTF-8."""


class Scope(NamedTuple):
    """Whose memory this is. Nothing ever crosses a scope; an empty user is a scope of its own."""

    tenant_id: str
    agent_id: str
    user_id: str = ""


class ThreadState(IntEnum):
    """Numbers as on the wire."""

    ACTIVE = 1
    ARCHIVED = 2


class RunOutcome(IntEnum):
    """How a run ended. Numbers as on the wire."""

    COMPLETED = 1
    FAILED = 2
    CANCELLED = 3


class SectionKind(IntEnum):
    """The parts of a context block, in the order in which they are shown. Numbers as on the wire."""

    CORE = 1
    THREAD = 2
    RECALL = 3
    KNOWLEDGE = 4


class OpKind(IntEnum):
    """What a model was called for. Numbers as on the wire."""

    FOLD = 1
    EXTRACT = 2


class NoticeKind(IntEnum):
    """Why a notice was raised. Numbers as on the wire."""

    PROVIDER_CHANGE = 1
    UNKNOWN_PROVIDER = 2
    ALLOWANCE_SPENT = 3


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls cost; `cost_micros` in millionths of the deployment's currency."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_micros + other.cost_micros,
        )


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation that outlives its runs."""

    scope: Scope
    thread_id: str
    title: str
    state: ThreadState
    run_count: int
    summary: str
    folded_count: int
    created_us: int
    updated_us: int
    thread_key: str = ""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A finished run as the runner sends it; empty ids and `None` are for the daemon to fill."""

    run_id: str
    input: str
    output: str
    outcome: RunOutcome
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    ended_us: int | None = None
    context_token_count: int = 0
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run. `sequence` is the order of recording and orders everything; the clock orders nothing."""

    sequence: int
    thread_id: str
    run_id: str
    input: str
    output: str
    outcome: RunOutcome
    provider: str
    model: str
    usage: Usage
    created_us: int
    ended_us: int
    context_token_count: int
    labels: dict[str, str]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement about the user that a person confirmed or wrote."""

    fact_id: str
    text: str
    source_run_ids: tuple[str, ...]
    confirmed_by: str
    created_us: int
    last_used_us: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement that a model proposes. It is never injected."""

    candidate_id: str
    text: str
    confidence: float
    source_run_ids: tuple[str, ...]
    supersedes_fact_id: str
    created_us: int


@dataclass(frozen=True, slots=True)
class MemoryOp:
    """One model call that memory made for itself; `error_reason` is empty when it succeeded."""

    op_id: str
    thread_id: str
    kind: OpKind
    provider: str
    model: str
    usage: Usage
    error_reason: str
    created_us: int
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user interface should say once."""

    notice_id: str
    kind: NoticeKind
    text: str
    created_us: int
    from_provider: str = ""
    to_provider: str = ""
