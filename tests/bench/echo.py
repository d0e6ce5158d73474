"""The yardstick: a bare grpc.aio server that does nothing but answer with as many bytes as it is asked for.

Run as a process of its own, it prints its port and serves until it is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache

import grpc

SERVICE = "/bench.Echo/"


@cache
def _payload(size: int) -> bytes:
    return b"x" * size


class _Echo(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        size = int(details.method.removeprefix(SERVICE))

        async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            return _payload(size)

        handler: Callable[..., Awaitable[bytes]] = answer
        return grpc.unary_unary_rpc_method_handler(handler)


async def main() -> None:
    """Serves on a free port and tells it."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((_Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
