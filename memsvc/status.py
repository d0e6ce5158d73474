"""What the background work is doing, owes and could not do: told as it is, for one scope or for the whole daemon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memsvc.jobs import Job
from memsvc.llm import Models
from memsvc.model import Scope
from memsvc.store import Store
from memsvc.worker import Failure, Worker


@dataclass(frozen=True, slots=True)
class Provider:
    """How a configured provider fares; `retry_us` is when it is tried again, None while it is usable."""

    name: str
    local: bool
    usable: bool
    last_error_reason: str
    retry_us: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of GetWorkerStatus."""

    pending_jobs: int
    unfolded_runs: int
    failures: Sequence[Failure[Job]]
    providers: Sequence[Provider]


@dataclass(frozen=True)
class Status:
    """Asks the store, the worker and the models. `now_us` is the wall clock."""

    store: Store
    worker: Worker[Job]
    models: Models
    local_fallback: str
    now_us: Callable[[], int]

    async def report(self, scope: Scope | None) -> Report:
        """Reports on a scope, or with None on all of them."""
        unfolded, names = await self.store.debts(scope)
        wanted = None if scope is None else {*names, self.local_fallback}
        return Report(
            pending_jobs=sum(scope in (None, job.scope) for job in self.worker.pending()),
            unfolded_runs=unfolded,
            failures=[f for f in self.worker.failures() if scope in (None, f.job.scope)],
            providers=[p for p in self._providers() if wanted is None or p.name in wanted],
        )

    async def acknowledge(self, scope: Scope, notice_id: str) -> None:
        """Marks a notice as said. NoticeNotFound."""
        await self.store.acknowledge_notice(scope, notice_id, self.now_us())

    def _providers(self) -> list[Provider]:
        now_us = self.now_us()
        return [
            Provider(
                s.name,
                s.local,
                s.usable,
                s.last_error_reason,
                None if s.retry_in_ms is None else now_us + s.retry_in_ms * 1000,
            )
            for s in self.models.statuses()
        ]
