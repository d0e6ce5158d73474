"""Conversations as a user interface sees them: lists, pages, titles, names, and what deletion leaves, over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.talk import CANCELLED, COMPLETED, Talk, refusal

OTHER = pb.Scope(tenant_id="another-tenant", agent_id="agent", user_id="user")


async def list_threads(running: Running, scope: pb.Scope, **fields: Any) -> list[pb.Thread]:
    """All threads of a list, page by page."""
    threads: list[pb.Thread] = []
    token = ""
    while True:
        answer = await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope, page_token=token, **fields))
        threads += answer.threads
        token = answer.next_page_token
        if not token:
            return threads


async def list_runs(talk: Talk, **fields: Any) -> list[list[pb.Run]]:
    """The runs of a thread, a list a page."""
    pages: list[list[pb.Run]] = []
    token = ""
    while True:
        answer = await talk.running.threads.ListRuns(
            svc.ListRunsRequest(scope=talk.scope, thread_id=talk.thread_id, page_token=token, **fields)
        )
        pages.append(list(answer.runs))
        token = answer.next_page_token
        if not token:
            return pages


def titles(threads: list[pb.Thread]) -> list[str]:
    return [thread.title for thread in threads]


# -- lists


async def test_threads_are_listed_by_their_latest_run_whatever_else_happens(running: Running, scope: pb.Scope) -> None:
    talks = [Talk(running, scope) for _ in range(3)]
    for i, talk in enumerate(talks):
        await talk.record(f"第{i}个")
    assert titles(await list_threads(running, scope)) == ["第2个", "第1个", "第0个"]
    await talks[0].record("又来")
    await running.threads.RenameThread(
        svc.RenameThreadRequest(scope=scope, thread_id=talks[1].thread_id, title="改了名")
    )
    assert titles(await list_threads(running, scope)) == ["第0个", "第2个", "改了名"]
    await talks[0].delete_run(talks[0].run_ids[-1])
    assert titles(await list_threads(running, scope)) == ["第2个", "改了名", "第0个"]


async def test_pages_join_to_the_whole_list(running: Running, scope: pb.Scope) -> None:
    for i in range(7):
        await Talk(running, scope).record(f"第{i}个")
    whole = await list_threads(running, scope)
    for size in (1, 2, 3, 7, 500):
        assert await list_threads(running, scope, page_size=size) == whole
    talk = Talk(running, scope)
    for i in range(7):
        await talk.record(f"第{i}轮", outcome=(COMPLETED, CANCELLED)[i % 2])
    for newest_first in (False, True):
        whole_runs = (await list_runs(talk, newest_first=newest_first))[0]
        assert [run.input for run in whole_runs] == [f"第{i}轮" for i in sorted(range(7), reverse=newest_first)]
        for size in (1, 3, 7):
            pages = await list_runs(talk, newest_first=newest_first, page_size=size)
            assert [run for page in pages for run in page] == whole_runs
            assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)


async def test_a_page_goes_on_where_it_ended_though_things_change_meanwhile(running: Running, scope: pb.Scope) -> None:
    talks = [Talk(running, scope) for _ in range(6)]
    for i, talk in enumerate(talks):
        await talk.record(f"第{i}个")
    first = await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope, page_size=2))
    await talks[4].delete_thread()  # the last of the first page
    await talks[3].delete_thread()  # the first of the next one
    await Talk(running, scope).record("新来的")
    rest = await running.threads.ListThreads(
        svc.ListThreadsRequest(scope=scope, page_size=9, page_token=first.next_page_token)
    )
    assert titles(list(rest.threads)) == ["第2个", "第1个", "第0个"]


async def test_a_page_token_is_good_for_its_own_list_alone(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    for i in range(3):
        await talk.record(f"第{i}轮")
        await Talk(running, scope).record("别的")
        await Talk(running, OTHER).record("别人的")
    threads = svc.ListThreadsRequest(scope=scope, page_size=1)
    token = (await running.threads.ListThreads(threads)).next_page_token
    runs = svc.ListRunsRequest(scope=scope, thread_id=talk.thread_id, page_size=1)
    runs_token = (await running.threads.ListRuns(runs)).next_page_token
    flipped = ("B" if token[0] == "A" else "A") + token[1:]
    for request in (
        svc.ListThreadsRequest(scope=OTHER, page_token=token),
        svc.ListThreadsRequest(scope=scope, page_token=token, query="别"),
        svc.ListThreadsRequest(scope=scope, page_token=token, include_archived=True),
        svc.ListThreadsRequest(scope=scope, page_token=runs_token),
        *(svc.ListThreadsRequest(scope=scope, page_token=t) for t in (flipped, token[:-2], "x", "页", "AAAA" * 400)),
    ):
        assert (await refusal(running.threads.ListThreads(request)))[1:3] == ("INVALID_FIELD", {"field": "page_token"})
    for changed in (
        svc.ListRunsRequest(scope=scope, thread_id=talk.thread_id, page_token=runs_token, newest_first=True),
        svc.ListRunsRequest(scope=scope, thread_id=talk.thread_id, page_token=token),
    ):
        assert (await refusal(running.threads.ListRuns(changed))).metadata == {"field": "page_token"}


async def test_a_page_of_runs_ends_before_three_mebibytes_with_one_run_at_least(
    running: Running, scope: pb.Scope
) -> None:
    talk = Talk(running, scope)
    for i in range(6):
        await talk.record(f"第{i}轮", "答" * ((1 << 20) // 3))
    pages = await list_runs(talk)
    assert [len(page) for page in pages] == [2, 2, 2]
    assert [run.input for page in pages for run in page] == [f"第{i}轮" for i in range(6)]
    assert all(len(page) == 6 for page in await list_runs(talk, view=pb.RUN_VIEW_BASIC))


@pytest.mark.parametrize(
    "text", ["短", "答" * 683, "答" * 682 + "ab", "a" * 2048, "a" * 2049, "😀" * 3000, "\x00" * 5000]
)
async def test_the_basic_view_shows_two_kibibytes_of_a_text_and_says_so(
    running: Running, scope: pb.Scope, text: str
) -> None:
    talk = Talk(running, scope)
    run_id = await talk.record("问", text)
    (basic,), (full,) = (await list_runs(talk, view=pb.RUN_VIEW_BASIC))[0], (await list_runs(talk))[0]
    whole = (await running.threads.GetRun(svc.GetRunRequest(scope=scope, run_id=run_id))).run
    assert full == whole
    assert (whole.output, whole.truncated) == (text, False)
    assert basic.truncated is (len(text.encode()) > 2048)
    assert text.startswith(basic.output)
    assert 2044 < len(basic.output.encode()) <= 2048 or basic.output == text


async def test_a_query_finds_threads_by_title_and_by_what_was_said(running: Running, scope: pb.Scope) -> None:
    await Talk(running, scope).record("出一份 Data 试卷", "第一题：二叉树\x00第二题：图")
    await Talk(running, scope).record("写一封信", "尊敬的 DATA 老师")
    renamed = Talk(running, scope)
    await renamed.record("随便", "好")
    await running.threads.RenameThread(
        svc.RenameThreadRequest(scope=scope, thread_id=renamed.thread_id, title="100%_完成")
    )

    async def found(query: str) -> list[str]:
        return titles(await list_threads(running, scope, query=query))

    assert await found("dAtA") == ["写一封信", "出一份 Data 试卷"]
    assert await found("二叉树") == ["出一份 Data 试卷"]
    assert await found("第二题") == ["出一份 Data 试卷"]  # behind a NUL
    assert await found("0%_") == ["100%_完成"]
    assert await found("%") == ["100%_完成"]
    assert await found("随便") == ["100%_完成"]
    assert await found("没有这样的话") == []
    behind = Talk(running, scope)
    block = (await behind.context(given="出一份试卷")).text
    await behind.record(f"{block}\n你好\x00第三题")
    assert await found("好\x00第三") == ["你好第三题"]  # behind a NUL, and behind a block of ours
    assert await found("尊敬的 DATA") == ["写一封信"]


async def test_archived_threads_are_hidden_and_whole(running: Running, scope: pb.Scope) -> None:
    talk, other = Talk(running, scope), Talk(running, scope)
    await talk.record("出一份试卷")
    await other.record("写一封信")
    request = svc.ArchiveThreadRequest(scope=scope, thread_id=talk.thread_id)
    assert (await running.threads.ArchiveThread(request)).thread.state == pb.THREAD_STATE_ARCHIVED
    assert titles(await list_threads(running, scope)) == ["写一封信"]
    assert titles(await list_threads(running, scope, state=pb.THREAD_STATE_ARCHIVED)) == ["出一份试卷"]
    assert titles(await list_threads(running, scope, include_archived=True)) == ["写一封信", "出一份试卷"]
    assert "出一份试卷" in (await talk.context()).text
    again = svc.UnarchiveThreadRequest(scope=scope, thread_id=talk.thread_id)
    assert (await running.threads.UnarchiveThread(again)).thread.state == pb.THREAD_STATE_ACTIVE
    await running.threads.ArchiveThread(request)
    await talk.record("换两道")  # recording makes it active
    assert titles(await list_threads(running, scope)) == ["出一份试卷", "写一封信"]


# -- titles


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("", ""),
        ("👩‍👩‍👧‍👦" * 41, "👩‍👩‍👧‍👦" * 40),
        ("第一行\n第二行\u2028第三行", "第一行 第二行 第三行"),
        ("\x00\x07响铃", "响铃"),
    ],
)
async def test_a_title_is_the_first_input_and_drawn_anew_when_that_is_deleted(
    running: Running, scope: pb.Scope, given: str, title: str
) -> None:
    talk = Talk(running, scope)
    first = await talk.record("要删掉的")
    await talk.record(given)
    assert (await talk.thread()).title == "要删掉的"
    await talk.delete_run(first)
    assert (await talk.thread()).title == title
    again = Talk(running, scope)
    await again.record(given)
    assert (await again.thread()).title == title


async def test_a_title_that_a_person_chose_stays(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    first = await talk.record("要删掉的")
    await talk.record("第二轮")
    request = svc.RenameThreadRequest(scope=scope, thread_id=talk.thread_id, title="  期末\n试卷 ")
    assert (await running.threads.RenameThread(request)).thread.title == "期末 试卷"
    await talk.delete_run(first)
    assert (await talk.thread()).title == "期末 试卷"


# -- deletion


async def test_what_was_deleted_is_refused_whoever_sends_it_again(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    run_id = await talk.record("第一轮", run_id="run-1")
    await talk.record("第二轮", run_id="run-2")
    await talk.delete_run(run_id)
    assert (await refusal(talk.record("第一轮", run_id="run-1")))[:3] == (
        "FAILED_PRECONDITION",
        "DELETED",
        {"what": "run"},
    )
    assert (await refusal(talk.record("第一轮", run_id="run-1", thread_id=""))).reason == "DELETED"
    assert (await refusal(talk.delete_run("run-1")))[:2] == ("NOT_FOUND", "RUN_NOT_FOUND")
    await talk.delete_thread()
    assert (await refusal(talk.record("第三轮")))[:2] == ("FAILED_PRECONDITION", "DELETED")
    assert (await refusal(talk.record("第二轮", run_id="run-2", thread_id=""))).reason == "DELETED"
    assert (await refusal(talk.context())).reason == "DELETED"
    assert (await refusal(talk.thread()))[:2] == ("INVALID_ARGUMENT", "THREAD_NOT_IN_SCOPE")
    assert (await refusal(talk.delete_thread())).reason == "THREAD_NOT_IN_SCOPE"
    # The same names are another's to use.
    await Talk(running, OTHER).record("第一轮", run_id="run-1")


async def test_a_thread_whose_runs_were_all_deleted_can_be_gone_on_with(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    for run_id in [await talk.record(f"第{i}轮") for i in range(5)]:
        await running.settle()
        await talk.delete_run(run_id)
    await running.settle()
    assert await list_threads(running, scope) == []
    assert (await refusal(talk.thread())).reason == "THREAD_NOT_IN_SCOPE"
    block = await talk.context()
    assert (block.thread_new, block.text, block.thread_id) == (True, "", talk.thread_id)
    await talk.record("重新开始")
    thread = await talk.thread()
    assert (thread.title, thread.run_count, thread.rolling_summary) == ("重新开始", 1, "")


# -- keys and ids


async def test_a_key_leads_to_its_thread_and_after_its_deletion_to_a_new_one(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    minted = (await talk.context(thread_key="周一")).thread_id
    await talk.record("第一轮", thread_id="", thread_key="周一")
    assert talk.thread_id == minted
    assert (await talk.context(thread_id="", thread_key="周一")).thread_id == minted
    await talk.record("第二轮")  # by its id, as well
    assert ((await talk.thread()).thread_key, (await talk.thread()).run_count) == ("周一", 2)
    seen = {minted}
    for _ in range(3):
        await talk.delete_thread()
        fresh = await talk.context(thread_id="", thread_key="周一")
        assert (fresh.thread_new, fresh.text) == (True, "")
        await talk.record("重来", thread_id="", thread_key="周一")
        assert talk.thread_id == fresh.thread_id
        seen.add(fresh.thread_id)
    assert len(seen) == 4
    stranger = Talk(running, OTHER)
    await stranger.record("第一轮", thread_key="周一")
    assert stranger.thread_id not in seen


async def test_a_key_leads_to_a_thread_that_was_recorded_by_the_id_that_the_key_gave(
    running: Running, scope: pb.Scope
) -> None:
    talk = Talk(running, scope)
    talk.thread_id = (await talk.context(thread_key="周二")).thread_id
    await talk.record("第一轮")
    assert "第一轮" in (await talk.context(thread_id="", thread_key="周二")).text
    await talk.delete_thread()
    again = await talk.context(thread_id="", thread_key="周二")
    assert (again.thread_new, again.thread_id != talk.thread_id) == (True, True)


async def test_an_id_of_another_scope_or_of_nobody_is_refused_alike(running: Running, scope: pb.Scope) -> None:
    stranger = Talk(running, OTHER)
    minted = (await stranger.context(thread_id="")).thread_id
    await stranger.record("别人的话")
    forged = ("a" if minted[-1] != "a" else "b").join([minted[:-1], ""])
    talk = Talk(running, scope)
    answers = set()
    for thread_id in (stranger.thread_id, minted, forged, minted.upper(), minted + "=", "th_", "线程", "x" * 5000):
        talk.thread_id = thread_id
        for call in (
            talk.context(),
            talk.record("嘿"),
            talk.thread(),
            talk.delete_thread(),
            running.threads.ListRuns(svc.ListRunsRequest(scope=scope, thread_id=thread_id)),
            running.threads.RenameThread(svc.RenameThreadRequest(scope=scope, thread_id=thread_id, title="x")),
            running.threads.ArchiveThread(svc.ArchiveThreadRequest(scope=scope, thread_id=thread_id)),
            running.ops.GetUsage(svc.GetUsageRequest(scope=scope, thread_id=thread_id)),
            running.ops.ListMemoryOps(svc.ListMemoryOpsRequest(scope=scope, thread_id=thread_id)),
        ):
            answer = await refusal(call)
            answers.add((answer.code, answer.reason, answer.message))
    assert len(answers) == 1
    assert answers.pop()[:2] == ("INVALID_ARGUMENT", "THREAD_NOT_IN_SCOPE")
    for run_id in (stranger.run_ids[0], "nobody"):
        answer = await refusal(running.threads.GetRun(svc.GetRunRequest(scope=scope, run_id=run_id)))
        assert answer[:2] == ("NOT_FOUND", "RUN_NOT_FOUND")


async def test_an_empty_user_is_a_scope_of_its_own(running: Running, scope: pb.Scope) -> None:
    await Talk(running, scope).record("用户的话")
    nobody = pb.Scope(tenant_id=scope.tenant_id, agent_id=scope.agent_id)
    assert await list_threads(running, nobody) == []
    await Talk(running, nobody).record("无名的话")
    assert titles(await list_threads(running, scope)) == ["用户的话"]
