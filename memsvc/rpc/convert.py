"""Values become messages of the contract here, and nowhere else."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.memory import Context
from memsvc.model import Candidate, Fact, MemoryOp, Notice, Run, Scope, Thread, Usage
from memsvc.rules.context import Section
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc


def timestamp(time_us: int) -> Timestamp:
    """Returns a time given in microseconds since the epoch."""
    seconds, micros = divmod(time_us, 1_000_000)
    return Timestamp(seconds=seconds, nanos=micros * 1000)


def scope(value: Scope) -> pb.Scope:
    """Returns a scope."""
    return pb.Scope(tenant_id=value.tenant_id, agent_id=value.agent_id, user_id=value.user_id)


def usage(value: Usage) -> pb.Usage:
    """Returns what model calls cost."""
    return pb.Usage(input_tokens=value.input_tokens, output_tokens=value.output_tokens, cost_micros=value.cost_micros)


def thread(value: Thread) -> pb.Thread:
    """Returns a thread."""
    return pb.Thread(
        thread_id=value.thread_id,
        scope=scope(value.scope),
        title=value.title,
        state=pb.ThreadState.ValueType(value.state),
        run_count=value.run_count,
        rolling_summary=value.summary,
        summarized_run_count=value.folded_count,
        create_time=timestamp(value.created_us),
        update_time=timestamp(value.updated_us),
        thread_key=value.thread_key,
    )


def run(value: Run) -> pb.Run:
    """Returns a run."""
    return pb.Run(
        run_id=value.run_id,
        thread_id=value.thread_id,
        input=value.input,
        output=value.output,
        outcome=pb.RunOutcome.ValueType(value.outcome),
        provider=value.provider,
        model=value.model,
        usage=usage(value.usage),
        sequence=value.sequence,
        create_time=timestamp(value.created_us),
        end_time=timestamp(value.ended_us),
        context_token_count=value.context_token_count,
        labels=value.labels,
        truncated=value.truncated,
    )


def context(value: Context) -> svc.GetContextResponse:
    """Returns the context block."""
    block = value.block
    return svc.GetContextResponse(
        thread_id=value.thread_id,
        thread_new=value.thread_new,
        text=block.text,
        sections=[_section(s) for s in block.sections],
        token_count=block.token_count,
        token_limit=block.token_limit,
    )


def fact(of: Scope, value: Fact) -> pb.Fact:
    """Returns a fact of a scope."""
    return pb.Fact(
        fact_id=value.fact_id,
        scope=scope(of),
        text=value.text,
        source_run_ids=value.source_run_ids,
        confirmed_by=value.confirmed_by,
        create_time=timestamp(value.created_us),
        last_used_time=timestamp(value.last_used_us),
    )


def candidate(of: Scope, value: Candidate) -> pb.Candidate:
    """Returns a candidate of a scope."""
    return pb.Candidate(
        candidate_id=value.candidate_id,
        scope=scope(of),
        text=value.text,
        confidence=value.confidence,
        source_run_ids=value.source_run_ids,
        supersedes_fact_id=value.supersedes_fact_id,
        create_time=timestamp(value.created_us),
    )


def memory_op(value: MemoryOp) -> pb.MemoryOp:
    """Returns one call that memory made for itself."""
    return pb.MemoryOp(
        thread_id=value.thread_id,
        kind=pb.MemoryOpKind.ValueType(value.kind),
        provider=value.provider,
        model=value.model,
        usage=usage(value.usage),
        error_reason=value.error_reason,
        create_time=timestamp(value.created_us),
        duration_ms=value.duration_ms,
        op_id=value.op_id,
    )


def notice(value: Notice) -> pb.Notice:
    """Returns a notice that nobody has acknowledged."""
    return pb.Notice(
        notice_id=value.notice_id,
        kind=pb.NoticeKind.ValueType(value.kind),
        text=value.text,
        create_time=timestamp(value.created_us),
        from_provider=value.from_provider,
        to_provider=value.to_provider,
    )


def _section(value: Section) -> pb.Section:
    return pb.Section(
        kind=pb.SectionKind.ValueType(value.kind),
        text=value.text,
        token_count=value.token_count,
        token_limit=value.token_limit,
        truncated=value.truncated,
        sources=[
            pb.Source(fact_id=s.fact_id) if s.fact_id else pb.Source(run_id=s.run_id, score=s.score)
            for s in value.sources
        ],
        omitted_count=value.omitted_count,
    )
