"""One run is recorded once, however often it is sent, and a context that comes back in an input is nobody's words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.talk import ANSWER, CANCELLED, COMPLETED, Talk, refusal
from tests.test_threads import OTHER, list_runs, list_threads, titles


async def test_fifty_callers_with_one_run_record_it_once(running: Running, scope: pb.Scope) -> None:
    request = svc.RecordRunRequest(scope=scope, run_id="run-1", input="问", output="答", outcome=COMPLETED)
    answers = await asyncio.gather(*(running.memory.RecordRun(request) for _ in range(50)))
    assert sum(answer.created for answer in answers) == 1
    assert len({(a.run_id, a.thread_id, a.sequence) for a in answers}) == 1
    (thread,) = await list_threads(running, scope)
    assert thread.run_count == 1


async def test_a_retry_is_compared_by_what_it_says(running: Running, scope: pb.Scope) -> None:
    talk, elsewhere = Talk(running, scope), Talk(running, scope)
    await elsewhere.record("别处")
    first = svc.RecordRunRequest(scope=scope, run_id="run-1", input="e\u0301", output="答", outcome=COMPLETED)
    made = await running.memory.RecordRun(first)
    talk.thread_id = made.thread_id

    async def again(**fields: Any) -> svc.RecordRunResponse:
        values: dict[str, Any] = {"input": "e\u0301", "output": "答", "outcome": COMPLETED} | fields
        return await running.memory.RecordRun(svc.RecordRunRequest(scope=scope, run_id="run-1", **values))

    ignored: list[dict[str, Any]] = [
        {"thread_id": made.thread_id},
        {"provider": "b", "model": "c", "labels": {"x": "y"}},
    ]
    for fields in ({}, *ignored):
        answer = await again(**fields)
        assert (answer.created, answer.thread_id, answer.sequence) == (False, made.thread_id, made.sequence)
    told: list[dict[str, Any]] = [
        {"input": "é"},  # the same to a reader, and other bytes
        {"output": "答 "},
        {"outcome": CANCELLED},
        {"thread_id": elsewhere.thread_id},
        {"thread_key": "周三"},
    ]
    for fields in told:
        assert (await refusal(again(**fields)))[:2] == ("ALREADY_EXISTS", "RUN_CONFLICT")
    assert (await talk.thread()).run_count == 1
    assert (await running.threads.GetRun(svc.GetRunRequest(scope=scope, run_id="run-1"))).run.provider == ""


# -- a context that comes back as an input


async def test_a_block_of_ours_at_the_head_of_an_input_is_no_word_of_the_user(
    running: Running, scope: pb.Scope
) -> None:
    talk = Talk(running, scope)
    await talk.record("昙花一现的往事", ANSWER)
    block = (await talk.context()).text
    fresh = Talk(running, scope)
    given = f"{block}\n今天的新问题"
    run_id = await fresh.record(given, "新的回答")
    assert (await fresh.thread()).title == "今天的新问题"
    shown = (await fresh.context(given="")).text
    assert "‹用户› 今天的新问题\n" in shown
    assert "昙花" not in shown
    assert titles(await list_threads(running, scope, query="昙花一现")) == ["昙花一现的往事"]
    hits = (await running.recall.Search(svc.SearchRequest(scope=scope, query="昙花一现的往事"))).hits
    assert [hit.run.run_id for hit in hits] == talk.run_ids
    hits = (await running.recall.Search(svc.SearchRequest(scope=scope, query="今天的新问题"))).hits
    assert [(hit.run.run_id, hit.run.input, hit.run.truncated) for hit in hits] == [(run_id, "今天的新问题", False)]
    # As it was sent, where people and machines ask for that.
    assert (await running.threads.GetRun(svc.GetRunRequest(scope=scope, run_id=run_id))).run.input == given
    assert (await list_runs(fresh))[0][0].input == given
    await fresh.record("之后")
    await fresh.record("还有之后")
    await running.settle()
    assert "昙花" not in (await fresh.thread()).rolling_summary
    await fresh.delete_run(run_id)
    assert (await fresh.thread()).title == "之后"


async def test_a_block_of_anybody_else_is_text(running: Running, scope: pb.Scope) -> None:
    stranger = Talk(running, OTHER)
    await stranger.record("别人的话")
    talk = Talk(running, scope)
    given = f"{(await stranger.context()).text}\n我的话"
    await talk.record(given)
    assert "别人的话" in (await talk.context()).text


# -- the same words again


@pytest.mark.parametrize("copies", [1, 2, 5, 70])
async def test_what_was_said_in_the_same_words_is_recalled_once(running: Running, scope: pb.Scope, copies: int) -> None:
    for _ in range(copies):
        await Talk(running, scope).record("早报发给我", "早报会准时送达。")
    await Talk(running, scope).record("早报几点发，先说明一下再看别的安排", "八点。")
    await Talk(running, scope).record("早报几点发，今天我想改个时间再定", "改了。")
    block = await Talk(running, scope).context(given="早报几点发")
    (section,) = block.sections
    assert [block.text.count(words) for words in ("会准时送达", "八点。", "改了。")] == [1, 1, 1]
    assert len(section.sources) == 3
    assert not section.omitted_count
    here = Talk(running, scope)
    await here.record("早报发给我", "早报会准时送达。")
    assert (await here.context(given="早报几点发")).text.count("会准时送达") == 1  # in the thread section
