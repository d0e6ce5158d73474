"""What tests of who may call what have at hand: tokens of each role, and a call of any kind with any papers or none."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from memsvc.auth import make_token
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.talk import refusal

ROLES = ("runner", "reviewer", "admin")

METHODS = [method for service in svc.DESCRIPTOR.services_by_name.values() for method in service.methods]


OURS, THEIRS = "school-7", "school-77"
TOKENS = {name: make_token() for name in (*ROLES, "keeper", "watcher")}
CREDENTIALS = [
    *({"name": role, "role": role, "tenants": [OURS], "token_hash": TOKENS[role][1]} for role in ROLES),
    {"name": "keeper", "role": "admin", "tenants": ["*"], "token_hash": TOKENS["keeper"][1]},
    {"name": "watcher", "role": "reviewer", "tenants": ["*"], "token_hash": TOKENS["watcher"][1]},
]


def bearer(name: str) -> str:
    return f"Bearer {TOKENS[name][0]}"


class Answer(NamedTuple):
    """What came back: a status and, of a refusal, its reason and the field or role that it names."""

    code: str
    reason: str = ""
    about: str = ""


async def ask(channel: grpc.aio.Channel, method: MethodDescriptor, data: bytes, *authorization: str) -> Answer:
    """Makes a call with a request that is bytes already, so that it can be none, and says what came of it."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = ("stream" if method.client_streaming else "unary") + ("_stream" if method.server_streaming else "_unary")
    metadata = [("authorization", value) for value in authorization]
    call = getattr(channel, kind)(path)([data] if method.client_streaming else data, metadata=metadata)

    async def end() -> None:
        if method.server_streaming:
            async for _ in call:
                pass
        else:
            await call

    # Read to its end first: a stream that nobody reads has no status yet.
    ended = asyncio.ensure_future(end())
    await asyncio.wait([ended])
    if ended.exception() is None:
        return Answer("OK")
    refused = await refusal(ended)
    return Answer(refused.code, refused.reason, refused.metadata.get("field", refused.metadata.get("role", "")))


def request(method: MethodDescriptor, tenant_id: str | None, **ids: str) -> bytes:
    """A request about a tenant, or about no scope at all, that names whatever of the ids the call can name."""
    message: Any = message_factory.GetMessageClass(method.input_type)()
    if tenant_id is not None and "scope" in method.input_type.fields_by_name:
        message.scope.CopyFrom(pb.Scope(tenant_id=tenant_id, agent_id="exam"))
    for name, value in ids.items():
        if name in method.input_type.fields_by_name:
            setattr(message, name, value)
    assert isinstance(message, Message)
    return message.SerializeToString()
