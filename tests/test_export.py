"""Scopes listed and taken out: every line of them once, one state of them, and nothing that was deleted meanwhile."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.store import ThreadRef
from memsvc.store.sqlite import deletion, export
from memsvc.store.sqlite.store import SqliteStore
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests import staged
from tests.conftest import Running, Start
from tests.fakes.provider import FakeProvider
from tests.model_of_threads import RENDERER, SCOPE
from tests.papers import CREDENTIALS, OURS, THEIRS, bearer
from tests.review import BLACK, GRADE, begun, nothing, propose
from tests.talk import CANCELLED, FAILED, Talk, refusal


async def exported(running: Running, scope: pb.Scope) -> bytes:
    """The whole export of a scope."""
    return b"".join([part.data async for part in running.ops.ExportScope(svc.ExportScopeRequest(scope=scope))])


def lines(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.decode().splitlines() if line]


def of_type(data: bytes, kind: str) -> list[dict[str, Any]]:
    return [line for line in (json.loads(row) for row in data.split(b"\n") if row) if line["type"] == kind]


async def taken(call: Any) -> list[bytes]:
    """What a call under way still gives."""
    parts = []
    while (part := await call.read()) is not grpc.aio.EOF:
        parts.append(part.data)
    return parts


async def scopes(running: Running, size: int = 0, token: str = "", who: str = "") -> svc.ListScopesResponse:
    metadata = [("authorization", bearer(who))] if who else None
    return await running.ops.ListScopes(svc.ListScopesRequest(page_size=size, page_token=token), metadata=metadata)


async def test_the_scopes_that_hold_anything_are_listed_page_by_page(running: Running) -> None:
    made = [pb.Scope(tenant_id="t", agent_id="a", user_id=user) for user in ("", "u1", "u2", "u3", "u4")]
    for scope in made:
        await Talk(running, scope).record("x")
    await running.ops.DeleteScope(svc.DeleteScopeRequest(scope=made[2]))
    first = await scopes(running, 3)
    rest = await scopes(running, 3, first.next_page_token)
    assert [*first.scopes, *rest.scopes] == [*made[:2], *made[3:]]
    assert not rest.next_page_token
    for token in ("x", "Q" + first.next_page_token[1:], "th_aaaa"):
        assert (await refusal(scopes(running, 3, token))).metadata["field"] == "page_token"
    assert (await refusal(scopes(running, -1))).metadata["field"] == "page_size"


async def test_an_admin_sees_the_scopes_of_its_tenants_alone_and_a_token_is_good_for_them(start: Start) -> None:
    running = await start(credentials=CREDENTIALS)
    stub = rpc.MemoryServiceStub(running.channel)
    for tenant in (OURS, THEIRS, OURS, THEIRS):
        run = svc.RecordRunRequest(
            scope=pb.Scope(tenant_id=tenant, agent_id="exam"), input="x", outcome=pb.RUN_OUTCOME_COMPLETED
        )
        run.scope.user_id = tenant
        await stub.RecordRun(run, metadata=[("authorization", bearer("keeper"))])
        run.scope.user_id = "b"
        await stub.RecordRun(run, metadata=[("authorization", bearer("keeper"))])
    assert {scope.tenant_id for scope in (await scopes(running, who="admin")).scopes} == {OURS}
    assert {scope.tenant_id for scope in (await scopes(running, who="keeper")).scopes} == {OURS, THEIRS}
    token = (await scopes(running, 1, who="keeper")).next_page_token
    assert token
    assert (await refusal(scopes(running, 1, token, who="admin"))).metadata["field"] == "page_token"


async def test_an_export_has_everything_of_a_scope_and_nothing_of_another(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        cloud.behave = nothing()
        running, talk, review = await begun(start, scope, cloud)
        await talk.turns(*[f"第{n}问：怎么出卷" for n in range(5)], labels={"lang": "zh"})
        await talk.record("坏了", "别看", FAILED)
        await talk.record("停", "一半", CANCELLED)
        run_id = await propose(talk, cloud, BLACK, GRADE)
        candidates = {each.text: each.candidate_id for each in await review.candidates()}
        await review.confirm(candidates[BLACK])
        await review.reject(candidates[GRADE])
        beside = Talk(running, pb.Scope(tenant_id=scope.tenant_id, agent_id=scope.agent_id))
        await beside.record("别人的话")
        data = await exported(running, scope)
    assert lines(data)[0] == {
        "type": "memsvc-export",
        "version": 1,
        "tenant_id": scope.tenant_id,
        "agent_id": scope.agent_id,
        "user_id": scope.user_id,
    }
    assert lines(data)[-1] == {"type": "end", "line_count": len(lines(data)) - 1}
    assert [run["run_id"] for run in of_type(data, "run")] == talk.run_ids
    assert {run["outcome"] for run in of_type(data, "run")} == {"COMPLETED", "FAILED", "CANCELLED"}
    assert of_type(data, "run")[0]["labels"] == {"lang": "zh"}
    assert [fact["text"] for fact in of_type(data, "fact")] == [BLACK]
    assert of_type(data, "fact")[0]["source_run_ids"] == [run_id]
    assert of_type(data, "fact")[0]["candidate_ids"] == [candidates[BLACK]]
    assert [stone["of"] for stone in of_type(data, "tombstone")] == ["fact"]
    assert of_type(data, "summary")[-1]["run_count"] == 5
    assert len(of_type(data, "memory_op")) == len(await talk.ops())
    assert {change["change"] for change in of_type(data, "change")} == {"confirmed", "rejected"}
    assert "别人的话" not in data.decode()
    assert GRADE not in [change["text_after"] for change in of_type(data, "change")]


async def test_a_scope_that_holds_nothing_is_a_header_and_an_end(running: Running, scope: pb.Scope) -> None:
    assert [line["type"] for line in lines(await exported(running, scope))] == ["memsvc-export", "end"]
    assert not (await scopes(running)).scopes


async def test_each_message_holds_whole_lines_and_fits_the_usual_limit_whatever_they_say(
    running: Running, scope: pb.Scope
) -> None:
    talk = Talk(running, scope)
    hard = "\x01" * (1 << 20)
    await talk.record('"' * (256 << 10), hard)
    for number in range(6):
        await talk.record(f"{number}\u2028\x00", "字" * 90_000)
    parts = [part.data async for part in running.ops.ExportScope(svc.ExportScopeRequest(scope=scope))]
    assert len(parts) > 3
    assert all(part.endswith(b"\n") and len(part) < 3 << 20 for part in parts)
    runs = of_type(b"".join(parts), "run")
    assert [run["run_id"] for run in runs] == talk.run_ids
    assert "output_base64" in runs[0]
    assert runs[1]["input"] == "0\u2028\x00"


async def test_an_export_ends_where_the_scope_ended_when_it_began(
    running: Running, scope: pb.Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE_ROWS", 1)
    talk = Talk(running, scope)
    await talk.turns("一", "二", "三", "四")
    call: Any = running.ops.ExportScope(svc.ExportScopeRequest(scope=scope))
    parts = [(await call.read()).data]
    # While the export waits for its caller: the summary moves on, and another thread begins.
    await talk.turns("五", "六", "七")
    await talk.record("另一个", thread_id="")
    await running.settle()
    parts += await taken(call)
    data = b"".join(parts)
    known = [run["run_id"] for run in of_type(data, "run")]
    # gRPC reads ahead of the caller, but no further than some pages.
    assert known == talk.run_ids[:4]
    assert len(of_type(data, "thread")) == 1
    for summary in of_type(data, "summary"):
        assert summary["run_count"] <= 4
    assert all(line["run_count"] for line in of_type(data, "summary"))


async def test_a_deletion_ends_an_export_and_no_word_of_it_is_told(
    running: Running, scope: pb.Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = running.daemon.store
    monkeypatch.setattr(export, "PAGE_ROWS", 1)
    talk = Talk(running, scope)
    for number in range(150):
        await talk.record(f"zqneedle {number}", "x" * 2_000)
    call: Any = running.ops.ExportScope(svc.ExportScopeRequest(scope=scope))
    parts = [(await call.read()).data]
    await talk.delete_run(talk.run_ids[-1])
    with suppress(grpc.aio.AioRpcError):
        while (part := await call.read()) is not grpc.aio.EOF:
            parts.append(part.data)
    assert await call.code() == grpc.StatusCode.UNAVAILABLE
    assert b"zqneedle 149" not in b"".join(parts)
    assert not of_type(b"".join(parts), "end")
    assert not store.erasure_owed()
    assert len(of_type(await exported(running, scope), "run")) == 149


async def test_a_caller_that_leaves_holds_nothing_of_the_database(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    for number in range(20):
        await talk.record(f"{number}", "字" * 90_000)
    call: Any = running.ops.ExportScope(svc.ExportScopeRequest(scope=scope))
    await call.read()
    # A caller that neither reads on nor leaves keeps no log from being emptied either.
    await talk.delete_run(talk.run_ids[0])
    assert not running.daemon.store.erasure_owed()
    call.cancel()
    assert len(of_type(await exported(running, scope), "run")) == 19


async def test_an_export_has_the_tombstones_of_what_was_hidden_when_it_was_asked_for(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "memsvc.db", RENDERER, 1)
    threads = [ThreadRef(await staged.record(store, f"r{n}", ThreadRef(thread_key=f"k{n}"))) for n in range(3)]
    await staged.record(store, "r3", threads[0])
    # As by a call whose caller has gone: hidden, and nobody has been asked to take it out.
    db = store._db
    await db.write(deletion.delete_thread, db.secret, SCOPE, threads[0].thread_id)
    assert sorted(each["of"] for each in of_type(await staged.lines(store), "tombstone")) == [
        "key",
        "run",
        "run",
        "thread",
    ]
    await db.write(deletion.delete_scope, db.secret, SCOPE)
    await staged.record(store, "new", ThreadRef())
    assert (
        sorted(each["of"] for each in of_type(await staged.lines(store), "tombstone"))
        == ["key"] * 3 + ["run"] * 4 + ["thread"] * 3
    )
    await store.close()
