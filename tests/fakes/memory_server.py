"""A daemon that misbehaves on demand: every call of the contract, answered as the test says and with an empty
answer otherwise. For faults that the real daemon cannot be made to show, and for nothing else.

    async with FakeMemory() as server:
        server.behave["RecordRun"] = [refuses(UNAVAILABLE), refuses(UNAVAILABLE)]
        ...
        assert server.asked("RecordRun") == 3
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from memsvc.v1 import memory_service_pb2 as rpc

Context = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[[Context], Awaitable[Message | None]]
"""What one call does: aborts, hangs, answers, or returns None for the plain answer."""


def refuses(code: grpc.StatusCode, reason: str = "", domain: str = "memsvc", **metadata: str) -> Behaviour:
    """Aborts as the daemon does, with ErrorInfo where there is a reason."""

    async def behave(context: Context) -> None:
        trailers: tuple[tuple[str, bytes], ...] = ()
        if reason:
            detail = any_pb2.Any()
            detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata))
            status = status_pb2.Status(code=code.value[0], message=f"told to: {reason}", details=[detail])
            trailers = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(code, f"told to: {reason}", trailers)

    return behave


def garbles(code: grpc.StatusCode) -> Behaviour:
    """Aborts with details that are no message."""

    async def behave(context: Context) -> None:
        await context.abort(code, "told to", (("grpc-status-details-bin", b"\xff\xff\xff"),))

    return behave


def answers(message: Message) -> Behaviour:
    """Answers with this."""

    async def behave(_: Context) -> Message:
        return message

    return behave


async def hangs(_: Context) -> None:
    """Never answers; ends when the caller gives up or the server stops."""
    await asyncio.Event().wait()


@dataclass
class FakeMemory(grpc.GenericRpcHandler):
    """The server. `behave` holds, by the method's name, what the next calls do, first come first served."""

    behave: dict[str, list[Behaviour]] = field(default_factory=dict)
    requests: list[tuple[str, Message]] = field(default_factory=list)
    metadata: list[dict[str, str | bytes]] = field(default_factory=list)
    address: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(None)

    def asked(self, method: str) -> int:
        """How often a method was called."""
        return len(self.sent(method))

    def sent(self, method: str) -> list[Any]:
        """All requests to a method, oldest first."""
        return [request for name, request in self.requests if name == method]

    async def wait_for(self, method: str, times: int = 1) -> None:
        """Returns once the method has been called so often."""
        while self.asked(method) < times:
            self._news.clear()
            await self._news.wait()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler of any method of the contract."""
        service, name = handler_call_details.method.removeprefix("/memsvc.v1.").split("/")
        method = rpc.DESCRIPTOR.services_by_name[service].methods_by_name[name]
        reply = GetMessageClass(method.output_type)

        async def unary(request: Message, context: Context) -> Message:
            self._note(name, request, context)
            return await self._act(name, context) or reply()

        async def stream_in(requests: AsyncIterator[Message], context: Context) -> Message:
            async for request in requests:
                self._note(name, request, context)
            return await self._act(name, context) or reply()

        async def stream_out(request: Message, context: Context) -> AsyncIterator[Message]:
            self._note(name, request, context)
            while self.behave.get(name):
                yield await self._act(name, context) or reply()

        coders: Any = (GetMessageClass(method.input_type).FromString, reply.SerializeToString)
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(stream_in, *coders)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(stream_out, *coders)
        return grpc.unary_unary_rpc_method_handler(unary, *coders)

    def _note(self, name: str, request: Message, context: Context) -> None:
        self.requests.append((name, request))
        self.metadata.append(dict(context.invocation_metadata() or ()))
        self._news.set()

    async def _act(self, name: str, context: Context) -> Message | None:
        planned = self.behave.get(name)
        return await planned.pop(0)(context) if planned else None
