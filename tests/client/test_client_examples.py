"""The examples as a user has them, each a process of its own: the agent between a daemon and a model that do as they
are told, the demo with a daemon that it starts, kills and starts again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from memsvc_client import Outcome

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from tests.client.both import CODE, CONTEXT, RECORDED
from tests.fakes.memory_server import FakeMemory, answers, refuses
from tests.fakes.provider import FakeProvider, streams

EXAMPLES = Path(__file__).parents[2] / "clients" / "examples"


async def start(server: FakeMemory, model: FakeProvider, *options: str) -> Process:
    named = ["--base-url", model.base_url, "--model", "m", "--memory", server.address, "--user", "wang"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "MEMSVC_"))}
    command = [sys.executable, str(EXAMPLES / "chat_agent.py"), *named, *options]
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)


async def test_lines_from_a_pipe_are_answered_with_memory_before_them(server: FakeMemory) -> None:
    server.behave["GetContext"] = [answers(CONTEXT)] * 3
    server.behave["RecordRun"] = [answers(RECORDED)] * 2
    server.behave["ListThreads"] = [answers(rpc.ListThreadsResponse(threads=[pb.Thread(title="试卷")]))]
    async with FakeProvider(streams("好的", "，已换")) as model:
        agent = await start(server, model, "--thread-key", "exam", "--provider", "qwen")
        out, err = await agent.communicate("出一份试卷\n\n简答题换两道\n/context 二叉树\n/threads\n".encode())

    assert (agent.returncode, err) == (0, b"")
    shown = out.decode()
    assert shown.count("好的，已换\n") == 2
    assert "[前情]\n[请求]" in shown
    assert "试卷" in shown
    assert [request.user for request in model.requests] == [
        "[前情]\n[请求]\n出一份试卷",
        "[前情]\n[请求]\n简答题换两道",
    ]
    first, second = server.sent("RecordRun")
    assert (first.input, first.output, first.provider) == ("出一份试卷", "好的，已换", "qwen")
    assert first.usage == pb.Usage(input_tokens=30, output_tokens=4)
    assert second.input == "简答题换两道"
    by_key, by_id, looked_at = server.sent("GetContext")
    assert (by_key.thread_key, by_key.thread_id) == ("exam", "")
    assert (by_id.thread_key, by_id.thread_id) == ("", "th_1")
    assert (looked_at.input, looked_at.preview) == ("二叉树", True)


async def test_an_interrupted_answer_is_recorded_as_cancelled(server: FakeMemory) -> None:
    server.behave["GetContext"] = [answers(CONTEXT)]
    async with FakeProvider(streams("一、选择题", ends=False)) as model:
        agent = await start(server, model)
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write("出一份试卷\n".encode())
        assert await agent.stdout.readexactly(len("一、选择题".encode())) == "一、选择题".encode()
        agent.send_signal(signal.SIGINT)
        out, _ = await agent.communicate()

    assert (agent.returncode, out.decode()) == (130, " (stopped)\n")
    (sent,) = server.sent("RecordRun")
    assert (Outcome(sent.outcome), sent.output) == (Outcome.CANCELLED, "一、选择题")


async def test_a_failed_answer_shows_in_the_exit_status_of_a_pipe(server: FakeMemory) -> None:
    server.behave["GetContext"] = [refuses(CODE.PERMISSION_DENIED, "SCOPE_DENIED")]
    async with FakeProvider(streams("好的")) as model:
        agent = await start(server, model)
        out, err = await agent.communicate("一\n二\n".encode())
    assert agent.returncode == 1
    assert out.decode() == "好的\n"
    assert "ScopeDenied" in err.decode()


async def test_the_demo_shows_a_conversation_that_outlives_its_daemon() -> None:
    demo = await asyncio.create_subprocess_exec(sys.executable, str(EXAMPLES / "demo.py"), stdout=PIPE, stderr=PIPE)
    out, err = await demo.communicate()
    assert (demo.returncode, err) == (0, b"")
    before, after = out.decode().split("kill -9; the daemon starts again")
    assert "‹用户› 出一份数据结构试卷" in before
    assert "(用户中止)" in after
    assert "9 context blocks" in after
