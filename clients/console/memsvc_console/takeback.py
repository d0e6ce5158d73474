"""Ten seconds to think again: a rejection or deletion waits here before it is sent, and can be taken back.

It waits in the console and not in the browser, so that closing the tab loses nothing: it is sent all the same. When the
console stops, what waits is sent at once. When it is killed, what waited was not sent and stands in its list as before.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from memsvc_client import (
    DeadlineExceeded,
    Deleted,
    MemsvcError,
    NotFound,
    RateLimited,
    Scope,
    ThreadNotInScope,
    Unavailable,
)

log = logging.getLogger("memsvc_console")

GRACE_S = 10.0
NETWORK_S = 1.0
"""What a click on the last of the ten seconds may take to arrive."""
PAUSES_S = (0.0, 2.0, 8.0)
"""Before each attempt. Deciding twice does no harm: the second time there is nothing left to decide."""
MAX_HELD = 500
MAX_FAILED = 50


@dataclass(frozen=True, slots=True)
class Held:
    """A decision that waits. `kind` and `target` say what is decided on, `label` what a person is told of it."""

    id: str
    scope: Scope
    kind: str
    target: str
    label: str
    due_s: float
    send: Callable[[], Awaitable[object]]

    def left_s(self, now_s: float) -> float:
        """Seconds in which it can still be taken back, as a person is told."""
        return max(0.0, min(GRACE_S, self.due_s - NETWORK_S - now_s))


@dataclass(frozen=True, slots=True)
class Failed:
    """A decision that could not be sent; what it was about stands in its list as before."""

    held: Held
    error: MemsvcError


@dataclass(slots=True)
class Takebacks:
    """The decisions that wait, of all scopes. `grace_s` is how long; `clock` gives seconds that only grow."""

    grace_s: float = GRACE_S + NETWORK_S
    clock: Callable[[], float] = time.monotonic
    _held: dict[str, Held] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _sending: set[str] = field(default_factory=set)
    _failed: list[Failed] = field(default_factory=list)

    def hold(self, scope: Scope, kind: str, target: str, label: str, send: Callable[[], Awaitable[object]]) -> Held:
        """Takes a decision in. The same again is the one that waits already; of too many the oldest goes out."""
        for held in self._held.values():
            if (held.scope, held.kind, held.target) == (scope, kind, target):
                return held
        if len(self._held) >= MAX_HELD:
            self._hurry(next(iter(self._held)))
        held = Held(secrets.token_urlsafe(12), scope, kind, target, label, self.clock() + self.grace_s, send)
        self._held[held.id] = held
        self._start(held, self.grace_s)
        return held

    def take_back(self, scope: Scope, held_id: str) -> Held | None:
        """Forgets a decision of the scope before it is sent; None where that is too late."""
        held = self._held.get(held_id)
        if held is None or held.scope != scope or held_id in self._sending:
            return None
        del self._held[held_id]
        self._tasks.pop(held_id).cancel()
        return held

    def drop(self, scope: Scope, kind: str, target: str) -> None:
        """Forgets a decision because another one on the same thing has come."""
        for held in list(self._held.values()):
            if (held.scope, held.kind, held.target) == (scope, kind, target):
                self.take_back(scope, held.id)

    def waiting(self, scope: Scope) -> list[Held]:
        """What can be taken back in a scope, the oldest first."""
        return [held for held in self._held.values() if held.scope == scope and held.id not in self._sending]

    def hidden(self, scope: Scope, kind: str) -> set[str]:
        """What a list of this kind leaves out: it is decided on, though not yet sent."""
        return {held.target for held in self._held.values() if held.scope == scope and held.kind == kind}

    def take_failed(self, scope: Scope) -> list[Failed]:
        """What could not be sent in a scope; told once."""
        mine = [failed for failed in self._failed if failed.held.scope == scope]
        self._failed = [failed for failed in self._failed if failed.held.scope != scope]
        return mine

    async def flush(self, scope: Scope | None = None, kind: str = "") -> None:
        """Sends what waits, all of it or that of a scope and a kind, and returns when it is sent."""
        chosen = [each.id for each in self._held.values() if scope is None or (each.scope, each.kind) == (scope, kind)]
        for held_id in chosen:
            self._hurry(held_id)
        while tasks := [self._tasks[held_id] for held_id in chosen if held_id in self._tasks]:
            await asyncio.wait(tasks)

    def _hurry(self, held_id: str) -> None:
        if held_id not in self._sending:
            self._tasks.pop(held_id).cancel()
            self._start(self._held[held_id], 0.0)

    def _start(self, held: Held, after_s: float) -> None:
        task = asyncio.get_running_loop().create_task(self._send(held, after_s), name="takeback")
        self._tasks[held.id] = task
        task.add_done_callback(lambda done: self._ended(held, done))

    def _ended(self, held: Held, task: asyncio.Task[None]) -> None:
        if self._tasks.get(held.id) is task:
            del self._tasks[held.id]
            self._held.pop(held.id, None)
            self._sending.discard(held.id)

    async def _send(self, held: Held, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._sending.add(held.id)
        problem: MemsvcError | None = None
        for pause_s in PAUSES_S:
            await asyncio.sleep(pause_s)
            try:
                await held.send()
            except (NotFound, ThreadNotInScope, Deleted):
                return  # Somebody else was quicker; what was to go is gone.
            except (Unavailable, DeadlineExceeded, RateLimited) as error:
                problem = error
            except MemsvcError as error:
                problem = error
                break
            else:
                return
        assert problem is not None
        log.warning("a held decision was refused: %s %s", held.kind, problem.reason or problem.code.name)
        self._failed = [*self._failed, Failed(held, problem)][-MAX_FAILED:]
