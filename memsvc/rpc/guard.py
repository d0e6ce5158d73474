"""What happens around every call: who is it, may they, count it, and turn an error of ours into its status.

One table from errors to gRPC. The second of the daemon's two broad excepts stands here: a bug answers INTERNAL, is
logged by type and place, and neither its text nor the caller's reaches log or wire.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import grpc
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from memsvc import metrics
from memsvc.auth import PACKAGE, Caller, Gate
from memsvc.config import Settings
from memsvc.errors import InvalidField, MemsvcError, RateLimited
from memsvc.rpc.leaving import LIBRARY, OURS, heard_at_once
from memsvc.rules import rate
from memsvc.worker import place

log = structlog.get_logger()

DOMAIN = "memsvc"
caller: ContextVar[Caller] = ContextVar("caller")
"""Who makes the call that is being answered."""

RETRY_AFTER_MS = 250
"""When to come again where too many calls are under way: nobody can say when one of them ends."""

BROKEN = "the daemon failed at this call; its log says where"

_MALFORMED = object()

Call = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[[Any, Call], Any]


class Guard(grpc.aio.ServerInterceptor):
    """Wraps every method of ours, once; health and reflection pass as they are.

    Of the settings it holds `max_concurrent_calls`, `calls_per_second` and `calls_burst`: a call beyond them is told
    RATE_LIMITED at once, and waits nowhere. `clock` gives seconds that never step back.
    """

    def __init__(self, gate: Gate, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._gate = gate
        self._most_running = settings.max_concurrent_calls
        self._per_second, self._burst = settings.calls_per_second, settings.calls_burst
        self._clock = clock
        self._running = 0
        self._rates: dict[str, float] = {}
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Returns the method's handler with everything of this module around it."""
        method = handler_call_details.method
        if method in self._wrapped:
            return self._wrapped[method]
        handler = await continuation(handler_call_details)
        if handler is None or not method.startswith(PACKAGE):
            heard_at_once()
            return handler
        self._wrapped[method] = self._wrap(method, handler)
        return self._wrapped[method]

    def _wrap(self, method: str, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        read = _tolerant(handler.request_deserializer)
        write = handler.response_serializer
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary), read, write)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), read, write)
        return grpc.stream_unary_rpc_method_handler(self._upload(method, handler.stream_unary), read, write)

    def _unary(self, method: str, behaviour: Behaviour) -> Behaviour:
        async def answer(request: Any, context: Call) -> Any:
            async with self._answering(method, request, context):
                with OURS:
                    return await behaviour(request, context)

        return answer

    def _stream(self, method: str, behaviour: Behaviour) -> Behaviour:
        async def answer(request: Any, context: Call) -> AsyncIterator[Any]:
            async with self._answering(method, request, context):
                with OURS:
                    async for part in behaviour(request, context):
                        with LIBRARY:
                            yield part

        return answer

    def _upload(self, method: str, behaviour: Behaviour) -> Behaviour:
        async def answer(requests: AsyncIterator[Any], context: Call) -> Any:
            async with self._answering(method, None, context):
                # The scope stands on the first message, which is looked at before the call is entered.
                with OURS:
                    parts = _admitted(requests, caller.get())
                    first = await anext(parts, None)
                    return await behaviour(_again(first, parts), context)

        return answer

    @asynccontextmanager
    async def _answering(self, method: str, request: Any, context: Call) -> AsyncIterator[None]:
        """Admits the call, counts it, and ends it with the status of whatever it raises."""
        begun = time.perf_counter()
        code = "CANCELLED"
        self._running += 1
        try:
            if self._running > self._most_running:
                raise RateLimited(RETRY_AFTER_MS)
            self._admit(method, request, context)
            yield
            code = "OK"
        except NotImplementedError:
            code = "UNIMPLEMENTED"
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this daemon does not have that call yet")
        except MemsvcError as error:
            code = error.status
            metrics.refused(method, error.reason)
            await _abort(error, method, context)
        except Exception as bug:  # noqa: BLE001  the one of the two that guards the calls
            code = "INTERNAL"
            log.error("call_broke", method=method, error=type(bug).__name__, where=place(bug))
            await _abort(MemsvcError(BROKEN), method, context)
        finally:
            self._running -= 1
            metrics.call(method, code, time.perf_counter() - begun)

    def _admit(self, method: str, request: Any, context: Call) -> None:
        """Raises unless the caller is known, calls no more than it may, and no method or tenant that it may not."""
        authorization = None
        if not self._gate.open:
            authorization = next((v for k, v in context.invocation_metadata() or () if k == "authorization"), None)
        who = self._gate.caller(authorization if isinstance(authorization, str) else None)
        # Without credentials nobody can be told apart: there the limit on calls under way has to do.
        if self._per_second and who.name:
            self._check_rate(who.name)
        who.check_method(method)
        _admit_message(request, who)
        caller.set(who)

    def _check_rate(self, name: str) -> None:
        """Counts a call of the credential; raises RateLimited where that is one too many for now."""
        now_s = self._clock()
        self._rates[name], wait_s = rate.admit(self._rates.get(name, 0.0), now_s, self._per_second, self._burst)
        if wait_s:
            raise RateLimited(math.ceil(wait_s * 1000))


def _admit_message(request: Any, who: Caller) -> None:
    """Raises unless it is a message of the call and, where it names a scope, one of the caller's tenants."""
    if request is _MALFORMED:
        raise InvalidField("request", "is not a message of this call; send it as the contract has it")
    if isinstance(request, Message) and "scope" in request.DESCRIPTOR.fields_by_name and request.HasField("scope"):
        who.check_tenant(request.scope.tenant_id)  # type: ignore[attr-defined]


async def _admitted(requests: AsyncIterator[Any], who: Caller) -> AsyncIterator[Any]:
    """The messages of a caller's stream, each of them looked at: a later one must not slip into another tenant.

    A caller who has gone is a CancelledError here, and never an end of the stream: half of an upload is none.
    """
    while True:
        with LIBRARY:
            part = await anext(requests, None)
        if part is None:
            return
        _admit_message(part, who)
        yield part


async def _again(first: Any, rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """A stream whose first message has been read, from its first message; empty where there was none."""
    if first is not None:
        yield first
    async for part in rest:
        yield part


def _tolerant(read: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Reads a message, and what is none as a mark: gRPC itself would answer with a traceback in the log."""
    assert read is not None

    def tolerant(data: bytes) -> Any:
        try:
            return read(data)
        except DecodeError:
            return _MALFORMED

    return tolerant


async def _abort(error: MemsvcError, method: str, context: Call) -> None:
    log.debug("call_refused", method=method, reason=error.reason, field=error.metadata.get("field", ""))
    await context.abort(
        grpc.StatusCode[error.status],
        error.message,
        (("grpc-status-details-bin", _status(error).SerializeToString()),),
    )


def _status(error: MemsvcError) -> status_pb2.Status:
    detail = AnyMessage()
    detail.Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata))
    return status_pb2.Status(code=code_pb2.Code.Value(error.status), message=error.message, details=[detail])
