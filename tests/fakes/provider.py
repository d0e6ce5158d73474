"""The one fake of the suite: an OpenAI-compatible HTTP server on the test's own event loop. It does as it
is told, however rude, remembers all it was sent, and never makes a test wait by the clock.

    async with FakeProvider() as provider:
        provider.behave = says("They talked about trees.")
        ...
        await provider.asked(2)
        assert "第二题" in provider.requests[1].user
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

_REASONS = {
    200: "OK",
    302: "Found",
    401: "Unauthorized",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came over the wire; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    def said_by(self, role: str) -> str:
        """All messages of one role, joined by line feeds."""
        return "\n".join(m["content"] for m in self.body.get("messages", []) if m["role"] == role)

    @property
    def system(self) -> str:
        return self.said_by("system")

    @property
    def user(self) -> str:
        return self.said_by("user")

    @property
    def text(self) -> str:
        """Every word of the prompt."""
        return "\n".join(m["content"] for m in self.body.get("messages", []))


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: a completion of `text`, or `raw` bytes in its place.

    `until` holds everything back, `cut` closes in the middle of the body, `drip` sends the body a byte at a
    time and never the last one, `mute` closes without a word.
    """

    text: str | None = ""
    usage: tuple[int, int] | None = (100, 20)
    finish: str = "stop"
    status: int = 200
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    until: asyncio.Event | None = None
    cut: bool = False
    drip: bool = False
    mute: bool = False


Behaviour = Callable[[Request], Answer]


def says(text: str | None, usage: tuple[int, int] | None = (100, 20), finish: str = "stop") -> Behaviour:
    """Answers `text`, whatever was asked."""
    return lambda _: Answer(text, usage, finish)


def by_kind(fold: Behaviour, extract: Behaviour | None = None) -> Behaviour:
    """Answers the two prompts apart: the one for facts names NONE as its usual answer, and gets it."""
    otherwise = extract or says("NONE")
    return lambda request: (otherwise if "NONE" in request.text else fold)(request)


def echoes(request: Request) -> Answer:
    """Answers with the prompt itself."""
    return Answer(request.text)


def status(code: int, headers: dict[str, str] | None = None, body: bytes = b'{"error": "no"}') -> Behaviour:
    """Answers with an HTTP status and no completion."""
    return lambda _: Answer(status=code, raw=body, headers=headers or {})


def raw(body: bytes, headers: dict[str, str] | None = None) -> Behaviour:
    """Answers 200 with these bytes."""
    return lambda _: Answer(raw=body, headers=headers or {})


def after(event: asyncio.Event, then: Behaviour) -> Behaviour:
    """Does what `then` does, but sends no byte before `event` is set."""
    return lambda request: replace(then(request), until=event)


def hangs(_: Request) -> Answer:
    """Takes the request and says nothing until the server stops."""
    return Answer(until=asyncio.Event())


def drips(_: Request) -> Answer:
    """Is never silent for long and never done."""
    return Answer("drop by drop " * 1000, drip=True)


def closes(_: Request) -> Answer:
    """Closes in the middle of the body."""
    return Answer("half of this is all there is. " * 50, cut=True)


def mute(_: Request) -> Answer:
    """Closes instead of answering."""
    return Answer(mute=True)


def completion(message: Any, **fields: Any) -> Behaviour:
    """Answers JSON that is shaped like a completion as far as you please."""
    return raw(json.dumps({"object": "chat.completion", "choices": [{"message": message}], **fields}).encode())


def streams(*pieces: str, ends: bool = True) -> Behaviour:
    """Answers with a streamed completion of these pieces and its usage; without an end the model is still thinking."""
    chunks: list[dict[str, object]] = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    if ends:
        usage = {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34}
        chunks.append({"choices": [], "usage": usage})
    same = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    body = b"".join(b"data: " + json.dumps(same | chunk).encode() + b"\n\n" for chunk in chunks)
    headers = {"Content-Type": "text/event-stream"}
    if ends:
        return raw(body + b"data: [DONE]\n\n", headers)
    return raw(body, headers | {"Content-Length": "1000000"})


NOT_AN_ANSWER: dict[str, Behaviour] = {
    "nothing": raw(b""),
    "not_json": raw(b'{"choices": [{"message": {"content": "oops'),
    "html": raw(b"<html><body>502 Bad Gateway</body></html>", {"Content-Type": "text/html"}),
    "not_utf8": raw(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "a_list": raw(b"[]"),
    "null": raw(b"null"),
    "no_choices": raw(b'{"object": "chat.completion", "choices": []}'),
    "choices_missing": raw(b'{"object": "chat.completion"}'),
    "choices_wrong": raw(b'{"choices": {"0": "x"}}'),
    "message_wrong": completion("x"),
    "content_wrong": completion({"content": {"text": "x"}}),
    "content_missing": completion({"role": "assistant"}),
    "lone_surrogate": completion({"content": "half a pair: \ud83d"}),
    "a_thousand_brackets": raw(b"[" * 100_000),
    "a_number_without_end": raw(b'{"choices": ' + b"9" * 10_000 + b"}"),
    "closes": closes,
    "mute": mute,
}
"""What no client can take for an answer. Each fails the call itself."""

NO_SUMMARY: dict[str, Behaviour] = {
    "empty": says(""),
    "null": says(None),
    "blank": says(" \n\t "),
    "apology": says("抱歉，我无法完成这个请求。"),
    "apology_in_english": says("I'm sorry, but I can't help with that."),
    "json": says('{"summary": null, "error": "bad request", "code": 7}'),
    "too_long": says("用户与助手继续讨论了很多很多的内容。" * 250),
    "huge": says("用户与助手继续讨论了很多很多的内容。" * 2000),
    "echo": echoes,
}
"""Answers that arrive whole and are no summary. Each fails the fold."""


class FakeProvider:
    """One endpoint on a free port. `queue` is used up first, one behaviour a request, then `behave` answers
    all.
    """

    def __init__(self, behave: Behaviour | None = None) -> None:
        self.behave = behave or by_kind(says("They talked."))
        self.queue: list[Behaviour] = []
        self.requests: list[Request] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Condition()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def text(self) -> str:
        """All that ever reached this provider."""
        return "\n".join(r.text for r in self.requests)

    async def start(self) -> None:
        """Listens; again on the same port after `stop`."""
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """From here on connections are refused, and those that are open are gone."""
        if self._server is None:
            return
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def asked(self, count: int = 1) -> Request:
        """Waits until `count` requests have arrived in all, answered or not, and returns the last of them."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def __aenter__(self) -> FakeProvider:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                async with self._arrived:
                    self.requests.append(request)
                    self._arrived.notify_all()
                behave = self.queue.pop(0) if self.queue else self.behave
                if not await _send(writer, behave(request), request):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The caller went away, or the test is over.
        finally:
            self._talks.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection, `None` at its end."""
    head = await reader.readline()
    if not head:
        return None
    method, path, _ = head.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, json.loads(body or b"{}"))


async def _send(writer: asyncio.StreamWriter, answer: Answer, request: Request) -> bool:
    """Sends the answer; tells whether the connection can be used again."""
    if answer.until is not None:
        await answer.until.wait()
    if answer.mute:
        return False
    body = _completion(answer, request) if answer.raw is None else answer.raw
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **answer.headers}
    head = f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Whatever')}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(head.encode() + b"\r\n")
    if answer.drip:
        for i in range(len(body) - 1):
            writer.write(body[i : i + 1])
            await writer.drain()
            await asyncio.sleep(0.001)
        return False
    writer.write(body[: len(body) // 2] if answer.cut else body)
    await writer.drain()
    return not answer.cut


def _completion(answer: Answer, request: Request) -> bytes:
    usage = answer.usage and {
        "prompt_tokens": answer.usage[0],
        "completion_tokens": answer.usage[1],
        "total_tokens": sum(answer.usage),
    }
    message = {"role": "assistant", "content": answer.text}
    return json.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": request.body.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": answer.finish}],
            "usage": usage,
        }
    ).encode()
