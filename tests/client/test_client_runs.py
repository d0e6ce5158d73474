"""However a run ends it is recorded; whatever becomes of the record, its own exception goes on and no output
is lost.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator

import memsvc_client as mc
import pytest
from memsvc_client import AsyncMemory, Memory, Outcome, RunNotRecorded

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from tests.client.both import (
    CODE,
    CONTEXT,
    FULL,
    RECORDED,
    SCOPE,
    Body,
    Client,
)
from tests.fakes.memory_server import FakeMemory, answers, hangs, refuses


def says(text: str) -> Body:
    def body(run: mc.ActiveRun) -> None:
        run.output = text

    return body


def says_then_raises(text: str, problem: BaseException) -> Body:
    def body(run: mc.ActiveRun) -> None:
        run.output += text
        raise problem

    return body


def overrules(run: mc.ActiveRun) -> None:
    run.output = "到此为止"
    run.outcome = Outcome.CANCELLED


def forgets(run: mc.ActiveRun) -> None:
    pass


@pytest.mark.parametrize(
    ("body", "raised", "outcome", "output"),
    [
        (says("好的"), None, Outcome.COMPLETED, "好的"),
        (says(""), None, Outcome.COMPLETED, ""),
        (forgets, None, Outcome.FAILED, ""),
        (overrules, None, Outcome.CANCELLED, "到此为止"),
        (says_then_raises("一、", ValueError("model")), ValueError, Outcome.FAILED, "一、"),
        (says_then_raises("一、", asyncio.CancelledError()), asyncio.CancelledError, Outcome.CANCELLED, "一、"),
        (says_then_raises("一、", GeneratorExit()), GeneratorExit, Outcome.CANCELLED, "一、"),
    ],
)
async def test_a_run_is_recorded_as_it_ended(
    client: Client,
    server: FakeMemory,
    *,
    body: Body,
    raised: type[BaseException] | None,
    outcome: Outcome,
    output: str,
) -> None:
    server.behave["GetContext"] = [answers(CONTEXT)]
    if raised is None:
        await client.run(body, input="简答题换两道")
    else:
        with pytest.raises(raised):
            await client.run(body, input="简答题换两道")
    (sent,) = server.sent("RecordRun")
    assert (sent.outcome, sent.output, sent.input, sent.thread_id) == (outcome, output, "简答题换两道", "th_1")
    assert sent.context_token_count == 9
    assert sent.HasField("end_time")


def test_the_keyboard_cancels_a_blocking_run() -> None:
    # Without the shared loop: a KeyboardInterrupt that leaves a thread would end the test session.
    async def served() -> list[rpc.RecordRunRequest]:
        def interrupted(address: str) -> None:
            with Memory(address) as memory, memory.run(SCOPE, input="问") as run:
                run.output = "半"
                raise KeyboardInterrupt

        async with FakeMemory() as server:
            with pytest.raises(KeyboardInterrupt):
                await asyncio.to_thread(interrupted, server.address)
            return server.sent("RecordRun")

    (sent,) = asyncio.run(served())
    assert (Outcome(sent.outcome), sent.output) == (Outcome.CANCELLED, "半")


async def test_a_run_carries_all_that_was_said_of_it(client: Client, server: FakeMemory) -> None:
    server.behave["GetContext"] = [answers(CONTEXT)]
    server.behave["RecordRun"] = [answers(RECORDED)]
    prompts: list[str] = []

    def body(run: mc.ActiveRun) -> None:
        prompts.append(run.prompt)
        run.provider, run.model, run.labels["ui"] = "qwen", "qwen-plus", "web"
        run.usage(input_tokens=10, output_tokens=2)
        run.usage(input_tokens=5, cost_micros=3)
        run.output = "好"

    run = await client.run(body, thread="th_1", input="问", token_budget=500, locale="zh")

    assert prompts == ["[前情]\n[请求]\n问"]
    (asked,) = server.sent("GetContext")
    assert (asked.thread_id, asked.input, asked.token_budget, asked.locale) == ("th_1", "问", 500, "zh")
    (sent,) = server.sent("RecordRun")
    assert (sent.provider, sent.model, dict(sent.labels)) == ("qwen", "qwen-plus", {"ui": "web"})
    assert sent.usage == pb.Usage(input_tokens=15, output_tokens=2, cost_micros=3)
    assert run.recorded == mc.RecordedRun("run_1", "th_1", created=True, sequence=7)
    assert run.thread_id == "th_1"


async def test_an_output_that_is_no_text_fails_where_it_is_set(client: Client, server: FakeMemory) -> None:
    def body(run: mc.ActiveRun) -> None:
        run.output = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="output must be a str"):
        await client.run(body, input="问")
    assert server.sent("RecordRun")[0].outcome == Outcome.FAILED


async def test_an_output_that_was_not_recorded_is_not_lost(client: Client, server: FakeMemory) -> None:
    server.behave["GetContext"] = [answers(CONTEXT)]
    server.behave["RecordRun"] = [FULL]
    with pytest.raises(RunNotRecorded) as caught:
        await client.run(says("好的"), input="问")
    assert isinstance(caught.value.__cause__, mc.DiskFull)
    assert caught.value.reason == "DISK_FULL"

    kept = pickle.loads(pickle.dumps(caught.value.run))
    await client.ask(lambda m: m.record_run(kept))
    first, second = server.sent("RecordRun")
    assert first == second
    assert second.output == "好的"


async def test_a_text_that_cannot_be_sent_is_not_lost_either(client: Client) -> None:
    with pytest.raises(RunNotRecorded) as caught:
        await client.run(says("\ud800"), input="问")
    assert caught.value.run.output == "\ud800"


@pytest.mark.parametrize("problem", [ValueError("model"), asyncio.CancelledError()])
async def test_what_ended_a_run_is_raised_even_if_the_record_fails(
    client: Client, server: FakeMemory, problem: BaseException
) -> None:
    server.behave["RecordRun"] = [FULL]
    with pytest.raises(type(problem)) as caught:
        await client.run(says_then_raises("半", problem), input="问")
    assert any("was not recorded (DISK_FULL" in note for note in caught.value.__notes__)


async def test_no_run_starts_without_the_context_that_it_needs(client: Client, server: FakeMemory) -> None:
    server.behave["GetContext"] = [refuses(CODE.UNAUTHENTICATED, "UNAUTHENTICATED")]
    with pytest.raises(mc.Unauthenticated):
        await client.run(lambda _: pytest.fail("the block ran"), input="问")
    assert server.asked("RecordRun") == 0


async def test_where_memory_is_not_required_it_stops_nothing(client: Client, server: FakeMemory) -> None:
    server.behave["GetContext"] = [FULL, FULL]
    server.behave["RecordRun"] = [answers(RECORDED), FULL]

    run = await client.run(says("好"), input="问", thread_key="chat-1", required=False)
    assert run.context == mc.Context()
    assert (run.thread_id, run.failure) == ("th_1", None)
    assert server.sent("RecordRun")[0].thread_key == "chat-1"

    run = await client.run(says("好"), thread="th_1", input="问", required=False)
    assert run.recorded is None
    assert isinstance(run.failure, mc.DiskFull)
    assert run.finished is not None
    assert run.finished.thread_id == "th_1"


async def test_a_failing_memory_is_logged_without_a_word_of_content(
    client: Client, server: FakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    server.behave["GetContext"] = [FULL]
    server.behave["RecordRun"] = [FULL]
    await client.run(says("答案"), input="问题", required=False)
    assert caplog.text.count("DISK_FULL") == 2
    assert "答案" not in caplog.text
    assert "问题" not in caplog.text


async def agent(memory: AsyncMemory, begun: asyncio.Event) -> None:
    async with memory.run(SCOPE, input="出一份数据结构试卷") as run:
        run.output = "一、选择题"
        begun.set()
        await asyncio.Event().wait()


async def test_a_cancelled_run_is_recorded_before_the_cancellation_goes_on(server: FakeMemory) -> None:
    async with AsyncMemory(server.address) as memory:
        begun = asyncio.Event()
        task = asyncio.create_task(agent(memory, begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (sent,) = server.sent("RecordRun")
        assert (sent.outcome, sent.output) == (Outcome.CANCELLED, "一、选择题")


async def test_a_second_cancellation_does_not_stop_the_record(server: FakeMemory) -> None:
    may_answer = asyncio.Event()

    async def waits(_: object) -> None:
        await may_answer.wait()
        answered.set()

    answered = asyncio.Event()
    server.behave["RecordRun"] = [waits]
    async with AsyncMemory(server.address) as memory:
        begun = asyncio.Event()
        task = asyncio.create_task(agent(memory, begun))
        await begun.wait()
        task.cancel()
        await server.wait_for("RecordRun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not answered.is_set(), "the second cancellation does not wait for the record"
        may_answer.set()
    assert answered.is_set(), "closing the client does"


async def test_a_record_that_hangs_does_not_hold_up_a_cancellation_for_long(server: FakeMemory) -> None:
    server.behave["RecordRun"] = [hangs]
    async with AsyncMemory(server.address, deadlines=mc.Deadlines(interrupted=0.05)) as memory:
        begun = asyncio.Event()
        task = asyncio.create_task(agent(memory, begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert "DEADLINE_EXCEEDED" in caught.value.__notes__[0]


async def test_a_run_that_was_cancelled_before_it_began_leaves_no_record(server: FakeMemory) -> None:
    server.behave["GetContext"] = [hangs]
    async with AsyncMemory(server.address) as memory:
        task = asyncio.create_task(agent(memory, asyncio.Event()))
        await server.wait_for("GetContext")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert server.asked("RecordRun") == 0


async def test_a_stream_that_nobody_reads_any_more_is_a_cancelled_run(server: FakeMemory) -> None:
    async def stream(memory: AsyncMemory) -> AsyncIterator[str]:
        async with memory.run(SCOPE, input="问") as run:
            for piece in ("一", "二", "三"):
                run.output += piece
                yield piece

    async with AsyncMemory(server.address) as memory:
        pieces = stream(memory)
        assert await anext(pieces) == "一"
        await pieces.aclose()  # type: ignore[attr-defined]
    (sent,) = server.sent("RecordRun")
    assert (sent.outcome, sent.output) == (Outcome.CANCELLED, "一")
