"""Whose model folds what, what it costs and what people are told: the rules of providers, through the whole daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.blocks import count
from tests.conftest import Start
from tests.fakes.provider import FakeProvider, says, status
from tests.serving import FOLDING_ALONE, SUMMARY, entry, own
from tests.talk import Talk


@pytest.fixture
async def provider() -> AsyncIterator[FakeProvider]:
    """One that folds as it should."""
    async with FakeProvider(says(SUMMARY)) as provider:
        yield provider


@pytest.mark.parametrize("fallback", [False, True], ids=["no_fallback", "local_fallback"])
async def test_no_run_of_one_cloud_ever_reaches_another(start: Start, scope: pb.Scope, fallback: bool) -> None:
    async with AsyncExitStack() as stack:
        a, b, home = [await stack.enter_async_context(FakeProvider(says(SUMMARY))) for _ in range(3)]
        providers = {"a": entry(a, local=False), "b": entry(b, local=False), "home": entry(home)}
        settings = {"providers": providers, "limits": FOLDING_ALONE, "local_fallback": "home" if fallback else ""}
        talk = Talk(await start(**settings), scope)
        for served_by in ("a", "a", "b", "", "nobody", "home", "b", "b", "b", "", "a", "b", "b"):
            await talk.turns(f"这是{served_by or '无名'}的话", provider=served_by, output=f"{served_by}答")
        assert (await talk.thread()).summarized_run_count == 11
        # An empty name is that of the run before it.
        for provider, others in ((a, "b nobody home".split()), (b, "a nobody home".split())):
            assert not any(f"这是{name}的话" in provider.text or f"{name}答" in provider.text for name in others)
        # Home sees what it served itself, and as the fallback what nobody else may see.
        assert ("builtin" in {op.provider for op in await talk.ops()}) is not fallback
        notices = await talk.notices()
        assert len({(n.kind, n.from_provider, n.to_provider) for n in notices}) == len(notices)
        assert {n.from_provider for n in notices if n.kind == pb.NOTICE_KIND_UNKNOWN_PROVIDER} == {"nobody"}


@pytest.mark.parametrize("name", ["", "nobody"])
async def test_runs_of_nobody_known_go_to_the_builtin_summarizer(
    start: Start, scope: pb.Scope, provider: FakeProvider, name: str
) -> None:
    talk = await own(start, scope, provider, providers={"cloud": entry(provider, local=False)})
    await talk.turns("出一份试卷", "换两道", "写一份答案", provider=name)
    assert provider.requests == []
    (op,) = await talk.ops()
    assert (op.provider, op.usage.cost_micros, op.error_reason) == ("builtin", 0, "")
    assert [(n.kind, n.from_provider) for n in await talk.notices()] == (
        [(pb.NOTICE_KIND_UNKNOWN_PROVIDER, name)] if name else []
    )


@pytest.mark.parametrize("name", ["p\n\x1b[31mred", "p\u2028q", "\u202eevil", "p\x00"])
async def test_a_notice_is_one_printable_line_whatever_a_runner_calls_its_provider(
    start: Start, scope: pb.Scope, name: str
) -> None:
    talk = Talk(await start(), scope, provider=name)
    await talk.turns("出一份试卷", "换两道", "写一份答案")
    (notice,) = await talk.notices()
    assert notice.from_provider == name  # as it was sent, for programs
    assert notice.text.isprintable()
    assert "\ufffd" in notice.text


async def test_after_three_failures_the_local_fallback_takes_over_and_says_so_once(
    start: Start, scope: pb.Scope, provider: FakeProvider
) -> None:
    async with FakeProvider(says(SUMMARY)) as home:
        provider.behave = status(503)
        providers = {"cloud": entry(provider, local=False), "home": entry(home)}
        talk = await own(start, scope, provider, providers=providers, local_fallback="home")
        talk.provider = "cloud"
        await talk.turns("出一份试卷", "换两道", "写一份答案")
        await home.asked()
        await talk.running.settle()
        await talk.turns("打印", "装订")
        assert len(provider.requests) == 3
        assert (await talk.thread()).rolling_summary == SUMMARY
        assert [(n.kind, n.from_provider, n.to_provider) for n in await talk.notices()] == [
            (pb.NOTICE_KIND_PROVIDER_CHANGE, "cloud", "home")
        ]
        cloud, _ = (await talk.status()).providers
        assert (cloud.provider, cloud.usable, cloud.last_error_reason) == ("cloud", False, "PROVIDER_STATUS_503")
        assert cloud.HasField("retry_time")


async def test_when_no_model_answers_for_long_the_builtin_summarizer_does_it(
    start: Start, scope: pb.Scope, provider: FakeProvider
) -> None:
    provider.behave = status(503)
    talk = await own(start, scope, provider, builtin_after_ms=1)
    await talk.turns("出一份试卷", "换两道", "写一份答案")
    await provider.asked(3)
    while (await talk.status()).pending_jobs:
        await talk.running.settle()
    assert "出一份试卷" in (await talk.thread()).rolling_summary
    assert [op.provider for op in await talk.ops()] == ["builtin", "own", "own", "own"]
    assert [(n.from_provider, n.to_provider) for n in await talk.notices()] == [("own", "builtin")]


async def test_a_missing_key_waits_and_says_why(
    start: Start, scope: pb.Scope, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY_OF_THIS_TEST", raising=False)
    talk = await own(start, scope, provider, providers={"own": entry(provider, api_key_env="KEY_OF_THIS_TEST")})
    await talk.turns("出一份试卷", "换两道", "写一份答案")
    assert [f.error_reason for f in (await talk.status()).failed_jobs] == ["PROVIDER_KEY_MISSING"]
    assert await talk.ops() == []
    monkeypatch.setenv("KEY_OF_THIS_TEST", "secret")
    await provider.asked()
    await talk.running.settle()
    assert (await talk.thread()).rolling_summary == SUMMARY
    assert provider.requests[0].headers["authorization"] == "Bearer secret"


# -- what it costs


async def test_a_day_has_its_allowance_and_what_is_over_waits(
    start: Start, scope: pb.Scope, provider: FakeProvider
) -> None:
    limits = [{"tenant": scope.tenant_id, "extraction": False, "daily_tokens": 150}]
    talk = await own(start, scope, provider, limits=limits)
    for given in ("出一份试卷", "换两道", "写一份答案", "打印", "装订", "送去"):
        await talk.turns(given)
    assert len(provider.requests) == 2  # 120 tokens each: the second one was begun within the allowance
    told_of = await talk.status()
    assert [f.error_reason for f in told_of.failed_jobs] == ["ALLOWANCE_SPENT"]
    assert [n.kind for n in await talk.notices()] == [pb.NOTICE_KIND_ALLOWANCE_SPENT]
    assert "‹用户› 写一份答案\n" in (await talk.context()).text
    stranger = Talk(talk.running, pb.Scope(tenant_id="somebody-else", agent_id="agent"), provider="own")
    await stranger.turns("出一份试卷", "换两道", "写一份答案")
    assert (await stranger.thread()).rolling_summary == SUMMARY


@pytest.mark.parametrize("reported", [None, (0, 0), (100, 0), (0, 20)])
async def test_what_a_provider_does_not_report_is_counted_and_spends_the_allowance(
    start: Start, scope: pb.Scope, provider: FakeProvider, reported: tuple[int, int] | None
) -> None:
    limits = [{"extraction": False, "daily_tokens": 101}]
    priced = entry(provider, input_price_micros_per_million=1_000_000, output_price_micros_per_million=2_000_000)
    talk = await own(start, scope, provider, providers={"own": priced}, limits=limits)
    provider.behave = says(SUMMARY, reported)
    for given in ("出一份试卷", "换两道", "写一份答案", "打印", "装订"):
        await talk.turns(given)
    (asked,) = provider.requests
    (op,) = await talk.ops()
    said, answered = reported or (0, 0)
    assert op.usage.input_tokens == (said or count(asked.system) + count(asked.user))
    assert op.usage.output_tokens == (answered or count(SUMMARY))
    assert op.usage.cost_micros == op.usage.input_tokens + 2 * op.usage.output_tokens
    assert [f.error_reason for f in (await talk.status()).failed_jobs] == ["ALLOWANCE_SPENT"]


async def test_costs_are_what_the_provider_reported(start: Start, scope: pb.Scope, provider: FakeProvider) -> None:
    priced = entry(provider, input_price_micros_per_million=800_000, output_price_micros_per_million=2_000_000)
    talk = await own(start, scope, provider, providers={"own": priced}, currency="CNY")
    provider.queue = [says(SUMMARY, (1000, 100)), says("", (500, 1)), says(SUMMARY, (2000, 200))]
    usage = pb.Usage(input_tokens=7, output_tokens=3, cost_micros=50)
    for given in ("出一份试卷", "换两道", "写一份答案", "打印"):
        await talk.turns(given, usage=usage)
    await provider.asked(3)
    await talk.running.settle()
    costs = [(op.usage.input_tokens, op.usage.output_tokens, op.usage.cost_micros) for op in await talk.ops()]
    assert costs == [(2000, 200, 2000), (500, 1, 402), (1000, 100, 1000)]
    used = await talk.running.ops.GetUsage(svc.GetUsageRequest(scope=scope, group_by=svc.USAGE_GROUP_PROVIDER))
    assert used.memory == pb.Usage(input_tokens=3500, output_tokens=301, cost_micros=3402)
    assert used.runs == pb.Usage(input_tokens=28, output_tokens=12, cost_micros=200)
    assert used.total == pb.Usage(input_tokens=3528, output_tokens=313, cost_micros=3602)
    assert used.currency_code == "CNY"
    assert [(b.key, b.runs, b.memory) for b in used.buckets] == [("own", used.runs, used.memory)]
    # What was spent is not undone by deleting what it was spent on.
    await talk.delete_thread()
    assert (await talk.running.ops.GetUsage(svc.GetUsageRequest(scope=scope))).total == used.total


async def test_without_provider_and_network_threads_work(start: Start, scope: pb.Scope) -> None:
    talk = Talk(await start(), scope)
    await talk.turns(*(f"第{i}个问题" for i in range(6)))
    (op, *_) = await talk.ops()
    assert (op.provider, op.usage.cost_micros, op.error_reason) == ("builtin", 0, "")
    assert await talk.notices() == []
