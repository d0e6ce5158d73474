"""What the worker runs. A job reads what is due, lets rules decide, asks a model with no transaction open, writes once.

Whatever happens between reading and writing, the write holds only on the revision that was read: a deletion in the
meantime wins, and the next attempt starts from what is left.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import NamedTuple

import structlog

from memsvc import metrics
from memsvc.extract import extract_thread
from memsvc.llm import Models, Reply
from memsvc.model import OpKind, Scope, Usage
from memsvc.modelwork import Errand, ModelWork
from memsvc.rules import extractive, folding, ids, prompts, redline
from memsvc.rules.budget import SUMMARY_LIMIT
from memsvc.rules.frames import frames, lay_out
from memsvc.rules.provider import BUILTIN, Work
from memsvc.rules.tags import disown
from memsvc.store import Fold, FoldState, NewOp
from memsvc.touches import Touches

log = structlog.get_logger()

SUMMARY_ANSWER_TOKENS = 1_200
"""What a model may answer: twice the summary's limit, so that a talkative one ends by itself and is cut."""


class JobKind(IntEnum):
    """What a job does. Numbers as on the wire, where one that calls no model has none."""

    TOUCH = 0
    FOLD = OpKind.FOLD
    EXTRACT = OpKind.EXTRACT


class Job(NamedTuple):
    """A thread that may owe something, or a scope whose facts were shown. An id, never content."""

    kind: JobKind
    scope: Scope
    thread_id: str = ""


class Jobs:
    """The jobs: which there are, what is due, and how each is done."""

    def __init__(self, means: ModelWork, touches: Touches) -> None:
        self._means, self._touches = means, touches

    async def run(self, job: Job) -> bool:
        """Does one call's worth of `job`; returns whether more is due. JobFailed where it has to wait."""
        match job.kind:
            case JobKind.FOLD:
                return await fold_thread(self._means, job.scope, job.thread_id)
            case JobKind.EXTRACT:
                return self.extracts(job.scope) and await extract_thread(self._means, job.scope, job.thread_id)
            case JobKind.TOUCH:
                await self._touches.write(job.scope)
                return False

    async def due(self) -> list[Job]:
        """Returns all that the database says is due: what a restart begins with."""
        folds = [Job(JobKind.FOLD, *due) for due in await self._means.store.due_threads()]
        unread = await self._means.store.unread_threads() if self._means.settings.providers else []
        return folds + [Job(JobKind.EXTRACT, *due) for due in unread if self.extracts(due[0])]

    def extracts(self, scope: Scope) -> bool:
        """Says whether facts are looked for in a scope: a provider is configured, and nobody switched it off."""
        settings = self._means.settings
        return bool(settings.providers) and settings.limit_of(scope.tenant_id, scope.agent_id).extraction


async def fold_thread(means: ModelWork, scope: Scope, thread_id: str) -> bool:
    """Folds the next runs of a thread into its summary, by one call; returns whether there may be more. JobFailed."""
    state = await means.store.fold_state(scope, thread_id)
    if state is None:
        return False
    overdue = means.now_us() - state.due_since_us >= means.settings.builtin_after_ms * 1000
    work = Work(OpKind.FOLD, state.summary_providers | {state.runs[0].served_by}, state.latest_provider)
    choice = means.choose(work, thread_id, overdue)
    notice = means.notice(choice)
    if choice.provider == BUILTIN:
        fold, op = await asyncio.to_thread(_fold_builtin, means, scope, state)
    else:
        await means.check_allowance(scope, state.scope_no)
        errand = Errand(means, OpKind.FOLD, scope, state.scope_no, thread_id, choice.provider, work, notice, overdue)
        fold, op = await _fold_by_model(errand, state)
    held = await means.store.commit_fold(
        scope, state.scope_no, thread_id, state.revision, fold, op, notice, means.now_us()
    )
    metrics.memory_op(op)
    log.info(
        "folded",
        thread_id=thread_id,
        provider=op.provider,
        runs=fold.folded_count - state.folded_count,
        held=held,
        duration_ms=op.duration_ms,
    )
    return True  # look again: there may be more, and where the revision moved there is


def _fold_builtin(means: ModelWork, scope: Scope, state: FoldState) -> tuple[Fold, NewOp]:
    turns = _turns(state, ids.tag(means.store.secret, scope))
    locale = _language(state)
    label = frames(locale).summary_label

    def count(text: str) -> int:
        return means.meter.count(lay_out(label, text))

    quoted = [folding.quotable(turn) for turn in turns]
    summary = extractive.summarize(state.summary, quoted, count, SUMMARY_LIMIT, locale)
    summary = folding.fit(redline.redact(summary, locale), means.meter)
    return _fold(state, summary, len(turns)), NewOp(OpKind.FOLD, BUILTIN, "extractive", Usage(), "", 0)


async def _fold_by_model(errand: Errand, state: FoldState) -> tuple[Fold, NewOp]:
    means, provider = errand.means, errand.provider
    tag = ids.tag(means.store.secret, errand.scope)
    turns = (await asyncio.to_thread(_turns, state, tag))[: _same_audience(state, provider, means.models)]
    previous = state.draft if state.draft_offset else state.summary
    locale = _language(state)
    overhead = means.meter.count("".join(_texts(prompts.fold_prompt(locale, tag, previous, ""))))
    room = means.settings.fold_input_tokens - overhead
    plan = await asyncio.to_thread(folding.plan, turns, state.draft_offset, room, locale, means.meter)
    prompt = prompts.fold_prompt(locale, tag, previous, plan.lines)
    reply = await errand.ask(prompt, SUMMARY_ANSWER_TOKENS)
    summary, reason = await asyncio.to_thread(_judged, means, reply, plan, prompt)
    if reason:
        await errand.reject(reply, reason)
    errand.accept()
    op = NewOp(OpKind.FOLD, provider, reply.model, reply.usage, "", reply.duration_ms)
    return _fold(state, summary, plan.run_count, plan.draft_offset), op


def _judged(means: ModelWork, reply: Reply, plan: folding.Plan, prompt: prompts.Prompt) -> tuple[str, str]:
    summary, reason = folding.judge(reply.text, plan, prompt.system, means.meter, reply.truncated)
    if reason:
        return "", reason
    return folding.fit(redline.redact(summary, plan.locale), means.meter), ""


def _turns(state: FoldState, tag: str) -> list[folding.Turn]:
    return [folding.Turn(run.outcome, disown(run.own_input, tag), disown(run.output, tag)) for run in state.runs]


def _language(state: FoldState) -> str:
    return folding.language(state.summary, [run.own_input or run.output for run in state.runs], state.window)


def _same_audience(state: FoldState, provider: str, models: Models) -> int:
    """Returns how many of the due runs `provider` may see: all if it is local, else those it served itself."""
    if models.facts()[provider].local:
        return len(state.runs)
    others = (i for i, run in enumerate(state.runs) if run.served_by != provider)
    return next(others, len(state.runs))


def _fold(state: FoldState, summary: str, run_count: int, draft_offset: int = 0) -> Fold:
    covered = state.runs[:run_count]
    return Fold(
        summary=summary,
        providers=state.summary_providers | {run.served_by for run in covered},
        folded_upto=covered[-1].sequence if covered else 0,
        folded_count=state.folded_count + len(covered),
        draft_offset=draft_offset,
    )


def _texts(prompt: prompts.Prompt) -> tuple[str, str]:
    return prompt.system, prompt.user
