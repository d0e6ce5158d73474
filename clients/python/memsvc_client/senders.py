"""The only part of the client that touches the network: two senders, one that blocks and one that is
awaited. Each opens its channel at the first call, tries again where `retry` says so, and lets no error of
gRPC's own out.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from memsvc_client.calls import Call, Download, Kind, Pages
from memsvc_client.errors import MemsvcError, closed, from_rpc
from memsvc_client.retry import Attempts, Backoff, Deadlines

T = TypeVar("T")

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # As often as a server with default settings allows; a ping more and it hangs up on us.
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A daemon that restarts is found again at once: by default gRPC would stay away for up to two minutes,
    # and every attempt of ours in that time would fail without having left the machine.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class ConnectionOptions(TypedDict, total=False):
    """How to reach the daemon, besides its address; every key is optional.

    - `token`: sent with each call as `authorization: Bearer …`. Without TLS it can be read on the way.
    - `tls`: whether to encrypt. `root_certificates` (PEM) implies it and names whom to trust; without them
      it is whom gRPC trusts.
    - `client_certificate`, `client_key` (PEM): shown to a daemon that asks callers for a certificate; they
      imply TLS and go together.
    - `deadlines`: seconds that each kind of call may take, see `Deadlines`.
    - `backoff`: pauses between attempts, see `Backoff`.
    """

    token: str
    tls: bool
    root_certificates: bytes | None
    client_certificate: bytes | None
    client_key: bytes | None
    deadlines: Deadlines
    backoff: Backoff


@dataclass(frozen=True, slots=True)
class Connection:
    """`ConnectionOptions` with everything in its place."""

    address: str
    token: str = field(default="", repr=False)
    tls: bool = False
    root_certificates: bytes | None = None
    client_certificate: bytes | None = None
    client_key: bytes | None = field(default=None, repr=False)
    deadlines: Deadlines = field(default_factory=Deadlines)
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        if (self.client_certificate is None) != (self.client_key is None):
            raise ValueError("client_certificate and client_key go together")

    def credentials(self) -> grpc.ChannelCredentials | None:
        """What the channel is secured with; None for plain text."""
        if self.tls or self.root_certificates is not None or self.client_certificate is not None:
            return grpc.ssl_channel_credentials(self.root_certificates, self.client_key, self.client_certificate)
        return None

    def open(self, api: Any) -> Any:
        """A channel that connects at its first call; `api` is `grpc` or `grpc.aio`, which name theirs alike."""
        credentials = self.credentials()
        if credentials is None:
            return api.insecure_channel(self.address, CHANNEL_OPTIONS)
        return api.secure_channel(self.address, credentials, CHANNEL_OPTIONS)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with each call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def timeout_s(self, kind: Kind) -> float:
        """The deadline of a kind of call."""
        seconds: float = getattr(self.deadlines, kind.value)
        return seconds

    def attempts(self, call: Call[Any]) -> Attempts:
        """The attempts of a call that starts now."""
        timeout_s = self.timeout_s(call.kind) if call.timeout_s is None else call.timeout_s
        return Attempts(time.monotonic() + timeout_s, call.kind.retryable, self.backoff)


def pause_s(attempts: Attempts, error: MemsvcError) -> float:
    """How long to wait after a failed attempt; raises its error when that is the answer."""
    seconds = attempts.pause_s(error, time.monotonic(), random.random())
    if seconds is None:
        raise error
    return seconds


def encode(message: Message) -> bytes:
    """A request as bytes."""
    return message.SerializeToString()


def method(channel: Any, call: Call[Any] | Download[Any]) -> Callable[..., Any]:
    """The channel's function for a call. Its answers are bytes: gRPC would take a decoded None for a failure."""
    if isinstance(call, Download):
        arity = channel.unary_stream
    elif isinstance(call.request, Message):
        arity = channel.unary_unary
    else:
        arity = channel.stream_unary
    invoke: Callable[..., Any] = arity(f"/{call.method}", encode)
    return invoke


@contextmanager
def translated() -> Iterator[None]:
    """Raises what goes wrong inside as an error of our tree."""
    try:
        yield
    except grpc.RpcError as failure:
        raise from_rpc(failure) from None
    except DecodeError as failure:
        raise MemsvcError("the answer is not one of this contract", grpc.StatusCode.INTERNAL) from failure


class Sender:
    """Sends calls and blocks until they are answered. May be used by any number of threads."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._channel: grpc.Channel | None = None
        self._closed = False
        self._lock = threading.Lock()

    def send(self, call: Call[T]) -> T:
        """The call's answer."""
        attempts = self.connection.attempts(call)
        metadata = self.connection.metadata()
        while True:
            try:
                with translated():
                    invoke: Callable[..., bytes] = method(self._open(), call)
                    answer = invoke(call.request, timeout=attempts.timeout_s(time.monotonic()), metadata=metadata)
                    return call.decode(answer)
            except MemsvcError as error:
                seconds = pause_s(attempts, error)
            time.sleep(seconds)

    def items(self, source: Pages[T] | Download[T]) -> Iterator[T]:
        """The items of all pages, or the answers of a stream; leaving the latter early ends the call."""
        return self._pages(source) if isinstance(source, Pages) else self._download(source)

    def _pages(self, pages: Pages[T]) -> Iterator[T]:
        items, token = self.send(pages.page(""))
        yield from items
        while token:
            items, token = self.send(pages.page(token))
            yield from items

    def _download(self, download: Download[T]) -> Iterator[T]:
        invoke = method(self._open(), download)
        timeout_s = self.connection.timeout_s(Kind.TRANSFER)
        answers = invoke(download.request, timeout=timeout_s, metadata=self.connection.metadata())
        try:
            with translated():
                for answer in answers:
                    yield download.decode(answer)
        finally:
            answers.cancel()

    def close(self) -> None:
        """Ends the connection. Calls under way or to come raise MemsvcError with the code CANCELLED."""
        with self._lock:
            self._closed, channel, self._channel = True, self._channel, None
        if channel is not None:
            channel.close()

    def _open(self) -> grpc.Channel:
        # At the first call and not in the constructor: a channel made before a fork is of no use after it.
        with self._lock:
            if self._closed:
                raise closed()
            if self._channel is None:
                self._channel = self.connection.open(grpc)
            return self._channel


class AsyncSender:
    """Sends calls and is awaited. May be used by any number of tasks of the event loop of its first call."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._channel: grpc.aio.Channel | None = None
        self._closed = False

    async def send(self, call: Call[T]) -> T:
        """The call's answer."""
        attempts = self.connection.attempts(call)
        metadata = self.connection.metadata()
        while True:
            try:
                with self._translated():
                    invoke: Callable[..., Awaitable[bytes]] = method(self._open(), call)
                    answer = await invoke(call.request, timeout=attempts.timeout_s(time.monotonic()), metadata=metadata)
                    return call.decode(answer)
            except MemsvcError as error:
                seconds = pause_s(attempts, error)
            await asyncio.sleep(seconds)

    def items(self, source: Pages[T] | Download[T]) -> AsyncIterator[T]:
        """The items of all pages, or the answers of a stream; leaving the latter early ends the call."""
        return self._pages(source) if isinstance(source, Pages) else self._download(source)

    async def _pages(self, pages: Pages[T]) -> AsyncIterator[T]:
        items, token = await self.send(pages.page(""))
        for item in items:
            yield item
        while token:
            items, token = await self.send(pages.page(token))
            for item in items:
                yield item

    async def _download(self, download: Download[T]) -> AsyncIterator[T]:
        invoke = method(self._open(), download)
        timeout_s = self.connection.timeout_s(Kind.TRANSFER)
        answers = invoke(download.request, timeout=timeout_s, metadata=self.connection.metadata())
        try:
            with self._translated():
                async for answer in answers:
                    yield download.decode(answer)
        finally:
            answers.cancel()

    async def close(self) -> None:
        """Ends the connection. Calls under way or to come raise MemsvcError with the code CANCELLED."""
        self._closed, channel, self._channel = True, self._channel, None
        if channel is not None:
            await channel.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with translated():
                yield
        except asyncio.CancelledError:
            # Closing a channel cancels whoever waits for it, as if their own task had been cancelled; that it was
            # not, only the task knows.
            task = asyncio.current_task()
            if not self._closed or task is None or task.cancelling():
                raise
            raise closed() from None

    def _open(self) -> grpc.aio.Channel:
        # At the first call and not in the constructor: the channel belongs to the event loop that it is
        # made in.
        if self._closed:
            raise closed()
        if self._channel is None:
            self._channel = self.connection.open(grpc.aio)
        return self._channel
