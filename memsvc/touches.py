"""Which facts were shown, until it is written down: off the request path, at most once a minute a scope.

Losing what is here loses nothing but the last minute of use. The queue carries the scope; the ids stay here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from memsvc.errors import MemsvcError
from memsvc.model import Scope
from memsvc.store import Store

INTERVAL_S = 60.0
MAX_SCOPES = 10_000
"""Scopes whose minute runs at once; of one more, nothing is noted until another's is over."""


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None:
        """Makes it not happen."""


class Touches:
    """Collects the ids. `due` is told of a scope that has some to write; `later` calls back after so many seconds."""

    def __init__(
        self,
        store: Store,
        now_us: Callable[[], int],
        due: Callable[[Scope], None],
        later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._store, self._now_us, self._due, self._later = store, now_us, due, later
        self._shown: dict[Scope, set[str]] = {}
        self._timers: dict[Scope, Timer] = {}

    def shown(self, scope: Scope, fact_ids: Iterable[str]) -> None:
        """Notes that facts were injected. The first of a minute is written at once, the others when it is over."""
        if scope in self._timers:
            self._shown.setdefault(scope, set()).update(fact_ids)
        elif len(self._timers) < MAX_SCOPES and (ids := set(fact_ids)):
            self._shown[scope] = ids
            self._begin_minute(scope)

    async def write(self, scope: Scope) -> None:
        """Writes what was collected of a scope; what could not be written is kept for the next time."""
        ids = self._shown.pop(scope, set())
        try:
            if ids:
                await self._store.touch_facts(scope, sorted(ids), self._now_us())
        except MemsvcError:
            self._shown.setdefault(scope, set()).update(ids)
            raise

    def stop(self) -> None:
        """Calls nobody back any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _begin_minute(self, scope: Scope) -> None:
        self._timers[scope] = self._later(INTERVAL_S, lambda: self._end_minute(scope))
        self._due(scope)

    def _end_minute(self, scope: Scope) -> None:
        del self._timers[scope]
        if scope in self._shown:
            self._begin_minute(scope)
