"""Messages made from the contract's own descriptors: right ones, nearly right ones, and what nobody means to send."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from memsvc.v1 import memory_service_pb2 as svc

METHODS = [method for service in svc.DESCRIPTOR.services_by_name.values() for method in service.methods]

THREAD = "<a thread of the scope>"
"""Stands for an id that only the running daemon knows."""

HOSTILE = [
    *("", " ", "\x00", "a\x00b", "\ufeff", "\ufffe", "\u202e", "\r\n", "’; DROP TABLE runs; --", "%s%n{}{0}"),
    *("../../etc/passwd", "*", "th_", "th_" + "a" * 24, "run_" + "0" * 32, "f_0", "c_0", "-1", "∞"),
    *("nt_1", "nt_-1", "nt_99999999999999999999", "AAAA", "AAAAAAAAAAAAAAAAAAAAAA"),
    *("身份证号110101199003071233", "[核心记忆 #3fa9c1", "<|im_start|>system", "‹用户› 问", "{" * 500, "(" * 500),
    *("\U0001f469\u200d\U0001f469\u200d\U0001f467" * 50, "e" + "\u0301" * 300, "\U0001f004" * 1_000),
    *("汉" * 3_000, "x" * 5_000, " " * 5_000, "a\n" * 1_000),
]

KNOWN: dict[str, list[str]] = {
    "tenant_id": ["school-7", "school-8"],
    "agent_id": ["exam"],
    "user_id": ["", "wang"],
    "thread_id": [THREAD, ""],
    "thread_key": ["", "monday"],
    "run_id": ["", "run-1", "run-2"],
    "locale": ["", "zh", "en-GB"],
    "time_zone": ["", "Asia/Shanghai", "UTC"],
    "provider": ["", "qwen"],
    "text": ["用户喜欢蓝色", "用户教高二"],
    "input": ["出一份数据结构试卷", "接着说"],
    "output": ["好的，已经做好。"],
    "query": ["试卷", ""],
    "title": ["新名字"],
    "page_token": [""],
}
"""What a right request might have, by the field's name."""

INT32 = st.sampled_from([0, 1, -1, 2, 100, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
INT64 = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 10**12]) | st.integers(-(2**63), 2**63 - 1)
TEXT = st.sampled_from(HOSTILE) | st.text(max_size=60) | st.text("[]#‹›:{}\"'\\\n\u200b0123用户系统", max_size=80)

LINES = st.lists(
    st.sampled_from(["", "{}", "[]", "null", '{"kind": "scope"}', '{"format": "memsvc", "version": 1}', "\ufeff", "{"])
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
        max_leaves=8,
    ).map(json.dumps),
    max_size=5,
).map(lambda lines: "\n".join(lines).encode())


ANY: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_FLOAT: st.sampled_from([-1.0, float("nan"), float("inf")]) | st.floats(width=32),
    FieldDescriptor.TYPE_BYTES: LINES | st.binary(max_size=200),
}
"""What a field of a type can hold. A type that stands nowhere here is a KeyError: say how to make one."""

RIGHT: dict[int, st.SearchStrategy[Any]] = ANY | {
    FieldDescriptor.TYPE_STRING: TEXT.map(lambda text: text[:200]),
    FieldDescriptor.TYPE_INT32: st.integers(0, 1_000),
    FieldDescriptor.TYPE_INT64: st.integers(0, 10**9),
    FieldDescriptor.TYPE_FLOAT: st.floats(0, 1, width=32),
}
"""What it would hold where the caller means well."""


def _is_map(field: Any) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _right(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if _is_map(field):
        return st.dictionaries(st.sampled_from(["a", "键"]), TEXT.map(lambda text: text[:60]), max_size=3)
    if field.message_type:
        return right(field.message_type)
    if field.enum_type:
        return st.sampled_from([value.number for value in field.enum_type.values if value.number] or [0])
    return st.sampled_from(KNOWN[field.name]) if field.name in KNOWN else RIGHT[field.type]


def _any(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if _is_map(field):
        return st.dictionaries(TEXT, TEXT, max_size=20)
    if field.message_type:
        return anything(field.message_type, depth + 1)
    return INT32 if field.enum_type else ANY[field.type]


def right(descriptor: Descriptor) -> st.SearchStrategy[dict[str, Any]]:
    """A message as a caller would fill it in: what names something is always there, the rest may be."""
    there = {field.name: _right(field) for field in descriptor.fields}
    wanted = {name: there.pop(name) for name in list(there) if name.endswith("_id") or name in ("scope", "outcome")}
    return st.fixed_dictionaries(wanted, optional=there)


def anything(descriptor: Descriptor, depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """A message with whatever its fields can hold."""
    if depth > 4:
        return st.just({})
    return st.fixed_dictionaries({}, optional={field.name: _any(field, depth) for field in descriptor.fields})


def message_of(descriptor: Descriptor) -> st.SearchStrategy[dict[str, Any]]:
    """A message that is right, or right but for one field, or neither."""
    nearly = [
        st.builds(dict.__or__, right(descriptor), st.fixed_dictionaries({field.name: _any(field, 0)}))
        for field in descriptor.fields
    ]
    return right(descriptor) | right(descriptor) | st.one_of(nearly or [st.just({})]) | anything(descriptor)


def fill(message: Message, fields: dict[str, Any], thread_id: str) -> None:
    """Puts the values into a message; `thread_id` stands where `THREAD` does."""
    for name, value in fields.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if _is_map(field):
            getattr(message, name).update(value)
        elif field.message_type:
            getattr(message, name).SetInParent()
            fill(getattr(message, name), value, thread_id)
        else:
            setattr(message, name, thread_id if value == THREAD else value)


def request(method: MethodDescriptor, fields: dict[str, Any], thread_id: str) -> bytes:
    """A request of the method as bytes."""
    message = message_factory.GetMessageClass(method.input_type)()
    fill(message, fields, thread_id)
    data: bytes = message.SerializeToString()
    return data


CALLS = st.sampled_from(METHODS).flatmap(
    lambda method: st.tuples(
        st.just(method),
        st.lists(message_of(method.input_type), min_size=1, max_size=3 if method.client_streaming else 1),
    )
)
"""A method and the messages to call it with: one, or some where it takes a stream."""
