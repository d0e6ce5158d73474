"""CoreService: what is known of the user."""

from __future__ import annotations

from memsvc.v1 import memory_service_pb2_grpc as rpc


class CoreService(rpc.CoreServiceServicer):
    """The calls as generated: each answers UNIMPLEMENTED until there is a store of facts."""
