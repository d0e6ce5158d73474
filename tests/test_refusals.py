"""Answers that are of no use: they count against whoever gave them once for each piece of work, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from memsvc import llm
from memsvc.llm import Models, ProviderConfig
from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Start
from tests.fakes.provider import Answer, FakeProvider, Request, says
from tests.serving import SUMMARY, entry, own
from tests.talk import Talk


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def provider() -> AsyncIterator[FakeProvider]:
    async with FakeProvider(says(SUMMARY)) as fake:
        yield fake


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def models(provider: FakeProvider, clock: Clock) -> AsyncIterator[Models]:
    models = Models([ProviderConfig("p", provider.base_url, "small", True)], environ={}, clock=clock)
    yield models
    await models.close()


async def refuse(models: Models, about: str) -> None:
    await models.call("p", "be brief", "what was said", 600)
    models.reject("p", "ANSWER_EMPTY", about)


async def test_work_that_is_always_refused_closes_the_provider_off_for_itself_alone(
    models: Models, clock: Clock
) -> None:
    for _ in range(2):
        await refuse(models, "a")
        assert models.facts("a")["p"].usable
    await refuse(models, "a")
    assert models.facts("a")["p"].reason == llm.LEFT_ALONE
    assert models.facts("b")["p"].usable
    assert models.facts()["p"].usable
    assert (models.alone_ms("p", "a"), models.alone_ms("p", "b"), models.alone_ms("p")) == (30_000, 0, 0)
    assert models.statuses()[0].last_error_reason == "ANSWER_EMPTY"
    clock.now += 30
    assert models.facts("a")["p"].usable
    await refuse(models, "a")
    assert not models.facts("a")["p"].usable


async def test_work_that_stays_refused_is_asked_for_ever_more_seldom(models: Models, clock: Clock) -> None:
    began, asked = clock.now, []
    while clock.now < began + 86_400:
        await refuse(models, "a")
        asked.append(clock.now - began)
        assert models.facts("b")["p"].usable
        clock.now += models.alone_ms("p", "a") / 1000 or 1
    gaps = [after - before for before, after in pairwise(asked)]
    assert gaps[:12] == [1, 1, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert len(asked) == 32
    models.accept("p", "a")
    assert models.facts("a")["p"].usable


@pytest.mark.parametrize("said", ["", "<think>They talked, and", "They"])
async def test_a_model_that_thinks_its_room_away_has_more_from_then_on(
    start: Start, scope: pb.Scope, provider: FakeProvider, said: str
) -> None:
    def thinker(request: Request) -> Answer:
        enough = int(request.body["max_tokens"]) >= 4_000
        return Answer(f"<think>hm</think>{SUMMARY}") if enough else Answer(said, finish="length")

    provider.behave = thinker
    talk = await own(start, scope, provider)
    await talk.turns("出一份试卷", "换两道", "写一份答案")
    await provider.asked(2)
    await talk.running.settle()
    assert (await talk.thread()).rolling_summary == SUMMARY
    assert [request.body["max_tokens"] for request in provider.requests] == [1_200, 4_800]


@pytest.mark.parametrize(
    ("said", "finish"), [("They talked. " * 400, "length"), ("", "stop"), ("They", "content_filter")]
)
async def test_others_have_the_room_of_an_answer(
    models: Models, provider: FakeProvider, said: str, finish: str
) -> None:
    provider.behave = says(said, finish=finish)
    for _ in range(2):
        await models.call("p", "be brief", "what was said", 600)
    assert [request.body["max_tokens"] for request in provider.requests] == [600, 600]


async def test_an_answer_that_does_the_work_starts_its_count_anew(models: Models) -> None:
    for _ in range(2):
        await refuse(models, "a")
    await models.call("p", "be brief", "what was said", 600)
    models.accept("p", "a")
    for _ in range(2):
        await refuse(models, "a")
    assert models.facts("a")["p"].usable
    await refuse(models, "a")
    assert not models.facts("a")["p"].usable


async def test_refusals_of_different_work_in_a_row_close_the_provider_off_for_all(models: Models) -> None:
    for about in "aabbc":
        assert models.facts()["p"].usable
        await refuse(models, about)
    assert not models.facts()["p"].usable
    assert not models.facts("z")["p"].usable


async def test_what_is_remembered_of_refusals_is_bounded(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "MAX_REFUSED", 3)
    for about in "abcdefg":
        await refuse(models, about)
    assert [about for _, about in models._refused] == ["e", "f", "g"]


async def test_a_conversation_that_a_model_cannot_sum_up_keeps_no_other_waiting(
    start: Start, scope: pb.Scope, provider: FakeProvider
) -> None:
    def picky(request: Request) -> object:
        return says("" if "坏" in request.text else SUMMARY)(request)

    provider.behave = picky  # type: ignore[assignment]
    async with FakeProvider(says(SUMMARY)) as home:
        providers = {"own": entry(provider), "home": entry(home)}
        bad = await own(start, scope, provider, providers=providers, local_fallback="home")
        await bad.turns("坏的", "坏的", "坏的")
        await home.asked()  # after three refusals the fallback takes this conversation …
        await bad.running.settle()
        assert len(provider.requests) == 3
        good = Talk(bad.running, scope, provider="own")
        await good.turns("好的", "好的", "好的")
        assert len(provider.requests) == 4  # … and no other
        assert len(home.requests) == 1
        assert ((await bad.thread()).rolling_summary, (await good.thread()).rolling_summary) == (SUMMARY, SUMMARY)
        assert all(each.usable for each in (await bad.status()).providers)
