"""The two clients: `Memory` blocks, `AsyncMemory` is awaited, and they say the same things by the same
names. Only `run()` is written twice, because a block that ends is where the two worlds really differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Self, Unpack

from memsvc.v1 import memory_service_pb2 as rpc
from memsvc_client.calls import AsyncService, Call, Kind, Service, answered, method_of
from memsvc_client.errors import MemsvcError
from memsvc_client.runs import ActiveRun
from memsvc_client.senders import AsyncSender, Connection, ConnectionOptions, Sender
from memsvc_client.services import (
    AsyncCore,
    AsyncOps,
    AsyncRecall,
    AsyncThreads,
    Core,
    Ops,
    Recall,
    Threads,
)
from memsvc_client.values import Context, ContextOptions, FinishedRun, Outcome, RecordedRun, Scope

DEFAULT_ADDRESS = "127.0.0.1:50051"


class RunnerCalls:
    """The runner's two calls: one before a run, one after it. `run()` makes both."""

    @answered
    def get_context(
        self,
        scope: Scope,
        input: str = "",  # noqa: A002  # As the contract has it.
        *,
        thread_id: str = "",
        thread_key: str = "",
        timeout_s: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> Call[Context]:
        """What the agent should remember for the user's `input` (at most 256 KiB).

        `thread_id` goes on with a thread, `thread_key` with the one that the runner itself names so (at
        most 128 characters); with neither the answer bears the id of a new one, which exists once a run is
        recorded in it. See `ContextOptions` for the rest. Writes nothing and asks no model. Raises
        ThreadNotInScope, or Deleted for a thread that was deleted.
        """
        request = rpc.GetContextRequest(
            scope=scope.to_message(), input=input, thread_id=thread_id, thread_key=thread_key, **options
        )
        return Call(method_of(request), request, _context, Kind.CONTEXT, timeout_s)

    @answered
    def record_run(self, run: FinishedRun, *, timeout_s: float | None = None) -> Call[RecordedRun]:
        """Stores a finished run, durably before it returns; the next context knows it.

        Recording the same value again changes nothing and answers `created=False`. Raises RunConflict where
        another run has its id, Deleted where the run or its thread was deleted, FieldTooLarge, DiskFull.
        """
        request = run.to_message()
        return Call(method_of(request), request, _recorded, Kind.RECORD, timeout_s)


class Memory(RunnerCalls, Service):
    """A client that blocks. Connects at its first call; may be shared by any number of threads.

        with Memory("127.0.0.1:50051") as memory:
            with memory.run(Scope("school-7", "exam", "wang"), input="出一份数据结构试卷") as run:
                run.output = agent(run.prompt)

    `threads`, `recall`, `core` and `ops` hold the calls of the other services. See `ConnectionOptions` for
    token, TLS and deadlines. What can go wrong is in `memsvc_client.errors`.
    """

    def __init__(self, address: str = DEFAULT_ADDRESS, **options: Unpack[ConnectionOptions]) -> None:
        sender = Sender(Connection(address, **options))
        super().__init__(sender)
        self.threads = Threads(sender)
        self.recall = Recall(sender)
        self.core = Core(sender)
        self.ops = Ops(sender)

    def close(self) -> None:
        """Ends the connection; later calls raise MemsvcError with the code CANCELLED."""
        self.sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def run(
        self,
        scope: Scope,
        thread: str | None = None,
        input: str = "",  # noqa: A002  # As the contract has it.
        *,
        thread_key: str = "",
        required: bool = True,
        **options: Unpack[ContextOptions],
    ) -> Iterator[ActiveRun]:
        """The same as `AsyncMemory.run`, for a plain `with`; KeyboardInterrupt counts as a cancellation."""
        run = ActiveRun(scope, thread or "", thread_key, input, required)
        try:
            run.context = self.get_context(scope, input, thread_id=thread or "", thread_key=thread_key, **options)
        except MemsvcError as error:
            run.missed_context(error)
        try:
            yield run
        except BaseException as error:
            self._record(run, error)
            raise
        self._record(run, None)

    def _record(self, run: ActiveRun, error: BaseException | None) -> None:
        finished = run.finish(error)
        try:
            run.was_recorded(self.record_run(finished, timeout_s=_patience_s(self.sender, finished)))
        except MemsvcError as failure:
            run.was_not_recorded(failure)
        run.report(error)


class AsyncMemory(RunnerCalls, AsyncService):
    """A client that is awaited. Connects at its first call; may be shared by all tasks of that event loop.

        async with AsyncMemory("127.0.0.1:50051") as memory:
            async with memory.run(Scope("school-7", "exam", "wang"), input="出一份数据结构试卷") as run:
                run.output = await agent(run.prompt)

    `threads`, `recall`, `core` and `ops` hold the calls of the other services. See `ConnectionOptions` for
    token, TLS and deadlines. What can go wrong is in `memsvc_client.errors`.
    """

    def __init__(self, address: str = DEFAULT_ADDRESS, **options: Unpack[ConnectionOptions]) -> None:
        sender = AsyncSender(Connection(address, **options))
        super().__init__(sender)
        self.threads = AsyncThreads(sender)
        self.recall = AsyncRecall(sender)
        self.core = AsyncCore(sender)
        self.ops = AsyncOps(sender)
        self._recordings: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Waits for records of cancelled runs, then ends the connection as `Memory.close` does."""
        while self._recordings:
            await asyncio.wait(self._recordings)
        await self.sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def run(
        self,
        scope: Scope,
        thread: str | None = None,
        input: str = "",  # noqa: A002  # As the contract has it.
        *,
        thread_key: str = "",
        required: bool = True,
        **options: Unpack[ContextOptions],
    ) -> AsyncIterator[ActiveRun]:
        """Wraps one run of an agent: gets its context, and records it however it ends.

            async with memory.run(scope, thread, "简答题换两道") as run:
                run.provider, run.model = "qwen", "qwen-plus"
                async for piece in agent(run.prompt):
                    run.output += piece
            thread = run.thread_id

        `thread` is the id of the thread to go on with, as the last run's `thread_id` was; None starts one.
        Or name the conversation yourself by `thread_key`. `options` are those of `get_context`.

        How the block ends is how the run is recorded:

        - normally: COMPLETED with `run.output`;
        - normally, `run.output` never set: FAILED. A run with nothing to say sets "";
        - by an Exception: FAILED with what there is of the output, and the exception goes on;
        - cancelled (CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit): CANCELLED with what
          there is of the output, within `Deadlines.interrupted` and shielded from the cancellation, which
          then goes on.

        `run.outcome` overrules all four. A run cancelled while it waits for its context has not begun and
        leaves no record.

        When memory fails: an error of GetContext is raised before the block starts. A run that went well
        and could not be recorded raises RunNotRecorded, which carries the run for another try; one that did
        not go well raises its own exception with a note. With `required=False` memory stops nothing: the
        context is empty then, the record is tried all the same, and no error of memory is raised;
        `run.failure` and the log hold it.
        """
        run = ActiveRun(scope, thread or "", thread_key, input, required)
        try:
            run.context = await self.get_context(scope, input, thread_id=thread or "", thread_key=thread_key, **options)
        except MemsvcError as error:
            run.missed_context(error)
        try:
            yield run
        except BaseException as error:
            await self._record(run, error)
            raise
        await self._record(run, None)

    async def _record(self, run: ActiveRun, error: BaseException | None) -> None:
        # A task of its own, held until it is done: whoever is cancelled while waiting for it leaves it
        # running.
        recording = asyncio.create_task(self._try_record(run, run.finish(error)))
        self._recordings.add(recording)
        recording.add_done_callback(self._recordings.discard)
        await asyncio.shield(recording)
        run.report(error)

    async def _try_record(self, run: ActiveRun, finished: FinishedRun) -> None:
        try:
            run.was_recorded(await self.record_run(finished, timeout_s=_patience_s(self.sender, finished)))
        except MemsvcError as failure:
            run.was_not_recorded(failure)


def _patience_s(sender: Sender | AsyncSender, finished: FinishedRun) -> float:
    """How long recording may take: whoever cancelled a run waits for something else."""
    deadlines = sender.connection.deadlines
    return deadlines.interrupted if finished.outcome is Outcome.CANCELLED else deadlines.record


def _context(data: bytes) -> Context:
    return Context.from_message(rpc.GetContextResponse.FromString(data))


def _recorded(data: bytes) -> RecordedRun:
    return RecordedRun.from_message(rpc.RecordRunResponse.FromString(data))
