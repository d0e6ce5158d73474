"""Both clients against the real daemon: what they promise of it is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import memsvc_client as mc
import pytest
from memsvc_client import ActiveRun, FinishedRun, MemsvcError, Outcome

from memsvc.app import Daemon
from memsvc.v1 import memory_pb2 as pb
from tests.client.both import SCOPE, Body, Client

SCRIPT = (
    ("出一份数据结构试卷", "试卷已拟好：选择题10道，简答题4道。"),
    ("简答题换两道", "已换成哈希冲突与括号匹配。"),
    ("再加一道图的题", "已加一道深度优先遍历。"),
    ("写一份答案", "答案：一、1. B 2. C"),
    ("打印成两页", "已排成两页。"),
)


def says(text: str) -> Body:
    def body(run: ActiveRun) -> None:
        run.output = text

    return body


async def converse(client: Client) -> str:
    """Plays the script; returns its thread."""
    thread = None
    for user, agent in SCRIPT:
        run = await client.run(says(agent), thread=thread, input=user)
        assert run.recorded is not None
        thread = run.thread_id
    assert thread
    return thread


async def test_a_run_sees_the_runs_before_it(real_client: Client) -> None:
    thread = await converse(real_client)
    prompts: list[str] = []
    await real_client.run(lambda run: prompts.append(run.prompt), thread=thread, input="选择题有几道？")
    assert "‹用户› 打印成两页" in prompts[0]
    assert "‹助手› 已排成两页。" in prompts[0]
    assert prompts[0].endswith("\n选择题有几道？")


async def test_a_context_is_what_it_says(real_client: Client) -> None:
    thread = await converse(real_client)
    context = await real_client.ask(lambda m: m.get_context(SCOPE, "xyzzy", thread_id=thread, token_budget=400))
    assert (context.thread_id, context.thread_new, context.token_limit) == (thread, False, 400)
    assert 0 < context.token_count <= 400
    assert [section.kind for section in context.sections] == [mc.SectionKind.THREAD]
    assert context.sections[0].text in context.text
    assert context.sections[0].sources[-1].run_id


async def test_a_stopped_answer_is_shown_as_such_to_the_next_run(real_client: Client) -> None:
    def stops(run: ActiveRun) -> None:
        run.output = "一、选择题"
        raise GeneratorExit

    with pytest.raises(GeneratorExit):
        await real_client.run(stops, thread_key="monday", input="出一份试卷")
    context = await real_client.ask(lambda m: m.get_context(SCOPE, "继续", thread_key="monday"))
    assert "一、选择题(用户中止)" in context.text.replace(" ", "")


async def test_the_conversations_can_be_looked_through(real_client: Client) -> None:
    thread = await converse(real_client)
    other = await real_client.run(says("Sure."), input="Plan a lesson")

    titles = await real_client.listed(lambda m: m.threads.list(SCOPE, page_size=1))
    assert [each.title for each in titles] == ["Plan a lesson", "出一份数据结构试卷"]
    runs = await real_client.listed(lambda m: m.threads.runs(SCOPE, thread, page_size=2))
    assert [(run.input, run.output) for run in runs] == list(SCRIPT)
    whole = await real_client.ask(lambda m: m.threads.get_run(SCOPE, other.run_id))
    assert (whole.input, whole.outcome) == ("Plan a lesson", pb.RUN_OUTCOME_COMPLETED)

    renamed = await real_client.ask(lambda m: m.threads.rename(SCOPE, thread, "试卷"))
    assert renamed.title == "试卷"
    await real_client.ask(lambda m: m.threads.archive(SCOPE, thread))
    assert len(await real_client.listed(lambda m: m.threads.list(SCOPE))) == 1
    assert len(await real_client.listed(lambda m: m.threads.list(SCOPE, include_archived=True))) == 2
    await real_client.ask(lambda m: m.threads.unarchive(SCOPE, thread))
    assert (await real_client.ask(lambda m: m.threads.get(SCOPE, thread))).state == pb.THREAD_STATE_ACTIVE


async def test_the_same_run_is_recorded_once(real_client: Client) -> None:
    run = FinishedRun(scope=SCOPE, input="问", output="答", usage=mc.Usage(10, 2, 300))
    first = await real_client.ask(lambda m: m.record_run(run))
    again = await real_client.ask(lambda m: m.record_run(run))
    assert (first.created, again.created) == (True, False)
    assert (first.thread_id, first.sequence) == (again.thread_id, again.sequence)
    used = await real_client.ask(lambda m: m.ops.usage(SCOPE))
    assert used.runs == pb.Usage(input_tokens=10, output_tokens=2, cost_micros=300)


@pytest.mark.parametrize(
    ("call", "kind", "field"),
    [
        (lambda m: m.get_context(mc.Scope("school 7", "exam")), mc.InvalidField, "scope.tenant_id"),
        (lambda m: m.get_context(SCOPE, locale="fr"), mc.InvalidField, "locale"),
        (lambda m: m.get_context(SCOPE, "x" * (256 * 1024 + 1)), mc.FieldTooLarge, "input"),
        (lambda m: m.get_context(SCOPE, thread_id="th_" + "a" * 24), mc.ThreadNotInScope, None),
        (lambda m: m.threads.get(SCOPE, "th_" + "a" * 24), mc.ThreadNotInScope, None),
        (lambda m: m.threads.get_run(SCOPE, "run_1"), mc.NotFound, None),
    ],
)
async def test_what_the_daemon_refuses_is_named(
    real_client: Client, call: Callable[[Any], Any], kind: type[MemsvcError], field: str | None
) -> None:
    with pytest.raises(MemsvcError) as caught:
        await real_client.ask(call)
    assert type(caught.value) is kind
    assert caught.value.reason
    if field is not None:
        assert getattr(caught.value, "field", "") == field


async def test_what_was_deleted_says_so(real_client: Client) -> None:
    thread = await converse(real_client)
    assert await real_client.ask(lambda m: m.threads.delete(SCOPE, thread)) == len(SCRIPT)
    with pytest.raises(mc.Deleted):
        await real_client.ask(lambda m: m.record_run(FinishedRun(scope=SCOPE, input="迟到", thread_id=thread)))
    with pytest.raises(mc.Deleted):
        await real_client.run(says("好"), thread=thread, input="迟到")


async def test_another_run_under_the_same_id_is_a_conflict(real_client: Client) -> None:
    await real_client.ask(lambda m: m.record_run(FinishedRun(scope=SCOPE, input="一", run_id="r")))
    with pytest.raises(mc.RunConflict):
        await real_client.ask(lambda m: m.record_run(FinishedRun(scope=SCOPE, input="二", run_id="r")))


async def test_the_worker_says_when_all_is_folded(real_client: Client, daemon: Daemon) -> None:
    thread = await converse(real_client)
    await daemon.worker.join()
    status = await real_client.ask(lambda m: m.ops.worker_status(SCOPE))
    assert (status.pending_jobs, status.unfolded_runs) == (0, 0)
    folded = await real_client.ask(lambda m: m.threads.get(SCOPE, thread))
    assert (folded.run_count, folded.summarized_run_count) == (5, 3)
    assert folded.rolling_summary


async def test_a_failed_run_keeps_its_output_for_people_only(real_client: Client) -> None:
    def fails(run: ActiveRun) -> None:
        run.output = "Traceback"
        raise ValueError("model")

    with pytest.raises(ValueError, match="model"):
        await real_client.run(fails, thread_key="monday", input="出一份试卷")
    context = await real_client.ask(lambda m: m.get_context(SCOPE, "再来", thread_key="monday"))
    assert "Traceback" not in context.text
    (run,) = await real_client.listed(lambda m: m.threads.runs(SCOPE, context.thread_id))
    assert (run.output, Outcome(run.outcome)) == ("Traceback", Outcome.FAILED)
