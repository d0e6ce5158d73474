"""Every call with messages that hypothesis makes of the contract, with bytes that are none, and frames of no call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
import structlog
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import given
from hypothesis import strategies as st

from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Running
from tests.fuzz import tried
from tests.fuzz.messages import CALLS, METHODS, request
from tests.talk import Talk
from tests.wire import DATA, END_STREAM, Wire, frame, headers, message, wire

ANSWERS = {
    *("OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION"),
    *("RESOURCE_EXHAUSTED", "UNIMPLEMENTED"),
}
"""How a call may end, whatever was sent: by what the contract says of its request."""


async def ends(channel: grpc.aio.Channel, method: MethodDescriptor, parts: list[bytes]) -> str:
    """Makes a call with these bytes; returns how it ended."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = ("stream" if method.client_streaming else "unary") + ("_stream" if method.server_streaming else "_unary")
    call: Any = getattr(channel, kind)(path)(iter(parts) if method.client_streaming else parts[0])
    try:
        if method.server_streaming:
            async for _ in call:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


@contextmanager
def nothing_breaks(running: Running, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No call and no job may meet what nobody has thought of, and nothing may log a traceback."""
    caplog.clear()
    with structlog.testing.capture_logs() as said:
        yield
    assert not [entry for entry in said if entry["event"] in ("call_broke", "job_broke")]
    assert not [failure for failure in running.daemon.worker.failures() if failure.reason == "INTERNAL"]
    assert not [record for record in caplog.records if record.exc_info or "Traceback" in record.getMessage()]


async def lives(running: Running) -> None:
    """The daemon records and shows as ever, in a scope that was left alone."""
    talk = Talk(running, pb.Scope(tenant_id="calm", agent_id="exam"))
    await talk.record("还活着")
    assert "还活着" in (await talk.context()).text
    await talk.delete_thread()


async def conversation(running: Running) -> str:
    """Records a run in the conversation that right messages speak of; returns its thread, which may be a new one."""
    talk = Talk(running, pb.Scope(tenant_id="school-7", agent_id="exam"))
    await talk.record("出一份试卷", thread_key="monday")
    return talk.thread_id


@tried(15)
@given(st.lists(CALLS, min_size=1, max_size=6))
async def test_whatever_message_is_sent_the_answer_is_one_of_the_contracts(
    running: Running,
    caplog: pytest.LogCaptureFixture,
    calls: list[tuple[MethodDescriptor, list[dict[str, Any]]]],
) -> None:
    thread_id = await conversation(running)
    with nothing_breaks(running, caplog):
        for method, messages in calls:
            parts = [request(method, fields, thread_id) for fields in messages]
            assert await ends(running.channel, method, parts) in ANSWERS, method.name
        await running.settle()
        await lives(running)


@tried(15)
@given(
    st.lists(st.tuples(st.sampled_from(METHODS), st.lists(st.binary(max_size=300), min_size=1, max_size=2)), max_size=8)
)
async def test_whatever_bytes_are_sent_for_a_message(
    running: Running, caplog: pytest.LogCaptureFixture, calls: list[tuple[MethodDescriptor, list[bytes]]]
) -> None:
    with nothing_breaks(running, caplog):
        for method, parts in calls:
            assert await ends(running.channel, method, parts) in ANSWERS, method.name
        await lives(running)


@tried(15)
@given(
    CALLS, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6), st.integers(0, 99)
)
async def test_whatever_becomes_of_a_message_on_the_way(
    running: Running,
    caplog: pytest.LogCaptureFixture,
    call: tuple[MethodDescriptor, list[dict[str, Any]]],
    flips: list[tuple[int, int]],
    cut: int,
) -> None:
    thread_id = await conversation(running)
    method, messages = call
    data = bytearray(request(method, messages[0], thread_id))
    for place, value in flips:
        if data:
            data[place % len(data)] = value
    with nothing_breaks(running, caplog):
        for part in (bytes(data), bytes(data[: len(data) * cut // 100])):
            assert await ends(running.channel, method, [part]) in ANSWERS, method.name
        await running.settle()
        await lives(running)


FRAMES = st.lists(
    st.tuples(
        st.sampled_from(["frame", "headers", "message", "bytes"]),
        st.integers(0, 12),
        st.integers(0, 255),
        st.sampled_from([0, 1, 3, 5, 2, 2**31 - 1]),
        st.binary(max_size=120),
    ),
    max_size=12,
)


async def speak(connection: Wire, frames: list[tuple[str, int, int, int, bytes]]) -> None:
    for shape, kind, flags, stream, payload in frames:
        match shape:
            case "frame":
                await connection.send(frame(kind, flags, stream, payload))
            case "headers":
                method = METHODS[kind]
                await connection.send(headers(stream, f"/{method.containing_service.full_name}/{method.name}"))
            case "message":
                await connection.send(frame(DATA, flags & END_STREAM, stream, message(payload)))
            case "bytes":
                await connection.send(payload)


@tried(15)
@given(FRAMES)
async def test_whatever_frames_come_the_daemon_lives(
    running: Running, caplog: pytest.LogCaptureFixture, frames: list[tuple[str, int, int, int, bytes]]
) -> None:
    with nothing_breaks(running, caplog):
        async with wire(running.daemon.address) as connection:
            await speak(connection, frames)
            await asyncio.sleep(0)
        await lives(running)
