"""What every job that asks a model shares: whose model it is, the day's allowance, and a call that came to nothing.

Nothing here holds a transaction open while a model is awaited, and nothing decides: the rules do.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn
from zoneinfo import ZoneInfo

from memsvc import metrics
from memsvc.config import Settings
from memsvc.llm import CallFailed, Models, Reply
from memsvc.model import NoticeKind, OpKind, Scope, Usage
from memsvc.rules import notices
from memsvc.rules.budget import Meter
from memsvc.rules.prompts import Prompt
from memsvc.rules.provider import Action, Choice, Work, choose
from memsvc.store import NewNotice, NewOp, Store
from memsvc.worker import JobFailed

WAIT_MS = 5_000
"""How soon work that waits for a provider is looked at again where nothing says when that will be usable."""

BEHIND_MS = 1_000
"""How far extraction stands behind folding where both wait for the same provider."""


@dataclass(frozen=True)
class ModelWork:
    """The means of such a job. `now_us` is the wall clock in microseconds."""

    store: Store
    models: Models
    settings: Settings
    meter: Meter
    now_us: Callable[[], int]

    def choose(self, work: Work, thread_id: str, overdue: bool = False) -> Choice:
        """Says whose model does the work of a thread now; JobFailed where it has to wait."""
        facts = self.models.facts((work.kind, thread_id))
        choice = choose(work, facts, self.settings.local_fallback, overdue)
        if choice.action is Action.WAIT:
            raise JobFailed(choice.reason, self._wait_ms(work, thread_id))
        return choice

    def _wait_ms(self, work: Work, thread_id: str) -> int:
        known = work.latest in self.settings.providers
        alone_ms = self.models.alone_ms(work.latest, (work.kind, thread_id)) if known else 0
        wait_ms = min(alone_ms or WAIT_MS, self.settings.retry_max_ms) + 1
        # Where both wait, folding goes first: a model that cannot extract must not be kept from summing up by it.
        return wait_ms if work.kind is OpKind.FOLD else wait_ms + min(wait_ms, BEHIND_MS)

    def notice(self, choice: Choice) -> NewNotice | None:
        """Returns what the scope's user should be told of a choice, if anything."""
        if choice.notice is None:
            return None
        text = notices.text(choice.notice, choice.from_provider, choice.to_provider, self.settings.locale)
        return NewNotice(choice.notice, text, choice.from_provider, choice.to_provider)

    async def check_allowance(self, scope: Scope, scope_no: int) -> None:
        """Raises JobFailed until the next day where the tokens of this one are spent.

        `scope_no` is the number that the scope had when the work was found: one that is deleted since is told nothing.
        """
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
        await self.store.raise_notice(scope, scope_no, notice, self.now_us())
        tomorrow = (midnight + datetime.timedelta(days=1)).timestamp()
        raise JobFailed("ALLOWANCE_SPENT", int((tomorrow - now.timestamp()) * 1000) + 1)


@dataclass(frozen=True)
class Errand:
    """One call of one job: what for, to whom, and what to do when it comes to nothing.

    `work` and `overdue` are what the provider was chosen by, and is chosen by again after a failure.
    """

    means: ModelWork
    kind: OpKind
    scope: Scope
    scope_no: int
    thread_id: str
    provider: str
    work: Work
    notice: NewNotice | None
    overdue: bool = False

    async def ask(self, prompt: Prompt, answer_tokens: int) -> Reply:
        """Asks the provider once; JobFailed, written down, where no answer comes."""
        try:
            reply = await self.means.models.call(self.provider, prompt.system, prompt.user, answer_tokens)
            return replace(reply, usage=await asyncio.to_thread(self._counted, reply, prompt))
        except CallFailed as failure:
            op = NewOp(self.kind, self.provider, failure.model, failure.usage, failure.reason, failure.duration_ms)
            await self._fail(op, failure.retry_after_ms)

    def _counted(self, reply: Reply, prompt: Prompt) -> Usage:
        """Returns what an answer took; what the provider does not report is counted here.

        Else a server without a word on it would cost nothing in the books, and a day's allowance would never be spent.
        """
        reported, count = reply.usage, self.means.meter.count
        if reported.input_tokens and (reported.output_tokens or not reply.text):
            return reported
        return self.means.models.cost(
            self.provider,
            reported.input_tokens or count(prompt.system) + count(prompt.user),
            reported.output_tokens or count(reply.text),
        )

    async def reject(self, reply: Reply, reason: str) -> NoReturn:
        """Counts an answer that is of no use as a failed call, and raises JobFailed."""
        self.means.models.reject(self.provider, reason, (self.kind, self.thread_id))
        await self._fail(NewOp(self.kind, self.provider, reply.model, reply.usage, reason, reply.duration_ms))

    def accept(self) -> None:
        """Tells that the answer did the work."""
        self.means.models.accept(self.provider, (self.kind, self.thread_id))

    async def _fail(self, op: NewOp, retry_after_ms: int = 0) -> NoReturn:
        """Writes down a call that came to nothing, and raises JobFailed with its reason.

        The failure may have been the one after which the provider is left alone; work that now goes elsewhere does
        not wait for its turn.
        """
        means = self.means
        await means.store.record_op(self.scope, self.scope_no, self.thread_id, op, self.notice, means.now_us())
        metrics.memory_op(op)
        facts = means.models.facts((self.kind, self.thread_id))
        after = choose(self.work, facts, means.settings.local_fallback, self.overdue)
        if after.action is Action.USE and after.provider != op.provider:
            raise JobFailed(op.error_reason, 0)
        raise JobFailed(op.error_reason, retry_after_ms or None)
