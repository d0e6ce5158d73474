"""A run while it goes on, and what becomes of it at its end: rules without I/O, shared by both clients.
Whatever way a run ends, it is recorded; whatever becomes of the record, the run's own exception goes on and
its output is not lost.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from memsvc_client.errors import MemsvcError, RunNotRecorded
from memsvc_client.values import Context, FinishedRun, Outcome, RecordedRun, Scope, Usage, mint_run_id

logger = logging.getLogger("memsvc_client")
"""Says what memory failed at: ids and reasons, never what anyone said."""


class ActiveRun:
    """A run that is going on, as `memory.run()` gives it.

    Read `prompt` (or `context`) and hand it to the agent; set `output`, or add to it while it streams.
    `provider`, `model` and `labels` may be set until the block ends, and `usage()` called once for each
    model call. Set `outcome` only where you know better than the way in which the block ends. After the
    block `recorded` says what was stored; where it is None, `failure` says why and `finished` is what
    `record_run` would take.
    """

    def __init__(self, scope: Scope, thread_id: str, thread_key: str, user_input: str, required: bool) -> None:
        self.scope = scope
        self.thread_key = thread_key
        self.input = user_input
        self.required = required
        self.run_id = mint_run_id()
        self.context = Context(thread_id=thread_id)
        self.provider = ""
        self.model = ""
        self.labels: dict[str, str] = {}
        self.outcome: Outcome | None = None
        self.finished: FinishedRun | None = None
        self.recorded: RecordedRun | None = None
        self.failure: MemsvcError | None = None
        self._output: str | None = None
        self._usage = Usage()

    @property
    def prompt(self) -> str:
        """What to give to the agent: the context, if there is any, and below it the user's input."""
        return self.context.before(self.input)

    @property
    def thread_id(self) -> str:
        """The thread of this run, to name when the next one starts; empty until the daemon has named it."""
        return self.recorded.thread_id if self.recorded else self.context.thread_id

    @property
    def output(self) -> str:
        """What the agent has said so far. Set it, or add with `+=`."""
        return self._output or ""

    @output.setter
    def output(self, text: str) -> None:
        # Here and not when the run is recorded: the line that is wrong is the one that assigns.
        if not isinstance(text, str):
            raise TypeError(f"output must be a str, not {type(text).__name__}")
        self._output = text

    def usage(self, input_tokens: int = 0, output_tokens: int = 0, cost_micros: int = 0) -> None:
        """Adds what one model call took; `cost_micros` in millionths of the deployment's currency."""
        self._usage += Usage(input_tokens, output_tokens, cost_micros)

    def missed_context(self, error: MemsvcError) -> None:
        """GetContext failed: raises its error, or goes on with an empty context where memory is not
        required.
        """
        if self.required:
            raise error
        self.failure = error
        logger.warning("run %s goes on without its context: %s", self.run_id, error.reason or error.code.name)

    def finish(self, error: BaseException | None) -> FinishedRun:
        """The run as it is to be recorded; `error` is what ended the block, None where nothing did."""
        self.finished = FinishedRun(
            scope=self.scope,
            run_id=self.run_id,
            thread_id=self.context.thread_id,
            thread_key="" if self.context.thread_id else self.thread_key,
            input=self.input,
            output=self.output,
            outcome=self.outcome or self._outcome_of(error),
            provider=self.provider,
            model=self.model,
            usage=self._usage,
            end_time=datetime.now(UTC),
            context_token_count=self.context.token_count,
            labels=dict(self.labels),
        )
        return self.finished

    def was_recorded(self, recorded: RecordedRun) -> None:
        """The daemon has stored the run."""
        self.recorded = recorded
        self.failure = None

    def was_not_recorded(self, error: MemsvcError) -> None:
        """The daemon has not, or not in time."""
        self.failure = error
        logger.warning("run %s was not recorded: %s", self.run_id, error.reason or error.code.name)

    def report(self, error: BaseException | None) -> None:
        """Tells the caller of a record that failed: in a note on the exception that ended the run, else by
        raising.
        """
        if self.recorded is not None or self.finished is None or self.failure is None:
            return
        if error is not None:
            error.add_note(f"memsvc: run {self.run_id} was not recorded ({self.failure})")
        elif self.required:
            raise RunNotRecorded(self.finished, self.failure) from self.failure

    def _outcome_of(self, error: BaseException | None) -> Outcome:
        if error is None and self._output is not None:
            return Outcome.COMPLETED
        # What is no Exception asks the program itself to stop: asyncio's and the keyboard's interruptions,
        # the exit of the process, a generator that nobody reads any more.
        if error is not None and not isinstance(error, Exception):
            return Outcome.CANCELLED
        return Outcome.FAILED
