"""What a runner hands over and gets back: plain frozen values that can be compared, pickled and logged in
part. Only this module turns them into messages of the contract and back; zero and empty mean "the daemon's
default" everywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Self, TypedDict

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc


class Outcome(IntEnum):
    """How a run ended. Numbers as on the wire."""

    COMPLETED = pb.RUN_OUTCOME_COMPLETED
    FAILED = pb.RUN_OUTCOME_FAILED
    """Its output is kept for people and never shown to a model again."""
    CANCELLED = pb.RUN_OUTCOME_CANCELLED
    """The user stopped it. What there is of the output is shown to the next run, marked as such."""


class SectionKind(IntEnum):
    """What a section of the context is about. Numbers as on the wire; a kind of a newer daemon is UNKNOWN."""

    UNKNOWN = pb.SECTION_KIND_UNSPECIFIED
    CORE = pb.SECTION_KIND_CORE
    THREAD = pb.SECTION_KIND_THREAD
    RECALL = pb.SECTION_KIND_RECALL
    KNOWLEDGE = pb.SECTION_KIND_KNOWLEDGE

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory this is: nothing ever crosses a scope.

    Each name has 1 to 128 characters: letters, digits and `. _ - : @`. An empty `user_id` is a scope of its
    own and no wildcard.
    """

    tenant_id: str
    agent_id: str
    user_id: str = ""

    def to_message(self) -> pb.Scope:
        """As the contract has it."""
        return pb.Scope(tenant_id=self.tenant_id, agent_id=self.agent_id, user_id=self.user_id)

    @classmethod
    def from_message(cls, scope: pb.Scope) -> Self:
        """From an answer, such as a fact's or a thread's."""
        return cls(scope.tenant_id, scope.agent_id, scope.user_id)


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls took. `cost_micros`: millionths of the currency that the deployment accounts in."""

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
class Source:
    """Where a piece of a section came from: a fact or a run. `score` (0 to 1) is that of recall, else 0."""

    fact_id: str = ""
    run_id: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the context. `truncated` and `omitted_count` say whether its limit left anything out."""

    kind: SectionKind
    text: str
    token_count: int
    token_limit: int
    truncated: bool = False
    omitted_count: int = 0
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What the agent should remember for an input.

    `text` stands before the user's input (`before()` joins the two) and takes `token_count` tokens, never
    more than `token_limit`; it is empty when there is nothing to remember. `thread_id` is the thread to
    record the run in, `thread_new` whether nothing has been recorded there yet.
    """

    text: str = ""
    thread_id: str = ""
    thread_new: bool = True
    token_count: int = 0
    token_limit: int = 0
    sections: tuple[Section, ...] = ()

    def before(self, user_input: str) -> str:
        """The prompt for the agent: the context and below it the user's input."""
        if not self.text:
            return user_input
        return self.text.removesuffix("\n") + "\n" + user_input

    @classmethod
    def from_message(cls, reply: rpc.GetContextResponse) -> Self:
        """From the answer to GetContext."""
        return cls(
            text=reply.text,
            thread_id=reply.thread_id,
            thread_new=reply.thread_new,
            token_count=reply.token_count,
            token_limit=reply.token_limit,
            sections=tuple(_section(each) for each in reply.sections),
        )


class ContextOptions(TypedDict, total=False):
    """What may be asked of a context besides the input; every key is optional.

    - `token_budget`: most tokens that the text may take; the daemon's default is 6000.
    - `reserved_tokens`: tokens of other parts of the prompt, taken off first.
    - `knowledge`: what your knowledge base found, to share the same budget; at most 1 MiB.
    - `recall_top_k`: most past runs to recall; default 3, at most 10.
    - `locale`: language of the frames, a tag that starts with "zh" or "en"; by default the thread's own.
    - `time_zone`: IANA name for the dates of recalled runs; by default the daemon's.
    - `preview`: look only, so that facts shown do not count as used.
    """

    token_budget: int
    reserved_tokens: int
    knowledge: str
    recall_top_k: int
    locale: str
    time_zone: str
    preview: bool


def mint_run_id() -> str:
    """A run id that no other run has."""
    return f"run_{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run to record: one user input and what came of it.

    `input` is the user's own, without the context (at most 256 KiB); `output` takes at most 1 MiB.
    `thread_id` is the one that the context bore; or give `thread_key`, the runner's own name of the
    conversation; neither opens a thread. `run_id` is minted unless given, which makes the same value safe
    to record any number of times. `provider` names a provider in the daemon's settings: memory's own model
    calls for this thread go there too. `end_time` must know its zone and means now when it is None; it
    orders nothing. `labels`: at most 16, 64 characters each way.
    """

    scope: Scope
    input: str
    output: str = ""
    outcome: Outcome = Outcome.COMPLETED
    run_id: str = field(default_factory=mint_run_id)
    thread_id: str = ""
    thread_key: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    end_time: datetime | None = None
    context_token_count: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_message(self) -> rpc.RecordRunRequest:
        """As RecordRun takes it."""
        return rpc.RecordRunRequest(
            scope=self.scope.to_message(),
            thread_id=self.thread_id,
            thread_key=self.thread_key,
            run_id=self.run_id,
            input=self.input,
            output=self.output,
            outcome=pb.RunOutcome.ValueType(self.outcome),
            provider=self.provider,
            model=self.model,
            usage=pb.Usage(
                input_tokens=self.usage.input_tokens,
                output_tokens=self.usage.output_tokens,
                cost_micros=self.usage.cost_micros,
            ),
            end_time=timestamp(self.end_time),
            context_token_count=self.context_token_count,
            labels=self.labels,
        )


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that is stored. `created` is False when it had been before; `sequence` orders runs."""

    run_id: str
    thread_id: str
    created: bool
    sequence: int

    @classmethod
    def from_message(cls, reply: rpc.RecordRunResponse) -> Self:
        """From the answer to RecordRun."""
        return cls(reply.run_id, reply.thread_id, reply.created, reply.sequence)


def timestamp(moment: datetime | None) -> Timestamp | None:
    """A moment on the wire. ValueError for one without a zone: it means another moment on each machine."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError("a time must know its zone: datetime.now(UTC), not datetime.now()")
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def _section(section: pb.Section) -> Section:
    return Section(
        kind=SectionKind(section.kind),
        text=section.text,
        token_count=section.token_count,
        token_limit=section.token_limit,
        truncated=section.truncated,
        omitted_count=section.omitted_count,
        sources=tuple(Source(each.fact_id, each.run_id, each.score) for each in section.sources),
    )
