"""A working agent in one loop: ask memory, ask the model, tell memory. What a newcomer's own runner would do.

An answer goes on in a task of its own, so that whoever stops it, closes the page or ends the console leaves a run that
is recorded as cancelled, with what there was of it. The only module that talks to the chat's model.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from memsvc_client import AsyncMemory, Context, MemsvcError, Outcome, Scope
from memsvc_client.runs import ActiveRun

from memsvc_console.chat_settings import ChatSettings

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletionMessageParam

SYSTEM = "You are a helpful assistant. Answer in the user's language."
MAX_TALKS = 16
"""Answers that go on at once."""
SILENCE_S, ANSWER_S = 60.0, 300.0
"""How long a model may say nothing, and take in all."""
MAX_OUTPUT_CHARACTERS = 250_000
"""A quarter of what a run may hold, in the widest letters."""


@dataclass(frozen=True, slots=True)
class Given:
    """The answer begins: what memory gave for it."""

    context: Context


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is over and recorded, unless `error` says that memory failed. `reason`: why the model did."""

    outcome: Outcome
    thread_id: str = ""
    run_id: str = ""
    reason: str = ""
    error: MemsvcError | None = None


Event = Given | Piece | Ended


class ModelFailed(Exception):  # noqa: N818  # The name says it already.
    """The model did not answer, or not to the end; `reason` is one of the daemon's own words for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Busy(Exception):  # noqa: N818  # The name says it already.
    """Too many answers go on at once."""


@dataclass(eq=False)
class Talk:
    """One answer. `id` is what whoever wants to stop it must know."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    said: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    is_stopped: bool = False

    def stop(self) -> None:
        """Stops the answer; what there is of it is recorded. Once: a second time would stop the recording."""
        if self.task is not None and not self.is_stopped:
            self.is_stopped = True
            self.task.cancel()

    async def events(self) -> AsyncIterator[Event]:
        """What happens, until it has ended. Whoever stops listening stops the answer."""
        try:
            while True:
                event = await self.said.get()
                yield event
                if isinstance(event, Ended):
                    return
        finally:
            self.stop()


class Agent:
    """The agent of the chat. `memory` holds the runner's credential and is the agent's own."""

    def __init__(self, settings: ChatSettings, memory: AsyncMemory) -> None:
        self.settings = settings
        self.memory = memory
        self._opening: asyncio.Task[openai.AsyncOpenAI] | None = None
        self._talks: dict[str, Talk] = {}

    def prepare(self) -> asyncio.Task[openai.AsyncOpenAI]:
        """Begins to load the SDK, beside the loop: that takes a second or more, and no page should wait for it."""
        if self._opening is None:
            self._opening = asyncio.create_task(asyncio.to_thread(_open_client, self.settings))
        return self._opening

    def begin(self, scope: Scope, thread_id: str, said: str, time_zone: str) -> Talk:
        """Begins an answer to what the user said; with an empty `thread_id` in a new thread. Busy."""
        if len(self._talks) >= MAX_TALKS:
            raise Busy
        talk = Talk()
        self._talks[talk.id] = talk
        talk.task = asyncio.create_task(self._answer(talk, scope, thread_id, said, time_zone))
        talk.task.add_done_callback(lambda _: self._over(talk))
        return talk

    @property
    def talks(self) -> list[Talk]:
        """The answers that go on."""
        return list(self._talks.values())

    def stop(self, talk_id: str) -> None:
        """Stops an answer. One that has ended stays as it is."""
        if talk := self._talks.get(talk_id):
            talk.stop()

    async def close(self) -> None:
        """Stops all answers and waits until they are recorded."""
        talks = self.talks
        for talk in talks:
            talk.stop()
        await asyncio.gather(*(talk.task for talk in talks if talk.task), return_exceptions=True)
        if self._opening is not None:
            await (await self._opening).close()
        await self.memory.close()

    def _over(self, talk: Talk) -> None:
        """Forgets an answer. Whoever listens hears of its end even where it was stopped before it had begun."""
        self._talks.pop(talk.id, None)
        talk.said.put_nowait(Ended(Outcome.CANCELLED))

    async def _answer(self, talk: Talk, scope: Scope, thread_id: str, said: str, time_zone: str) -> None:
        run: ActiveRun | None = None
        reason, error = "", None
        outcome = Outcome.FAILED
        try:
            async with self.memory.run(scope, thread_id or None, said, time_zone=time_zone) as run:
                run.provider, run.model = self.settings.provider, self.settings.model
                talk.said.put_nowait(Given(run.context))
                run.output = ""
                await self._listen(run, talk)
            outcome = Outcome.COMPLETED
        except asyncio.CancelledError:
            outcome = Outcome.CANCELLED
        except ModelFailed as failed:
            reason = failed.reason
        except MemsvcError as failed:
            error = failed
        finally:
            error = error or (run.failure if run else None)
            talk.said.put_nowait(Ended(outcome, run.thread_id if run else "", run.run_id if run else "", reason, error))

    async def _listen(self, run: ActiveRun, talk: Talk) -> None:
        """Adds what the model says to the run, as it comes. ModelFailed."""
        client = await asyncio.shield(self.prepare())
        import httpx2  # noqa: PLC0415  # Loaded by now.
        import openai  # noqa: PLC0415

        messages = cast(
            "list[ChatCompletionMessageParam]",
            [{"role": "system", "content": SYSTEM}, {"role": "user", "content": run.prompt}],
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                stream = await client.chat.completions.create(
                    model=self.settings.model,
                    messages=messages,
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async with stream:
                    async for chunk in stream:
                        if chunk.usage:
                            read, wrote = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
                            run.usage(read, wrote, self.settings.cost_micros(read, wrote))
                        for choice in chunk.choices:
                            if piece := _text(choice.delta.content or ""):
                                run.output += piece
                                talk.said.put_nowait(Piece(piece))
                        if len(run.output) >= MAX_OUTPUT_CHARACTERS:
                            break
        except (openai.APITimeoutError, TimeoutError):
            raise ModelFailed("PROVIDER_TIMEOUT") from None
        except (openai.AuthenticationError, openai.PermissionDeniedError):
            raise ModelFailed("PROVIDER_UNAUTHORIZED") from None
        except openai.RateLimitError:
            raise ModelFailed("PROVIDER_RATE_LIMITED") from None
        except openai.APIConnectionError:
            raise ModelFailed("PROVIDER_UNREACHABLE") from None
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, ValueError, AttributeError, TypeError):
            # What an endpoint sends may have any shape; the SDK hands much of it on as it came.
            raise ModelFailed("PROVIDER_BAD_ANSWER") from None
        if not run.output:
            raise ModelFailed("PROVIDER_BAD_ANSWER")


def _open_client(settings: ChatSettings) -> openai.AsyncOpenAI:
    import openai  # noqa: PLC0415  # Slow; see prepare().

    return openai.AsyncOpenAI(
        base_url=settings.base_url,
        api_key=settings.api_key or "none",
        timeout=openai.Timeout(SILENCE_S, connect=10.0),
        max_retries=0,
    )


def _text(piece: str) -> str:
    """A piece that can be recorded: half a pair of surrogates is no character."""
    return piece.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
