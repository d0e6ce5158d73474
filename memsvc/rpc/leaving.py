"""Callers who leave: where a call may be cancelled, and where it ends by itself.

gRPC cancels the task of a call whose caller has gone, wherever that task stands. Where it waits for the library itself,
for the request or for a reply to be taken, what the library holds for that wait is lost for good: some bytes, and the
whole of a request that had just arrived (grpc/grpc#43360). Every such wait ends by itself, at once, since the core ends
whatever a call that is gone waits for. So a cancellation reaches a call within our own code alone, and is remembered
elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

THEIRS = "_handle_exceptions"
"""The coroutine of gRPC's in whose task a call is answered, from the first look at it to its last byte."""


class CallTask(asyncio.Task[Any]):
    """The task of a call. `within` says that it is in our code, `left` that the caller has gone."""

    within = False
    left = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancels where the call is within our code; elsewhere it is told when it gets there. Twice means it."""
        if self.within or self.left:
            return super().cancel(msg)
        self.left = True
        return True


def listen(loop: asyncio.AbstractEventLoop) -> None:
    """Has the calls of servers on this loop answered in tasks of that kind. All other tasks are what they were."""

    def task(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
        kind = CallTask if getattr(coroutine, "__name__", "") == THEIRS else asyncio.Task
        return kind(coroutine, loop=loop, **more)

    loop.set_task_factory(task)  # type: ignore[arg-type]  # it takes whatever a loop hands to a task


def heard_at_once() -> None:
    """Has this call cancelled wherever it stands: what others wrote, as the health service, knows of no such blocks."""
    task = asyncio.current_task()
    if isinstance(task, CallTask):
        task.within = True


class _Ours:
    """A block of our code within a call. CancelledError at its beginning where the caller has gone already."""

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if isinstance(task, CallTask):
            if task.left:
                raise asyncio.CancelledError
            task.within = True

    def __exit__(self, *_: object) -> None:
        task = asyncio.current_task()
        if isinstance(task, CallTask):
            task.within = False


class _Theirs:
    """A wait for the library amid our code. CancelledError at its end where the caller has gone meanwhile."""

    def __enter__(self) -> None:
        OURS.__exit__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            OURS.__enter__()


OURS, LIBRARY = _Ours(), _Theirs()
