"""A call as a value: what to send, how long it may take, whether to try again, how to read the answer.
Nothing here sends anything; a sender of either colour does, so that each call of the contract is written
once and serves both clients.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from google.protobuf.message import Message

from memsvc.v1 import memory_service_pb2 as rpc
from memsvc_client.errors import unsendable

if TYPE_CHECKING:
    from memsvc_client.senders import AsyncSender, Sender

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R", bound=Message)

METHODS = {
    method.input_type.full_name: f"{service.full_name}/{method.name}"
    for service in rpc.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


class Kind(Enum):
    """What kind of call it is: names its field of `Deadlines` and says whether it may be tried again.

    Reads may. RecordRun may, because it always bears a run id. Other writes may not: a deletion that is
    repeated answers that there is nothing to delete, and a fact would be written twice.
    """

    CONTEXT = "context"
    RECORD = "record"
    READ = "read"
    WRITE = "write"
    TRANSFER = "transfer"

    @property
    def retryable(self) -> bool:
        """Whether doing it twice does no harm."""
        return self in {Kind.CONTEXT, Kind.RECORD, Kind.READ}


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request (or a stream of them, which is sent once at the most) and one answer.

    `method` is "package.Service/Method"; `decode` makes the result from the bytes of the answer.
    `timeout_s` stands for the deadline of the kind where the caller named one.
    """

    method: str
    request: Message | Iterator[Message]
    decode: Callable[[bytes], T]
    kind: Kind
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list in pages. `decode` gives a page's items and the token of the next page, empty after the last."""

    method: str
    request: Message
    decode: Callable[[bytes], tuple[Sequence[T], str]]

    def page(self, token: str) -> Call[tuple[Sequence[T], str]]:
        """The call for one page."""
        request = type(self.request)()
        request.CopyFrom(self.request)
        request.page_token = token  # type: ignore[attr-defined]  # Every request of a list has one.
        return Call(self.method, request, self.decode, Kind.READ)


@dataclass(frozen=True, slots=True)
class Download(Generic[T]):
    """One request and a stream of answers. It is not tried again: half of it may have been used already."""

    method: str
    request: Message
    decode: Callable[[bytes], T]


def method_of(request: Message) -> str:
    """The method that takes this request: the contract gives each a request type of its own."""
    return METHODS[request.DESCRIPTOR.full_name]


def call(kind: Kind, request: Message, reply: type[R], pick: Callable[[R], T]) -> Call[T]:
    """The call that answers with what `pick` takes out of a `reply`."""
    return Call(method_of(request), request, lambda data: pick(reply.FromString(data)), kind)


def read(request: Message, reply: type[R], pick: Callable[[R], T]) -> Call[T]:
    """A call that changes nothing."""
    return call(Kind.READ, request, reply, pick)


def write(request: Message, reply: type[R], pick: Callable[[R], T]) -> Call[T]:
    """A call that changes something, once."""
    return call(Kind.WRITE, request, reply, pick)


def pages(request: Message, reply: type[R], items: Callable[[R], Sequence[T]]) -> Pages[T]:
    """The list whose pages hold what `items` takes out of a `reply`."""

    def decode(data: bytes) -> tuple[Sequence[T], str]:
        page = reply.FromString(data)
        return items(page), page.next_page_token  # type: ignore[attr-defined]  # Every answer of a list has one.

    return Pages(method_of(request), request, decode)


def whole(reply: R) -> R:
    """Reads an answer that its caller wants as it is."""
    return reply


def nothing(_: Message) -> None:
    """Reads an answer that says no more than that it was done."""


class Service:
    """A group of calls that waits for each answer."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender


class AsyncService:
    """A group of calls that are awaited."""

    def __init__(self, sender: AsyncSender) -> None:
        self.sender = sender


class _Described(Generic[P, D]):
    """A method whose body describes a call. On an instance it becomes the function that has the call sent.

    At run time the two colours differ in nothing but what their sender returns; the overloads below tell
    the type checker so.
    """

    def __init__(self, describe: Callable[Concatenate[Any, P], D]) -> None:
        self.describe = describe
        update_wrapper(self, describe)  # type: ignore[arg-type]  # Takes more than its type says.

    def _bind(self, service: Any, deliver: Callable[[D], object]) -> Callable[P, object]:
        def ask(*args: P.args, **kwargs: P.kwargs) -> object:
            try:
                asked = self.describe(service, *args, **kwargs)
            except ValueError as error:
                raise unsendable(error) from error
            return deliver(asked)

        update_wrapper(ask, self.describe)
        return ask


class answered(_Described[P, Call[T]]):  # noqa: N801  # Stands as a decorator.
    """The call's one answer: returned by a `Service`, to be awaited from an `AsyncService`."""

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: Service, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, service: AsyncService, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, service: Service | AsyncService | None, owner: type) -> Any:
        return self if service is None else self._bind(service, service.sender.send)


class listed(_Described[P, Pages[T] | Download[T]]):  # noqa: N801  # Stands as a decorator.
    """Many answers, asked for or read as they are used: an iterator, or one for `async for`."""

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: Service, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, service: AsyncService, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, service: Service | AsyncService | None, owner: type) -> Any:
        return self if service is None else self._bind(service, service.sender.items)
