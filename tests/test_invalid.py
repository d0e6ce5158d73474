"""What a request may not be: each field that can be wrong is named, nothing of it is quoted, nothing is stored."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.talk import COMPLETED, Talk, refusal

SCOPE = pb.Scope(tenant_id="school-7", agent_id="exam", user_id="wang")
KIB, MIB = 1 << 10, 1 << 20
SERVICES = svc.DESCRIPTOR.services_by_name.values()


async def send(running: Running, method: str, request: Message) -> Any:
    """Makes a call by its name."""
    service, name = method.split(".")
    stub = {"Memory": running.memory, "Threads": running.threads, "Recall": running.recall, "Ops": running.ops}[service]
    return await getattr(stub, name)(request)


def context(**fields: Any) -> tuple[str, Message]:
    return "Memory.GetContext", svc.GetContextRequest(**({"scope": SCOPE} | fields))


def record(**fields: Any) -> tuple[str, Message]:
    values: dict[str, Any] = {"scope": SCOPE, "outcome": COMPLETED}
    return "Memory.RecordRun", svc.RecordRunRequest(**(values | fields))


def threads(**fields: Any) -> tuple[str, Message]:
    return "Threads.ListThreads", svc.ListThreadsRequest(**({"scope": SCOPE} | fields))


def usage(**fields: Any) -> tuple[str, Message]:
    return "Ops.GetUsage", svc.GetUsageRequest(**({"scope": SCOPE} | fields))


def ops(**fields: Any) -> tuple[str, Message]:
    return "Ops.ListMemoryOps", svc.ListMemoryOpsRequest(**({"scope": SCOPE} | fields))


def search(**fields: Any) -> tuple[str, Message]:
    return "Recall.Search", svc.SearchRequest(**({"scope": SCOPE} | fields))


LATER, EARLIER = Timestamp(seconds=10), Timestamp(seconds=9)
TOO_MANY = {f"k{i}": "" for i in range(17)}

INVALID: list[tuple[tuple[str, Message], str]] = [
    *((call(scope=None), "scope.tenant_id") for call in (context, record, threads, usage, ops, search)),
    *(
        (context(scope=pb.Scope(tenant_id=bad, agent_id="a")), "scope.tenant_id")
        for bad in ("", "租户", "a b", "a" * 129)
    ),
    (record(scope=pb.Scope(tenant_id="a", agent_id="")), "scope.agent_id"),
    (record(scope=pb.Scope(tenant_id="a", agent_id="a\n")), "scope.agent_id"),
    (record(scope=pb.Scope(tenant_id="a", agent_id="a", user_id="王")), "scope.user_id"),
    (record(scope=pb.Scope(tenant_id="a", agent_id="a", user_id="a\x00")), "scope.user_id"),
    (record(outcome=0), "outcome"),
    (record(outcome=9), "outcome"),
    (record(thread_id="th_x", thread_key="k"), "thread_key"),
    (context(thread_id="th_x", thread_key="k"), "thread_key"),
    (record(thread_key="k" * 129), "thread_key"),
    (record(run_id="r" * 129), "run_id"),
    (record(provider="p" * 129), "provider"),
    (record(model="m" * 129), "model"),
    (record(usage=pb.Usage(input_tokens=-1)), "usage.input_tokens"),
    (record(usage=pb.Usage(output_tokens=-1)), "usage.output_tokens"),
    (record(usage=pb.Usage(cost_micros=-1)), "usage.cost_micros"),
    (record(usage=pb.Usage(cost_micros=2**63 - 1)), "usage.cost_micros"),
    (record(context_token_count=-1), "context_token_count"),
    (record(labels=TOO_MANY), "labels"),
    (record(labels={"": "x"}), "labels"),
    (record(labels={"k" * 65: ""}), "labels"),
    (record(labels={"k": "v" * 65}), "labels"),
    (record(end_time=Timestamp(seconds=253_402_300_800)), "end_time"),
    (record(end_time=Timestamp(seconds=1, nanos=-1)), "end_time"),
    (record(end_time=Timestamp(seconds=1, nanos=10**9)), "end_time"),
    (context(token_budget=-1), "token_budget"),
    (context(token_budget=128_001), "token_budget"),
    (context(reserved_tokens=-1), "reserved_tokens"),
    (context(recall_top_k=-1), "recall_top_k"),
    *((context(locale=bad), "locale") for bad in ("fr", "z", "zhx", "zh_CN", "en-", "zh-\n", "中文")),
    *(
        (context(time_zone=bad), "time_zone")
        for bad in ("Mars/Olympus", "../etc/passwd", "/etc", "Asia", "UTC\n", "A" * 5000)
    ),
    (threads(page_size=-1), "page_size"),
    (threads(page_token="x"), "page_token"),
    (threads(state=7), "state"),
    (("Threads.GetThread", svc.GetThreadRequest(scope=SCOPE)), "thread_id"),
    (("Threads.ListRuns", svc.ListRunsRequest(scope=SCOPE)), "thread_id"),
    (("Threads.ListRuns", svc.ListRunsRequest(scope=SCOPE, thread_id="th_x", view=9)), "view"),  # type: ignore[arg-type]
    (("Threads.ListRuns", svc.ListRunsRequest(scope=SCOPE, thread_id="th_x", page_size=-1)), "page_size"),
    (("Threads.GetRun", svc.GetRunRequest(scope=SCOPE)), "run_id"),
    (("Threads.DeleteRun", svc.DeleteRunRequest(scope=SCOPE)), "run_id"),
    (("Threads.DeleteThread", svc.DeleteThreadRequest(scope=SCOPE)), "thread_id"),
    (("Threads.ArchiveThread", svc.ArchiveThreadRequest(scope=SCOPE)), "thread_id"),
    (("Threads.UnarchiveThread", svc.UnarchiveThreadRequest(scope=SCOPE)), "thread_id"),
    *(
        (("Threads.RenameThread", svc.RenameThreadRequest(scope=SCOPE, thread_id="th_x", title=bad)), "title")
        for bad in ("", " \n ", "题" * 201, "\u200b", "\u202e\x07", "\x00", "\u0301")
    ),
    (search(top_k=-1), "top_k"),
    *((search(min_score=bad), "min_score") for bad in (-0.1, 1.1, float("nan"), float("inf"))),
    (usage(group_by=9), "group_by"),
    (usage(time_zone="Mars/Olympus"), "time_zone"),
    (usage(start_time=LATER, end_time=EARLIER), "end_time"),
    (usage(start_time=Timestamp(seconds=-(10**12))), "start_time"),
    (ops(start_time=LATER, end_time=EARLIER), "end_time"),
    (ops(page_size=-1), "page_size"),
    (ops(page_token="x"), "page_token"),
    (("Ops.GetWorkerStatus", svc.GetWorkerStatusRequest(scope=pb.Scope())), "scope.tenant_id"),
    (("Ops.ListNotices", svc.ListNoticesRequest()), "scope.tenant_id"),
    (("Ops.AcknowledgeNotice", svc.AcknowledgeNoticeRequest(scope=SCOPE)), "notice_id"),
]


async def test_a_wrong_field_is_named_and_nothing_is_stored(running: Running) -> None:
    for (method, request), field in INVALID:
        answer = await refusal(send(running, method, request))
        assert answer[:3] == ("INVALID_ARGUMENT", "INVALID_FIELD", {"field": field}), (method, request)
        assert answer.message.startswith(f"{field}: ")
    listed = await running.threads.ListThreads(svc.ListThreadsRequest(scope=SCOPE, include_archived=True))
    assert not listed.threads


async def test_what_is_just_allowed_is_taken(running: Running) -> None:
    for method, request in (
        record(usage=pb.Usage(input_tokens=10**12), labels={"k" * 64: "v" * 64}, provider="提" * 128),
        record(end_time=Timestamp(seconds=253_402_300_799, nanos=999_999_999)),
        record(end_time=Timestamp(seconds=-62_135_596_800)),
        record(thread_key="键" * 128, run_id="号" * 128),
        context(token_budget=128_000, reserved_tokens=2**31 - 1),
        context(
            input="出一份", recall_top_k=2**31 - 1, locale="ZH-hant-TW", time_zone="America/Argentina/Buenos_Aires"
        ),
        threads(page_size=2**31 - 1, query="问"),
        search(query="出一份", top_k=2**31 - 1, min_score=1.0),
        usage(start_time=EARLIER, end_time=EARLIER),
    ):
        await send(running, method, request)


@pytest.mark.parametrize("unit", ["a", "汉", "😀", "\x00"])
async def test_a_text_of_the_greatest_size_is_taken_and_one_byte_more_is_not(running: Running, unit: str) -> None:
    def of(size: int) -> str:
        width = len(unit.encode())
        return unit * (size // width) + "x" * (size % width)

    for method, make, field, limit in (
        ("Memory.RecordRun", record, "input", 256 * KIB),
        ("Memory.RecordRun", record, "output", MIB),
        ("Memory.GetContext", context, "input", 256 * KIB),
        ("Memory.GetContext", context, "knowledge", MIB),
        ("Recall.Search", search, "query", 256 * KIB),
    ):
        await send(running, *make(**{field: of(limit)}))
        answer = await refusal(send(running, *make(**{field: of(limit) + "x"})))
        assert answer[:2] == ("INVALID_ARGUMENT", "FIELD_TOO_LARGE"), method
        assert answer.metadata == {"field": field, "limit_bytes": str(limit)}
    (thread, other) = (await running.threads.ListThreads(svc.ListThreadsRequest(scope=SCOPE))).threads
    assert (thread.run_count, other.run_count) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "a\x00b",
        "\r\n\r",
        "\u202e\u05db\u05ea\u05d1",
        "👩‍👩‍👧",
        "e\u0301",
        "\ufeff",
        "\ufffe",
        "x" * (256 * KIB),
        "汉" * 80_000,
        " " * 9000,
    ],
)
async def test_text_is_stored_and_returned_as_it_was_sent(running: Running, scope: pb.Scope, text: str) -> None:
    talk = Talk(running, scope)
    run_id = await talk.record(text, text)
    run = (await running.threads.GetRun(svc.GetRunRequest(scope=scope, run_id=run_id))).run
    assert (run.input, run.output, run.truncated) == (text, text, False)
    await talk.context(given=text, knowledge=text)


MALFORMED = (
    b"\xff" * 40,
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x0a\x7f",
    b"\x0a\x02\x0a\x80",
    b"\x1a\x02\xff\xfe",
    b"\x0b\x0b",
)
ALSO_RIGHT = {
    "GetWorkerStatus": "OK",  # without a scope it asks about the whole daemon
    "ListScopes": "OK",  # it needs nothing
}


async def test_malformed_bytes_are_told_so_and_leave_no_trace(
    running: Running, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for service in SERVICES:
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            for data in MALFORMED:
                code = await _raw(running.channel, path, data, method.client_streaming, method.server_streaming)
                # Bytes may happen to be a message of fields that nobody knows: then what is required is missing.
                assert code in {"INVALID_ARGUMENT", ALSO_RIGHT.get(method.name)}, (path, data, code)
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err + caplog.text
    assert "call_broke" not in out + err
    await Talk(running, SCOPE).record("还活着")


async def _raw(channel: grpc.aio.Channel, path: str, data: bytes, client_streams: bool, server_streams: bool) -> str:
    call: Any = channel  # without serializers it takes and gives bytes, which its types do not know
    try:
        if client_streams:
            await call.stream_unary(path)(iter([data]))
        elif server_streams:
            async for _ in call.unary_stream(path)(data):
                pass
        else:
            await call.unary_unary(path)(data)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def test_a_method_that_nobody_has_is_unimplemented(running: Running) -> None:
    for path in ("/memsvc.v1.MemoryService/Forget", "/memsvc.v2.MemoryService/GetContext", "/x"):
        assert await _raw(running.channel, path, b"", False, False) == "UNIMPLEMENTED"
