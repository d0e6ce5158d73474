"""Scopes brought in: what one daemon exported is in another all that it was, once, whole or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.fakes.provider import FakeProvider
from tests.review import BLACK, GRADE, Review, begun, nothing, propose
from tests.talk import CANCELLED, FAILED, Talk, refusal
from tests.test_export import exported, of_type
from tests.units import contents

NONE = svc.ImportScopeResponse()


async def imported(running: Running, scope: pb.Scope, data: bytes, piece: int = 1 << 20) -> svc.ImportScopeResponse:
    def parts() -> Iterator[svc.ImportScopeRequest]:
        yield svc.ImportScopeRequest(scope=scope, data=data[:piece])
        for at in range(piece, len(data), piece):
            yield svc.ImportScopeRequest(data=data[at : at + piece])

    return await running.ops.ImportScope(parts())


async def full(start: Start, scope: pb.Scope, cloud: FakeProvider) -> tuple[Running, Talk, Review]:
    """A daemon with a scope that has something of everything, deletions too."""
    cloud.behave = nothing()
    running, talk, review = await begun(start, scope, cloud)
    await talk.turns(*[f"第{n}问：怎么出卷" for n in range(6)], labels={"lang": "zh"}, usage=pb.Usage(cost_micros=7))
    await talk.record("坏了", "别看", FAILED)
    await talk.record("stop\x00", "半" * 3_000, CANCELLED)
    await propose(talk, cloud, BLACK, GRADE, "用户喜欢短的答案")
    candidates = {each.text: each.candidate_id for each in await review.candidates()}
    await review.confirm(candidates[BLACK])
    await review.reject(candidates[GRADE])
    await review.create("用户住在杭州")
    gone = await review.create("用户写得一手好字")
    await review.delete(gone.fact.fact_id)
    await talk.record("monday", thread_id="", thread_key="monday", provider="unheard-of")
    await running.threads.RenameThread(svc.RenameThreadRequest(scope=scope, thread_id=talk.thread_id, title="周一的课"))
    await running.threads.ArchiveThread(svc.ArchiveThreadRequest(scope=scope, thread_id=talk.thread_id))
    lost = await talk.record("to be deleted", thread_id="", usage=pb.Usage(input_tokens=11))
    await talk.delete_run(lost)
    await talk.record("another", thread_id="")
    await talk.delete_thread()
    await running.settle()
    for notice in (await talk.notices())[:1]:
        await running.ops.AcknowledgeNotice(svc.AcknowledgeNoticeRequest(scope=scope, notice_id=notice.notice_id))
    return running, talk, review


async def told(running: Running, scope: pb.Scope) -> dict[str, Any]:
    """What the calls tell of a scope, without the numbers that are a database's own."""
    threads = (
        await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope, include_archived=True, page_size=200))
    ).threads
    runs = []
    for thread in threads:
        request = svc.ListRunsRequest(scope=scope, thread_id=thread.thread_id, page_size=200)
        for run in (await running.threads.ListRuns(request)).runs:
            run.ClearField("sequence")
            runs.append(run)
    review = Review(running, scope)
    ops = (await running.ops.ListMemoryOps(svc.ListMemoryOpsRequest(scope=scope, page_size=200))).memory_ops
    for op in ops:
        op.ClearField("op_id")
    usage = svc.GetUsageRequest(scope=scope, group_by=svc.USAGE_GROUP_PROVIDER)
    hits = (await running.recall.Search(svc.SearchRequest(scope=scope, query="怎么出卷"))).hits
    return {
        "threads": list(threads),
        "runs": runs,
        "facts": await review.facts(),
        "candidates": await review.candidates(),
        "ops": list(ops),
        "usage": await running.ops.GetUsage(usage),
        "hits": [(hit.run.run_id, round(hit.score, 6), hit.snippet) for hit in hits],
        "notices": [(n.kind, n.text, n.create_time) for n in await Talk(running, scope).notices()],
    }


async def test_an_export_is_in_an_empty_daemon_all_that_it_was(start: Start, scope: pb.Scope, tmp_path: Path) -> None:
    async with FakeProvider() as cloud:
        running, talk, _ = await full(start, scope, cloud)
        data = await exported(running, scope)
        before = await told(running, scope)
        late = [
            svc.RecordRunRequest(scope=scope, run_id=run_id, input="x", outcome=pb.RUN_OUTCOME_COMPLETED)
            for run_id in talk.run_ids[-2:]
        ]
        other = await start(database=tmp_path / "other.db")
        answer = await imported(other, scope, data, 777)
        assert answer.thread_count == len(of_type(data, "thread"))
        assert answer.run_count == len(of_type(data, "run"))
        assert (answer.fact_count, answer.candidate_count, answer.refused_count) == (2, 1, 0)
        after = await told(other, scope)
        for what, value in before.items():
            assert after[what] == value, what
        assert await exported(other, scope) == data
        # What was deleted or rejected there stays so here.
        for request in late:
            assert (await refusal(other.memory.RecordRun(request))).reason == "DELETED"
        # The worker has what the import left to do, a key leads to its thread, and the conversation goes on.
        await other.settle()
        thread_id = next(line["thread_id"] for line in of_type(data, "thread") if line["thread_key"] == "monday")
        asked = svc.GetContextRequest(scope=scope, thread_key="monday", input="x")
        assert (await other.memory.GetContext(asked)).thread_id == thread_id
        goes_on = Talk(other, scope, thread_id=of_type(data, "thread")[0]["thread_id"])
        await goes_on.turns("接着", "再来", "完了")
        assert (await goes_on.thread()).run_count == 11
        assert not any(name.startswith("memsvc-import") for name in contents(tmp_path))


async def test_importing_again_adds_and_changes_nothing(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        running, _, _ = await full(start, scope, cloud)
        data = await exported(running, scope)
        for _ in range(2):
            assert await imported(running, scope, data) == NONE
            assert await exported(running, scope) == data


async def test_an_import_brings_back_what_was_deleted_since_into_its_place(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        running, talk, review = await full(start, scope, cloud)
        data = await exported(running, scope)
        before = await told(running, scope)
        first = of_type(data, "run")[0]["thread_id"]
        for run_id in (talk.run_ids[0], talk.run_ids[3], talk.run_ids[4], talk.run_ids[7]):
            await talk.delete_run(run_id)
        other = next(line["thread_id"] for line in of_type(data, "thread") if line["thread_key"] == "monday")
        await running.threads.DeleteThread(svc.DeleteThreadRequest(scope=scope, thread_id=other))
        for fact in await review.facts():
            await review.delete(fact.fact_id)
        for candidate in await review.candidates():
            await review.reject(candidate.candidate_id)
        await running.settle()
        answer = await imported(running, scope, data)
        assert (answer.thread_count, answer.run_count, answer.fact_count, answer.candidate_count) == (1, 5, 2, 1)
        await running.settle()
        after = await told(running, scope)
        assert [run.run_id for run in after["runs"]] == [run.run_id for run in before["runs"]]
        assert after["runs"] == before["runs"]
        assert after["facts"] == before["facts"]
        assert after["usage"].runs == before["usage"].runs
        assert [thread.title for thread in after["threads"]] == [thread.title for thread in before["threads"]]
        assert {thread.thread_id: thread.summarized_run_count for thread in after["threads"]}[first] == 6
        assert await imported(running, scope, data) == NONE


async def test_a_deleted_scope_comes_back_by_its_export(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        running, _, _ = await full(start, scope, cloud)
        data = await exported(running, scope)
        before = await told(running, scope)
        await running.ops.DeleteScope(svc.DeleteScopeRequest(scope=scope))
        await imported(running, scope, data)
        after = await told(running, scope)
        assert after == before


async def test_a_thread_of_another_scope_is_refused_and_nothing_of_the_file_is_kept(
    running: Running, scope: pb.Scope
) -> None:
    await Talk(running, scope).turns("一", "二", "三")
    data = await exported(running, scope)
    beside = pb.Scope(tenant_id=scope.tenant_id, agent_id="another")
    answer = await refusal(imported(running, beside, data))
    assert (answer.code, answer.reason, answer.metadata["line"]) == ("INVALID_ARGUMENT", "IMPORT_INVALID", "2")
    assert [line["type"] for line in map(json.loads, (await exported(running, beside)).splitlines())] == [
        "memsvc-export",
        "end",
    ]


async def test_what_a_red_line_forbids_is_left_out_and_counted(running: Running, scope: pb.Scope) -> None:
    await Talk(running, scope).turns("一", "二", "三", "四")
    await Review(running, scope).create("用户住在杭州")
    forbidden = "用户的身份证号是11010519491231002X"
    data = (await exported(running, scope)).decode().replace("用户住在杭州", forbidden)
    await running.ops.DeleteScope(svc.DeleteScopeRequest(scope=scope))
    answer = await imported(running, scope, data.encode())
    assert (answer.fact_count, answer.refused_count, answer.run_count) == (0, 2, 4)  # the fact, and it in the trail
    assert forbidden not in (await exported(running, scope)).decode()


HEADER = '{"type":"memsvc-export","version":1}'
THREAD_ID = "th_" + "a" * 24
THREAD = f'{{"type":"thread","thread_id":"{THREAD_ID}","locale":"zh","created_us":1,"updated_us":1}}'
RUN = (
    f'{{"type":"run","run_id":"r1","thread_id":"{THREAD_ID}","outcome":"COMPLETED","input":"i","output":"o",'
    '"created_us":1,"ended_us":1}'
)


def end(*lines: str) -> str:
    return f'{{"type":"end","line_count":{len(lines)}}}'


def changed(line: str, **fields: Any) -> str:
    return json.dumps(json.loads(line) | fields, ensure_ascii=True)


def without(line: str, name: str) -> str:
    return json.dumps({k: v for k, v in json.loads(line).items() if k != name})


WRONG: list[tuple[int, list[str]]] = [
    (1, [""]),
    (1, ["{}"]),
    (1, ["[]"]),
    (1, ["[" * 100_000]),
    (1, [THREAD]),
    (1, [changed(HEADER, version=2)]),
    (1, [changed(HEADER, version="1")]),
    (2, [HEADER]),
    (2, [HEADER, HEADER]),
    (2, [HEADER, '{"type":"poem"}']),
    (2, [HEADER, '{"type":["run"]}']),
    (2, [HEADER, '{"type":"end","line_count":7}']),
    (3, [HEADER, end(HEADER), HEADER]),
    (3, [HEADER, end(HEADER), end(HEADER)]),
    (2, [HEADER, RUN]),
    (3, [HEADER, THREAD, THREAD]),
    (4, [HEADER, THREAD, RUN, THREAD]),
    (4, [HEADER, THREAD, RUN, RUN]),
    (4, [HEADER, THREAD, RUN]),
    (2, [HEADER, changed(THREAD, thread_id="th_A")]),
    (2, [HEADER, changed(THREAD, locale="fr")]),
    (2, [HEADER, changed(THREAD, created_us=10**18)]),
    (2, [HEADER, changed(THREAD, created_us=1.5)]),
    (2, [HEADER, changed(THREAD, archived=1)]),
    (2, [HEADER, changed(THREAD, title="x" * 4_001)]),
    (2, [HEADER, changed(THREAD, title="\ud800")]),
    (2, [HEADER, changed(THREAD, extracted_run_count=2), RUN, end("", "", "")]),
    (3, [HEADER, THREAD, changed(RUN, input="\ud800")]),
    (3, [HEADER, THREAD, changed(RUN, input="x" * (256 << 10) + "x")]),
    (3, [HEADER, THREAD, changed(RUN, output="x" * (1 << 20) + "x")]),
    (3, [HEADER, THREAD, changed(RUN, output=None)]),
    (3, [HEADER, THREAD, without(RUN, "output")]),
    (3, [HEADER, THREAD, changed(without(RUN, "output"), output_base64="?")]),
    (3, [HEADER, THREAD, changed(RUN, outcome="DONE")]),
    (3, [HEADER, THREAD, changed(RUN, run_id="")]),
    (3, [HEADER, THREAD, changed(RUN, own_offset=2)]),
    (3, [HEADER, THREAD, changed(RUN, cost_micros=-1)]),
    (3, [HEADER, THREAD, changed(RUN, cost_micros=10**13)]),
    (3, [HEADER, THREAD, changed(RUN, cost_micros=True)]),
    (3, [HEADER, THREAD, changed(RUN, labels={"": "x"})]),
    (3, [HEADER, THREAD, changed(RUN, labels=[])]),
    (3, [HEADER, THREAD, RUN.replace('"created_us":1', '"created_us":NaN')]),
    (3, [HEADER, THREAD, RUN.replace('"created_us":1', '"created_us":' + "9" * 5_000)]),
    (4, [HEADER, THREAD, RUN, f'{{"type":"summary","thread_id":"{THREAD_ID}","run_count":2,"text":"s"}}']),
    (4, [HEADER, THREAD, RUN, f'{{"type":"summary","thread_id":"{THREAD_ID}","run_count":1,"text":""}}']),
    (
        4,
        [
            *(HEADER, THREAD, RUN),
            '{"type":"fact","fact_id":"f","text":"住杭州","created_us":1,"last_used_us":1,"source_run_ids":["r2"]}',
        ],
    ),
    (2, [HEADER, '{"type":"candidate","candidate_id":"c","text":"住杭州","confidence":2,"created_us":1}']),
    (2, [HEADER, f'{{"type":"memory_op","thread_id":"{THREAD_ID}","op":"FOLD","created_us":1}}']),
    (2, [HEADER, '{"type":"tombstone","of":"run","digest":"00"}']),
]


async def test_a_wrong_line_is_named_by_its_number_and_nothing_is_imported(running: Running) -> None:
    scope = pb.Scope(tenant_id="t", agent_id="a")
    for line, lines in WRONG:
        answer = await refusal(imported(running, scope, "\n".join(lines).encode("utf-8", "surrogatepass")))
        assert (answer.code, answer.reason) == ("INVALID_ARGUMENT", "IMPORT_INVALID"), lines
        assert answer.metadata == {"line": str(line)}, (lines, answer)
    assert not (await running.ops.ListScopes(svc.ListScopesRequest())).scopes


async def test_a_file_written_by_hand_with_fields_of_a_later_day_is_taken(running: Running, scope: pb.Scope) -> None:
    lines = [HEADER, changed(THREAD, mood="calm"), changed(RUN, extra=[1])]
    data = "\n".join([*lines, end(*lines)]).encode()
    assert await imported(running, scope, data, 1) == svc.ImportScopeResponse(thread_count=1, run_count=1)
    assert await imported(running, scope, data) == NONE
    clash = data.replace(b'"o"', b'"another"')
    assert (await refusal(imported(running, scope, clash))).metadata == {"line": "3"}


async def test_an_import_has_its_limits(start: Start, scope: pb.Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await start(max_import_runs=1)
    lines = [HEADER, THREAD, RUN, changed(RUN, run_id="r2")]
    answer = await refusal(imported(running, scope, "\n".join([*lines, end(*lines)]).encode()))
    assert (answer.reason, answer.metadata) == ("IMPORT_INVALID", {"line": "4"})
    assert "MEMSVC_MAX_IMPORT_RUNS" in answer.message
    answer = await refusal(imported(running, scope, HEADER.encode() + b"\n" + b" " * (9 << 20)))
    assert (answer.reason, answer.metadata) == ("IMPORT_INVALID", {"line": "2"})


async def test_an_import_that_is_cut_off_leaves_nothing(
    running: Running, scope: pb.Scope, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def parts() -> Any:
        yield svc.ImportScopeRequest(scope=scope, data=f"{HEADER}\n{THREAD}\n{RUN}\n".encode())
        raise ConnectionError

    with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await running.ops.ImportScope(parts())
    assert not (await running.ops.ListScopes(svc.ListScopesRequest())).scopes
    assert not any(name.startswith("memsvc-import") for name in contents(tmp_path))


async def test_a_message_that_names_another_scope_is_refused(running: Running, scope: pb.Scope) -> None:
    parts = (
        svc.ImportScopeRequest(scope=scope, data=f"{HEADER}\n".encode()),
        svc.ImportScopeRequest(scope=pb.Scope(tenant_id="t", agent_id="a"), data=b"{}"),
    )
    assert (await refusal(running.ops.ImportScope(iter(parts)))).metadata == {"field": "scope"}


async def test_facts_that_find_no_room_are_counted(running: Running, scope: pb.Scope) -> None:
    facts = [
        json.dumps(
            {"type": "fact", "fact_id": f"f{n}", "text": f"用户读过第{n}本书", "created_us": 1, "last_used_us": 1}
        )
        for n in range(33)
    ]
    data = "\n".join([HEADER, *facts, end(HEADER, *facts)]).encode()
    assert await imported(running, scope, data) == svc.ImportScopeResponse(fact_count=30, no_room_count=3)
    assert await imported(running, scope, data) == svc.ImportScopeResponse(no_room_count=3)
