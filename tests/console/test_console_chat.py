"""The chat: an agent that remembers, whose every answer is recorded however it ends."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from memsvc_client import Outcome, Scope, Unavailable
from memsvc_console.agent import MAX_TALKS, Agent, Ended
from memsvc_console.app import create_app
from memsvc_console.chat_settings import ChatSettings
from memsvc_console.settings import Settings, SettingWrong, load
from playwright.async_api import expect

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from tests.console.conftest import NewPage
from tests.console.world import Corner, client, world
from tests.fakes.provider import FakeProvider, by_kind, closes, status, streams
from tests.review import SUMMARY, proposes
from tests.talk import CANCELLED, COMPLETED, FAILED

session = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Talking:
    """A world whose console has a chat, and the model that it talks to."""

    corner: Callable[[], Corner]
    model: FakeProvider


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def talking(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Talking]:
    async with FakeProvider() as model:
        chat = ChatSettings(
            base_url=model.base_url, model="small", provider="cloud", input_price=2_000_000, output_price=1_000_000
        )
        async with world(tmp_path_factory.mktemp("chat"), chat=chat) as made:
            made.provider.behave = by_kind(SUMMARY)
            assert made.console.agent is not None
            await made.console.agent.prepare()
            yield Talking(made.corner, model)


async def runs(corner: Corner) -> list[pb.Run]:
    """All runs of the only thread of a corner, oldest first."""
    threads = (await corner.world.running.threads.ListThreads(rpc.ListThreadsRequest(scope=corner.scope))).threads
    found: list[pb.Run] = []
    for thread in threads:
        request = rpc.ListRunsRequest(scope=corner.scope, thread_id=thread.thread_id)
        found += (await corner.world.running.threads.ListRuns(request)).runs
    return found


@session
async def test_an_answer_is_streamed_recorded_and_remembered(talking: Talking, new_page: NewPage) -> None:
    corner = talking.corner()
    page = await new_page(locale="en")
    await page.goto(corner.at("/chat?new=1"))
    talking.model.behave = streams("好的，", "<script>alert(1)</script>", "已换。")
    corner.world.provider.behave = by_kind(SUMMARY, proposes({"fact": "用户教高二数学", "confidence": 0.9, "run": 1}))
    for number, said in enumerate(("我教高二数学", "出一份试卷", "简答题换两道"), 1):
        await page.locator("#input").fill(said)
        await page.keyboard.press("Enter")
        await expect(page.locator(".turn:not(.turn-live)")).to_have_count(number)
    await expect(page.locator(".bubble-agent").last).to_contain_text("好的，<script>alert(1)</script>已换。")
    first, second, third = await runs(corner)
    assert [run.outcome for run in (first, second, third)] == [COMPLETED] * 3
    assert (first.input, first.output, first.provider) == (
        "我教高二数学",
        "好的，<script>alert(1)</script>已换。",
        "cloud",
    )
    assert first.usage == pb.Usage(input_tokens=30, output_tokens=4, cost_micros=64)
    assert third.context_token_count > 0
    # The model was given what the page shows, and the user's words below it.
    shown = await page.evaluate("[...document.querySelectorAll('#given [data-line]')].map(l => l.textContent).join('')")
    assert talking.model.requests[-1].user == shown + "\n简答题换两道"
    await expect(page.locator(".remembered-summary")).to_have_text("用户与助手讨论了试卷的安排。")
    await expect(page.locator(".proposed li").first).to_contain_text("用户教高二数学")
    assert page.url.endswith(f"/chat?thread={third.thread_id}")
    corner.world.provider.behave = by_kind(SUMMARY)


@session
async def test_a_stopped_answer_is_recorded_as_cancelled(talking: Talking, new_page: NewPage) -> None:
    corner = talking.corner()
    page = await new_page()
    await page.goto(corner.at("/chat"))
    talking.model.behave = streams("一、选择题", ends=False)
    await page.locator("#input").fill("出一份试卷")
    await page.locator("[data-send]").click()
    await expect(page.locator(".turn-live .bubble-agent")).to_contain_text("一、选择题")
    await page.locator("[data-stops]").click()
    await expect(page.locator(".turn-3 .badge")).to_have_text("用户中止")
    (run,) = await runs(corner)
    assert (run.outcome, run.output) == (CANCELLED, "一、选择题")


@session
@pytest.mark.parametrize("pieces", [("说到一半",), ()])
async def test_a_page_that_is_closed_stops_its_answer(
    talking: Talking, new_page: NewPage, pieces: tuple[str, ...]
) -> None:
    corner = talking.corner()
    page = await new_page()
    await page.goto(corner.at("/chat"))
    talking.model.behave = streams(*pieces, ends=False)
    await page.locator("#input").fill("出一份试卷")
    await page.locator("[data-send]").click()
    await expect(page.locator("[data-stops]")).to_be_visible()
    if pieces:
        await expect(page.locator(".turn-live .bubble-agent")).to_contain_text(pieces[0])
    agent = corner.world.console.agent
    assert agent is not None
    (talk,) = agent.talks
    assert talk.task is not None
    await page.close()
    await talk.task
    (run,) = await runs(corner)
    assert (run.outcome, run.output) == (CANCELLED, "".join(pieces))


@session
@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (status(500), "The provider's answer is none."),
        (status(401), "The provider refuses the key."),
        (status(429), "The provider limits the rate of calls."),
        (closes, "The provider"),
        (streams(), "The provider's answer is none."),
    ],
)
async def test_an_answer_that_fails_is_recorded_as_failed_and_explained(
    talking: Talking, new_page: NewPage, behave: Callable[..., object], said: str
) -> None:
    corner = talking.corner()
    page = await new_page(locale="en")
    await page.goto(corner.at("/chat"))
    talking.model.behave = behave  # type: ignore[assignment]
    await page.locator("#input").fill("出一份试卷")
    await page.locator("[data-send]").click()
    await expect(page.locator(".note-danger")).to_contain_text(said)
    (run,) = await runs(corner)
    assert run.outcome == FAILED


@session
async def test_it_works_without_a_script(talking: Talking, new_page: NewPage) -> None:
    corner = talking.corner()
    page = await new_page(java_script_enabled=False, width=375)
    talking.model.behave = streams("好的")
    await page.goto(corner.at("/chat"))
    await page.locator("#input").fill("出一份试卷")
    await page.locator("[data-send]").click()
    await expect(page.locator(".bubble-agent")).to_contain_text("好的")
    talking.model.behave = status(500)
    await page.locator("#input").fill("换两道")
    await page.locator("[data-send]").click()
    await expect(page.locator(".toast-problem")).to_contain_text("这一轮没有成功")
    assert [run.outcome for run in await runs(corner)] == [COMPLETED, FAILED]
    assert len({run.thread_id for run in await runs(corner)}) == 1


@session
async def test_the_narrow_page_scrolls_one_way_only(talking: Talking, new_page: NewPage) -> None:
    corner = talking.corner()
    page = await new_page(width=375)
    talking.model.behave = streams("很长的一行" * 80)
    await page.goto(corner.at("/chat"))
    for _ in range(2):
        await page.locator("#input").fill("出一份试卷" * 20)
        await page.locator("[data-send]").click()
        await expect(page.locator(".turn-live")).to_have_count(0)
        await expect(page.locator("[data-send]")).to_be_enabled()
    assert await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@session
async def test_a_console_that_ends_records_what_there_was(tmp_path: Path) -> None:
    async with FakeProvider(streams("说到一半", ends=False)) as model:
        chat = ChatSettings(base_url=model.base_url, model="small", provider="cloud")
        async with world(tmp_path, chat=chat) as made:
            corner = made.corner()
            agent = made.console.agent
            assert agent is not None
            talk = agent.begin(Scope.from_message(corner.scope), "", "出一份试卷", "UTC")
            events = talk.events()
            assert [type(await anext(events)).__name__ for _ in range(2)] == ["Given", "Piece"]
            await agent.close()
            (run,) = await runs(corner)
    assert (run.outcome, run.output) == (CANCELLED, "说到一半")


@session
async def test_half_a_character_of_a_model_does_not_cost_the_answer(talking: Talking) -> None:
    corner = talking.corner()
    agent = corner.world.console.agent
    assert agent is not None
    talking.model.behave = streams("好\ud83d", "的")
    talk = agent.begin(Scope.from_message(corner.scope), "", "出一份试卷", "UTC")
    *_, ended = [event async for event in talk.events()]
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.error) == (Outcome.COMPLETED, None)
    (run,) = await runs(corner)
    assert run.output == "好\ufffd的"


@session
async def test_an_answer_that_is_stopped_before_it_begins_ends_all_the_same(talking: Talking) -> None:
    corner = talking.corner()
    agent = corner.world.console.agent
    assert agent is not None
    talk = agent.begin(Scope.from_message(corner.scope), "", "出一份试卷", "UTC")
    talk.stop()
    assert [event async for event in talk.events()] == [Ended(Outcome.CANCELLED)]
    assert await runs(corner) == []


@session
async def test_no_more_than_so_many_answers_go_on_at_once(talking: Talking) -> None:
    corner = talking.corner()
    agent = corner.world.console.agent
    assert agent is not None
    talking.model.behave = streams("说到一半", ends=False)
    talks = [agent.begin(Scope.from_message(corner.scope), "", "出一份试卷", "UTC") for _ in range(MAX_TALKS)]
    async with client(corner.world.app, **{"accept-language": "en"}) as browser:
        text = (await browser.get(corner.base + "/chat")).text
        form = {"csrf": re.findall(r'name="csrf" value="([^"]+)"', text)[0], "input": "又一句"}
        refused = await browser.post(corner.base + "/chat", data=form)
    assert refused.status_code == 503
    for talk in talks:
        talk.stop()
        assert talk.task is not None
        await talk.task


@session
async def test_without_a_daemon_every_page_says_so_and_nothing_is_said_to_the_model(talking: Talking) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        chat = ChatSettings(base_url=talking.model.base_url, model="small")
        app = create_app(Settings(daemon=f"127.0.0.1:{taken.getsockname()[1]}", chat=chat))
        agent: Agent = app.state.console.agent
        asked = len(talking.model.requests)
        talk = agent.begin(Scope("school", "agent"), "", "出一份试卷", "UTC")
        paths = ("/context", "/chat", "/cost", "/cost/calls", "/cost/threads/th_1")
        async with client(app, **{"accept-language": "en"}) as browser:
            answers = await asyncio.gather(*(browser.get("/s/school/agent/~" + path) for path in paths))
        (ended,) = [event async for event in talk.events()]
        await agent.close()
    assert [answer.status_code for answer in answers] == [503] * len(paths)
    assert all("The daemon does not answer" in answer.text for answer in answers)
    assert isinstance(ended, Ended)
    assert isinstance(ended.error, Unavailable)
    assert len(talking.model.requests) == asked


@session
async def test_what_is_missing_is_named(corner: Corner) -> None:
    async with client(corner.world.app, **{"accept-language": "en"}) as browser:
        text = (await browser.get(corner.base + "/chat")).text
    assert "Chat is not set up" in text
    assert "MEMSVC_CONSOLE_CHAT_BASE_URL" in text
    assert "RUNNER_TOKEN_FILE" not in text  # this daemon wants no credential


def test_the_settings_are_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    values = {
        "MEMSVC_CONSOLE_CHAT_BASE_URL": "http://127.0.0.1:11434/v1/",
        "MEMSVC_CONSOLE_CHAT_MODEL": "qwen2.5:3b",
        "MEMSVC_CONSOLE_CHAT_API_KEY_ENV": "KEY",
        "MEMSVC_CONSOLE_CHAT_INPUT_PRICE": "800000",
        "MEMSVC_CONSOLE_RUNNER_TOKEN_FILE": str(token),
        "KEY": "sk-1",
    }
    settings = load(values)
    assert settings.chat == ChatSettings(
        "http://127.0.0.1:11434/v1", "qwen2.5:3b", api_key="sk-1", input_price=800_000, runner_token="secret"
    )
    assert settings.can_chat
    assert "sk-1" not in repr(settings)
    assert "secret" not in repr(settings)
    assert settings.chat.cost_micros(1, 0) == 1
    assert settings.chat.cost_micros(1_000, 7) == 800


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHAT_BASE_URL", "127.0.0.1:11434"),
        ("CHAT_BASE_URL", "ftp://model"),
        ("CHAT_API_KEY_ENV", "NOT_SET"),
        ("CHAT_INPUT_PRICE", "0.8"),
        ("CHAT_OUTPUT_PRICE", "-1"),
        ("CHAT_OUTPUT_PRICE", "9999999999999"),
        ("RUNNER_TOKEN_FILE", "/nonexistent/token"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingWrong, match=name):
        load({f"MEMSVC_CONSOLE_{name}": value})


def test_a_chat_needs_a_runners_token_where_the_console_has_one() -> None:
    model = ChatSettings(base_url="http://m/v1", model="m")
    assert Settings(chat=model).can_chat
    assert not Settings(chat=model, token="reviewer").can_chat
    assert Settings(chat=ChatSettings("http://m/v1", "m", runner_token="runner"), token="reviewer").can_chat
    assert not Settings(chat=ChatSettings(base_url="http://m/v1")).can_chat
