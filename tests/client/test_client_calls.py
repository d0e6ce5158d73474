"""Every call of the contract through both clients: what is sent, what comes back, and which error is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import memsvc_client as mc
import pytest
from memsvc_client import FinishedRun, MemsvcError

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from tests.client.both import (
    CODE,
    CONTEXT,
    FULL,
    SCOPE,
    Awaited,
    Blocking,
    Client,
    context,
)
from tests.fakes.memory_server import Behaviour, FakeMemory, answers, garbles, hangs, refuses


async def test_every_call_of_the_contract_can_be_made(client: Client, server: FakeMemory) -> None:
    single: list[Callable[[Any], Any]] = [
        context,
        lambda m: m.record_run(FinishedRun(scope=SCOPE, input="")),
        lambda m: m.threads.get(SCOPE, "th_1"),
        lambda m: m.threads.get_run(SCOPE, "run_1"),
        lambda m: m.threads.rename(SCOPE, "th_1", "试卷"),
        lambda m: m.threads.archive(SCOPE, "th_1"),
        lambda m: m.threads.unarchive(SCOPE, "th_1"),
        lambda m: m.threads.delete(SCOPE, "th_1"),
        lambda m: m.threads.delete_run(SCOPE, "run_1"),
        lambda m: m.recall.search(SCOPE, "二叉树"),
        lambda m: m.core.list_facts(SCOPE),
        lambda m: m.core.create_fact(SCOPE, "教高二", actor="li"),
        lambda m: m.core.update_fact(SCOPE, "f_1", "教高三"),
        lambda m: m.core.delete_fact(SCOPE, "f_1"),
        lambda m: m.core.confirm(SCOPE, "c_1"),
        lambda m: m.core.reject(SCOPE, "c_1"),
        lambda m: m.ops.usage(SCOPE, group_by=rpc.USAGE_GROUP_DAY),
        lambda m: m.ops.worker_status(SCOPE),
        lambda m: m.ops.notices(SCOPE),
        lambda m: m.ops.acknowledge(SCOPE, "n_1"),
        lambda m: m.ops.import_scope(SCOPE, [b"{}\n"]),
        lambda m: m.ops.delete_scope(SCOPE),
    ]
    lists: list[Callable[[Any], Any]] = [
        lambda m: m.threads.list(SCOPE),
        lambda m: m.threads.runs(SCOPE, "th_1"),
        lambda m: m.core.candidates(SCOPE),
        lambda m: m.ops.memory_ops(SCOPE),
        lambda m: m.ops.scopes(),
        lambda m: m.ops.export_scope(SCOPE),
    ]
    for call in single:
        await client.ask(call)
    for call in lists:
        assert await client.listed(call) == []

    contract = {m.name for s in rpc.DESCRIPTOR.services_by_name.values() for m in s.methods}
    assert {name for name, _ in server.requests} == contract
    for name in contract - {"ListScopes"}:
        assert server.sent(name)[0].scope == SCOPE.to_message(), name


async def test_a_context_comes_as_a_value(client: Client, server: FakeMemory) -> None:
    reply = rpc.GetContextResponse()
    reply.CopyFrom(CONTEXT)
    reply.sections.add(
        kind=pb.SECTION_KIND_RECALL, text="[前情]", sources=[pb.Source(run_id="r", score=0.5)], omitted_count=2
    )
    reply.sections.add(kind=99)  # As a newer daemon may.
    server.behave["GetContext"] = [answers(reply)]

    got: mc.Context = await client.ask(context)

    assert (got.text, got.thread_id, got.thread_new, got.token_count) == ("[前情]\n[请求]", "th_1", False, 9)
    assert got.before("问") == "[前情]\n[请求]\n问"
    assert [section.kind for section in got.sections] == [mc.SectionKind.RECALL, mc.SectionKind.UNKNOWN]
    assert got.sections[0].sources == (mc.Source(run_id="r", score=0.5),)
    assert mc.Context().before("问") == "问"


async def test_a_list_asks_for_page_after_page_and_no_page_twice(client: Client, server: FakeMemory) -> None:
    server.behave["ListThreads"] = [
        answers(rpc.ListThreadsResponse(threads=[pb.Thread(title="a")], next_page_token="2")),
        answers(rpc.ListThreadsResponse(threads=[], next_page_token="3")),
        answers(rpc.ListThreadsResponse(threads=[pb.Thread(title="b")])),
    ]
    threads = await client.listed(lambda m: m.threads.list(SCOPE, query="树", page_size=1))
    assert [thread.title for thread in threads] == ["a", "b"]
    assert [(r.page_token, r.query, r.page_size) for r in server.sent("ListThreads")] == [
        ("", "树", 1),
        ("2", "树", 1),
        ("3", "树", 1),
    ]


async def test_an_export_streams_and_its_error_is_ours(client: Client, server: FakeMemory) -> None:
    chunk = answers(rpc.ExportScopeResponse(data=b"{}\n"))
    server.behave["ExportScope"] = [chunk, chunk]
    assert await client.listed(lambda m: m.ops.export_scope(SCOPE)) == [b"{}\n", b"{}\n"]

    server.behave["ExportScope"] = [chunk, refuses(CODE.PERMISSION_DENIED, "ROLE_DENIED")]
    with pytest.raises(mc.RoleDenied):
        await client.listed(lambda m: m.ops.export_scope(SCOPE))
    assert server.asked("ExportScope") == 2


@pytest.mark.parametrize("size", [0, 1, 1024 * 1024, 2 * 1024 * 1024 + 1])
async def test_an_import_goes_in_pieces_with_the_scope_on_the_first(
    client: Client, server: FakeMemory, size: int
) -> None:
    data = b"x" * size
    await client.ask(lambda m: m.ops.import_scope(SCOPE, [data[:5], data[5:]]))
    sent = server.sent("ImportScope")
    assert b"".join(request.data for request in sent) == data
    assert [request.HasField("scope") for request in sent] == [n == 0 for n in range(len(sent))]
    assert max(len(request.data) for request in sent) <= 1024 * 1024


async def test_a_token_goes_with_every_call_and_shows_in_no_repr(server: FakeMemory) -> None:
    for kind in (Blocking, Awaited):
        client: Client = kind(server.address, token="t0k3n")
        await client.ask(context)
        await client.listed(lambda m: m.ops.export_scope(SCOPE))
        assert "t0k3n" not in repr(client.memory.sender.connection)
        await client.close()
    assert {each["authorization"] for each in server.metadata} == {"Bearer t0k3n"}


async def test_without_a_token_no_credential_is_sent(client: Client, server: FakeMemory) -> None:
    await client.ask(context)
    assert "authorization" not in server.metadata[0]


async def test_what_no_message_can_carry_is_an_invalid_field(client: Client, server: FakeMemory) -> None:
    naive = datetime(2026, 12, 1)  # noqa: DTZ001  # Without a zone is what is tested.
    for call in (
        lambda m: m.get_context(SCOPE, "\ud800"),
        lambda m: m.get_context(SCOPE, "", token_budget=2**40),
        lambda m: m.ops.usage(SCOPE, start_time=naive),
    ):
        with pytest.raises(mc.InvalidField, match="cannot be sent"):
            await client.ask(call)
    assert server.requests == []


async def test_a_closed_client_says_so(client: Client) -> None:
    await client.ask(context)
    await client.close()
    for call in (context, lambda m: m.record_run(FinishedRun(scope=SCOPE, input=""))):
        with pytest.raises(MemsvcError, match="closed") as caught:
            await client.ask(call)
        assert caught.value.code is CODE.CANCELLED


async def test_closing_ends_the_calls_under_way(client: Client, server: FakeMemory) -> None:
    server.behave["CreateFact"] = [hangs]
    waiting = asyncio.create_task(client.ask(lambda m: m.core.create_fact(SCOPE, "教高二")))
    await server.wait_for("CreateFact")
    await client.close()
    with pytest.raises(MemsvcError) as caught:
        await waiting
    assert caught.value.code is CODE.CANCELLED


async def test_one_client_serves_many_callers_at_once(client: Client, server: FakeMemory) -> None:
    await asyncio.gather(*(client.ask(context) for _ in range(40)))
    assert server.asked("GetContext") == 40


ERRORS: list[tuple[Behaviour, type[MemsvcError], dict[str, object]]] = [
    (
        refuses(CODE.INVALID_ARGUMENT, "INVALID_FIELD", field="locale"),
        mc.InvalidField,
        {"field": "locale", "reason": "INVALID_FIELD", "code": CODE.INVALID_ARGUMENT},
    ),
    (
        refuses(CODE.INVALID_ARGUMENT, "FIELD_TOO_LARGE", field="input", limit_bytes="262144"),
        mc.FieldTooLarge,
        {"field": "input", "limit_bytes": 262144},
    ),
    (refuses(CODE.INVALID_ARGUMENT, "FIELD_TOO_LARGE", limit_bytes="-x"), mc.FieldTooLarge, {"limit_bytes": 0}),
    (refuses(CODE.INVALID_ARGUMENT, "THREAD_NOT_IN_SCOPE"), mc.ThreadNotInScope, {}),
    (refuses(CODE.INVALID_ARGUMENT, "RED_LINE", category="health"), mc.RedLine, {"category": "health"}),
    (refuses(CODE.INVALID_ARGUMENT, "IMPORT_INVALID", line="12"), mc.ImportInvalid, {"line": 12}),
    (refuses(CODE.NOT_FOUND, "RUN_NOT_FOUND"), mc.NotFound, {"reason": "RUN_NOT_FOUND"}),
    (refuses(CODE.ALREADY_EXISTS, "RUN_CONFLICT"), mc.RunConflict, {}),
    (refuses(CODE.FAILED_PRECONDITION, "DELETED", what="run"), mc.Deleted, {"metadata": {"what": "run"}}),
    (refuses(CODE.UNAUTHENTICATED, "UNAUTHENTICATED"), mc.Unauthenticated, {}),
    (refuses(CODE.PERMISSION_DENIED, "SCOPE_DENIED"), mc.ScopeDenied, {}),
    (refuses(CODE.PERMISSION_DENIED, "ROLE_DENIED"), mc.RoleDenied, {}),
    (FULL, mc.DiskFull, {"reason": "DISK_FULL"}),
    (refuses(CODE.UNIMPLEMENTED), mc.Unimplemented, {"reason": ""}),
    # A reason of a newer daemon, or of something else on the way, is known by its status alone.
    (refuses(CODE.PERMISSION_DENIED, "MOON_PHASE"), mc.PermissionDenied, {"reason": "MOON_PHASE"}),
    (refuses(CODE.PERMISSION_DENIED, "RED_LINE", "example.org"), mc.PermissionDenied, {"reason": ""}),
    (garbles(CODE.NOT_FOUND), mc.NotFound, {"reason": "", "message": "told to"}),
    (refuses(CODE.DATA_LOSS), MemsvcError, {"code": CODE.DATA_LOSS}),
]


@pytest.mark.parametrize(("behaviour", "kind", "attributes"), ERRORS)
async def test_an_error_is_of_the_class_of_its_reason(
    client: Client, server: FakeMemory, behaviour: Behaviour, kind: type[MemsvcError], attributes: dict[str, object]
) -> None:
    server.behave["GetContext"] = [behaviour]
    with pytest.raises(MemsvcError) as caught:
        await client.ask(context)
    assert type(caught.value) is kind
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value
    assert server.asked("GetContext") == 1, "none of these may be tried again"
