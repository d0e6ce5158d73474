"""What the worker runs. A job reads what is due, decides by rules, asks a model with no transaction open, writes once.

Whatever happens between reading and writing, the write holds only on the revision that was read: a deletion in the
meantime wins, and the next attempt starts from what is left.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn
from zoneinfo import ZoneInfo

import structlog

from memsvc import metrics
from memsvc.config import Settings
from memsvc.llm import CallFailed, Models, Reply
from memsvc.model import NoticeKind, OpKind, Scope, Usage
from memsvc.rules import extractive, folding, ids, notices, prompts, redline
from memsvc.rules.budget import SUMMARY_LIMIT, Meter
from memsvc.rules.frames import frames, lay_out
from memsvc.rules.provider import BUILTIN, Action, Choice, Work, choose
from memsvc.store import Fold, FoldState, NewNotice, NewOp, Store
from memsvc.worker import JobFailed

log = structlog.get_logger()

SUMMARY_ANSWER_TOKENS = 1_200
"""What a model may answer: twice the summary's limit, so that a talkative one ends by itself and is cut."""
WAIT_MS = 5_000
"""How soon work that waits for a provider is looked at again where nothing says when that will be usable."""


class Job(NamedTuple):
    """A thread that may owe something. An id, never content."""

    kind: OpKind
    scope: Scope
    thread_id: str


@dataclass(frozen=True)
class Jobs:
    """The jobs and what they need. `now_us` is the wall clock in microseconds."""

    store: Store
    models: Models
    settings: Settings
    meter: Meter
    now_us: Callable[[], int]

    async def run(self, job: Job) -> bool:
        """Does one call's worth of `job`; returns whether more is due. JobFailed where it has to wait."""
        return await self.fold_thread(job.scope, job.thread_id)

    async def due(self) -> list[Job]:
        """Returns all that the database says is due: what a restart begins with."""
        return [Job(OpKind.FOLD, scope, thread_id) for scope, thread_id in await self.store.due_threads()]

    async def fold_thread(self, scope: Scope, thread_id: str) -> bool:
        """Folds the next runs of a thread into its summary, by one call."""
        state = await self.store.fold_state(scope, thread_id)
        if state is None:
            return False
        choice = self._choose(state)
        if choice.action is Action.WAIT:
            raise JobFailed(choice.reason, self._wait_ms(state.latest_provider))
        notice = self._notice(choice)
        if choice.provider == BUILTIN:
            fold, op = await asyncio.to_thread(self._fold_builtin, state)
        else:
            await self._check_allowance(scope)
            fold, op = await self._fold_by_model(scope, thread_id, state, choice.provider, notice)
        held = await self.store.commit_fold(scope, thread_id, state.revision, fold, op, notice, self.now_us())
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

    def _choose(self, state: FoldState) -> Choice:
        overdue = self.now_us() - state.due_since_us >= self.settings.builtin_after_ms * 1000
        served_by = state.summary_providers | {state.runs[0].served_by}
        return choose(
            Work(OpKind.FOLD, served_by, state.latest_provider),
            self.models.facts(),
            self.settings.local_fallback,
            overdue,
        )

    def _wait_ms(self, provider: str) -> int:
        known = [s.retry_in_ms for s in self.models.statuses() if s.name == provider]
        wait_ms = known[0] if known and known[0] is not None else WAIT_MS
        return min(wait_ms, self.settings.retry_max_ms) + 1

    def _notice(self, choice: Choice) -> NewNotice | None:
        if choice.notice is None:
            return None
        text = notices.text(choice.notice, choice.from_provider, choice.to_provider, self.settings.locale)
        return NewNotice(choice.notice, text, choice.from_provider, choice.to_provider)

    def _fold_builtin(self, state: FoldState) -> tuple[Fold, NewOp]:
        turns = _turns(state)
        locale = folding.locale_of(turns)
        label = frames(locale).summary_label

        def count(text: str) -> int:
            return self.meter.count(lay_out(label, text))

        quoted = [folding.quotable(turn) for turn in turns]
        summary = extractive.summarize(state.summary, quoted, count, SUMMARY_LIMIT, locale)
        summary = folding.fit(redline.redact(summary, locale), self.meter)
        return _fold(state, summary, len(turns)), NewOp(OpKind.FOLD, BUILTIN, "extractive", Usage(), "", 0)

    async def _fold_by_model(
        self, scope: Scope, thread_id: str, state: FoldState, provider: str, notice: NewNotice | None
    ) -> tuple[Fold, NewOp]:
        tag = ids.tag(self.store.secret, scope)
        turns = _turns(state)[: _same_audience(state, provider, self.models)]
        previous = state.draft if state.draft_offset else state.summary
        locale = folding.locale_of(turns)
        overhead = self.meter.count("".join(_texts(prompts.fold_prompt(locale, tag, previous, ""))))
        room = self.settings.fold_input_tokens - overhead
        plan = await asyncio.to_thread(folding.plan, turns, state.draft_offset, room, self.meter)
        prompt = prompts.fold_prompt(locale, tag, previous, plan.lines)
        try:
            reply = await self.models.call(provider, prompt.system, prompt.user, SUMMARY_ANSWER_TOKENS)
        except CallFailed as failure:
            op = NewOp(OpKind.FOLD, provider, failure.model, failure.usage, failure.reason, failure.duration_ms)
            await self._failed(scope, thread_id, state, op, notice, failure.retry_after_ms)
        summary, reason = self._judged(reply, plan, prompt)
        op = NewOp(OpKind.FOLD, provider, reply.model, reply.usage, reason, reply.duration_ms)
        if reason:
            self.models.reject(provider, reason)
            await self._failed(scope, thread_id, state, op, notice)
        return _fold(state, summary, plan.run_count, plan.draft_offset), op

    def _judged(self, reply: Reply, plan: folding.Plan, prompt: prompts.Prompt) -> tuple[str, str]:
        summary, reason = folding.judge(reply.text, plan, prompt.system, self.meter)
        if reason:
            return "", reason
        return folding.fit(redline.redact(summary, plan.locale), self.meter), ""

    async def _failed(
        self,
        scope: Scope,
        thread_id: str,
        state: FoldState,
        op: NewOp,
        notice: NewNotice | None,
        retry_after_ms: int = 0,
    ) -> NoReturn:
        """Writes down a call that came to nothing, and raises JobFailed with its reason.

        The failure may have been the one after which the provider is left alone; work that now goes elsewhere does
        not wait for its turn.
        """
        await self.store.record_op(scope, thread_id, op, notice, self.now_us())
        metrics.memory_op(op)
        after = self._choose(state)
        if after.action is Action.USE and after.provider != op.provider:
            raise JobFailed(op.error_reason, 0)
        raise JobFailed(op.error_reason, retry_after_ms or None)

    async def _check_allowance(self, scope: Scope) -> None:
        """Raises JobFailed until the next day where the tokens of this one are spent."""
        limit = self.settings.limit_of(scope.tenant_id, scope.agent_id)
        if limit.daily_tokens is None:
            return
        now = datetime.datetime.fromtimestamp(self.now_us() / 1e6, ZoneInfo(self.settings.time_zone))
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spent = sum(
            tokens
            for tenant_id, agent_id, tokens in await self.store.day_tokens(int(midnight.timestamp() * 1e6))
            if self.settings.limit_of(tenant_id, agent_id) is limit
        )
        if spent < limit.daily_tokens:
            return
        text = notices.text(NoticeKind.ALLOWANCE_SPENT, "", "", self.settings.locale)
        notice = NewNotice(NoticeKind.ALLOWANCE_SPENT, text, occasion=midnight.date().isoformat())
        await self.store.raise_notice(scope, notice, self.now_us())
        tomorrow = (midnight + datetime.timedelta(days=1)).timestamp()
        raise JobFailed("ALLOWANCE_SPENT", int((tomorrow - now.timestamp()) * 1000) + 1)


def _turns(state: FoldState) -> list[folding.Turn]:
    return [folding.Turn(run.outcome, run.own_input, run.output) for run in state.runs]


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
