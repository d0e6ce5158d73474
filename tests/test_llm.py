"""A call gives a reply or a reason, in a known time, for a known price, and tells no provider more than it
must.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from memsvc.llm import MAX_ANSWER_BYTES, CallFailed, Models, ProviderConfig, ProviderStatus, Reply
from memsvc.model import Usage
from memsvc.rules.provider import ProviderFacts
from tests.fakes.provider import (
    NO_SUMMARY,
    NOT_AN_ANSWER,
    Behaviour,
    FakeProvider,
    after,
    completion,
    drips,
    hangs,
    raw,
    says,
    status,
)


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """One provider, called `p`, and the models that know it."""

    def __init__(self, provider: FakeProvider) -> None:
        self.provider = provider
        self.clock = Clock()
        self.environ = {"KEY": "secret"}
        self.config = ProviderConfig("p", provider.base_url, "small", True, "KEY", 800_000, 2_000_000)
        self.made: list[Models] = []
        self.models = self.make()

    def make(self, deadline_ms: int = 10_000, config: ProviderConfig | None = None) -> Models:
        models = Models([config or self.config], environ=self.environ, deadline_ms=deadline_ms, clock=self.clock)
        self.made.append(models)
        return models

    async def call(self, models: Models | None = None) -> Reply:
        return await (models or self.models).call("p", "be brief", "what was said", 600)

    async def fail(self, models: Models | None = None) -> CallFailed:
        with pytest.raises(CallFailed) as caught:
            await self.call(models)
        return caught.value

    def usable(self) -> bool:
        return self.models.facts()["p"].usable


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with FakeProvider() as provider:
        bench = Bench(provider)
        yield bench
        for models in bench.made:
            await models.close()


async def test_a_reply_carries_text_usage_and_its_price(bench: Bench) -> None:
    bench.provider.behave = says("They planted trees.", usage=(1000, 50))
    reply = await bench.call()
    assert reply == Reply("They planted trees.", Usage(1000, 50, 900), 0, "small")


async def test_the_request_holds_what_was_given_and_nothing_that_varies(bench: Bench) -> None:
    await bench.call()
    request = bench.provider.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert (request.system, request.user) == ("be brief", "what was said")
    assert request.body["temperature"] == 0
    assert request.body["max_tokens"] == 600
    assert request.body["model"] == "small"
    assert not request.body.get("stream")


async def test_a_provider_learns_its_own_key_and_nothing_of_this_machine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_API_KEY", "another key")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Other: 1\nAuthorization: Bearer other")
    await bench.call()
    headers = bench.provider.requests[0].headers
    assert headers["authorization"] == "Bearer secret"
    assert set(headers) == {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-stainless-raw-response",
    }


async def test_a_provider_without_a_key_is_sent_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another key")
    await bench.call(bench.make(config=ProviderConfig("p", bench.provider.base_url, "m", True)))
    assert "authorization" not in bench.provider.requests[0].headers


@pytest.mark.parametrize("local", [True, False])
async def test_a_proxy_of_the_environment_is_not_on_the_way_to_loopback(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    async with FakeProvider() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        await bench.call(bench.make(config=ProviderConfig("p", bench.provider.base_url, "m", local)))
        assert len(bench.provider.requests) == 1
        assert not proxy.requests


@pytest.mark.parametrize("code", [301, 302, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(bench: Bench, code: int) -> None:
    async with FakeProvider() as elsewhere:
        bench.provider.behave = status(code, {"Location": f"{elsewhere.base_url}/chat/completions"})
        assert (await bench.fail()).reason == f"PROVIDER_STATUS_{code}"
        assert not elsewhere.requests


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (400, "PROVIDER_STATUS_400"),
        (401, "PROVIDER_UNAUTHORIZED"),
        (403, "PROVIDER_UNAUTHORIZED"),
        (404, "PROVIDER_STATUS_404"),
        (429, "PROVIDER_RATE_LIMITED"),
        (500, "PROVIDER_STATUS_500"),
        (503, "PROVIDER_STATUS_503"),
        (204, "PROVIDER_STATUS_204"),
    ],
)
async def test_a_status_is_named_and_asked_for_once(bench: Bench, code: int, reason: str) -> None:
    bench.provider.behave = status(code, body=b"" if code == 204 else b"what you said: secret")
    failure = await bench.fail()
    assert failure.reason == str(failure) == reason
    assert (failure.usage, failure.model) == (Usage(), "small")
    assert len(bench.provider.requests) == 1, "it was tried again"


@pytest.mark.parametrize(
    ("header", "expected_ms"),
    [
        ("7", 7000),
        ("0", 0),
        ("-1", 0),
        ("x", 0),
        ("", 0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0),
        ("9" * 30, 600_000),
        ("9" * 10_000, 600_000),
    ],
)
async def test_a_wish_to_be_spared_is_passed_on_within_bounds(bench: Bench, header: str, expected_ms: int) -> None:
    bench.provider.behave = status(429, {"Retry-After": header})
    assert (await bench.fail()).retry_after_ms == expected_ms


@pytest.mark.parametrize("name", NOT_AN_ANSWER)
async def test_what_is_no_answer_fails_the_call(bench: Bench, name: str) -> None:
    bench.provider.behave = NOT_AN_ANSWER[name]
    assert (await bench.fail()).reason == "PROVIDER_BAD_ANSWER"


@pytest.mark.parametrize("name", NO_SUMMARY)
async def test_what_arrives_whole_is_left_for_others_to_judge(bench: Bench, name: str) -> None:
    bench.provider.behave = NO_SUMMARY[name]
    assert isinstance((await bench.call()).text, str)


async def test_nothing_listens(bench: Bench) -> None:
    await bench.provider.stop()
    assert (await bench.fail()).reason == "PROVIDER_UNREACHABLE"
    await bench.provider.start()
    assert (await bench.call()).text == "They talked."


async def test_a_name_that_leads_nowhere_is_unreachable(bench: Bench) -> None:
    models = bench.make(config=ProviderConfig("p", "http://nowhere.invalid/v1", "m", True))
    assert (await bench.fail(models)).reason == "PROVIDER_UNREACHABLE"


async def test_a_plain_server_behind_an_https_address_is_unreachable(bench: Bench) -> None:
    url = bench.provider.base_url.replace("http:", "https:")
    models = bench.make(config=ProviderConfig("p", url, "m", True))
    assert (await bench.fail(models)).reason == "PROVIDER_UNREACHABLE"


@pytest.mark.parametrize("behave", [hangs, drips])
async def test_the_deadline_holds_for_the_whole_call(bench: Bench, behave: Behaviour) -> None:
    models = bench.make(deadline_ms=50)
    bench.provider.behave = behave
    assert (await bench.fail(models)).reason == "PROVIDER_TIMEOUT"


async def test_a_cancelled_call_is_no_failure_and_the_next_one_works(bench: Bench) -> None:
    bench.provider.queue = [hangs] * 3
    for n in range(1, 4):
        call = asyncio.create_task(bench.call())
        await bench.provider.asked(n)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert bench.usable()
    assert (await bench.call()).text == "They talked."


async def test_an_answer_beyond_the_bound_is_not_read_to_its_end(bench: Bench) -> None:
    bench.provider.behave = says("x" * MAX_ANSWER_BYTES)
    assert (await bench.fail()).reason == "PROVIDER_ANSWER_TOO_LARGE"
    bench.provider.behave = says("x" * 100_000)
    assert len((await bench.call()).text) == 100_000


async def test_a_packed_answer_is_not_unpacked(bench: Bench) -> None:
    bench.provider.behave = raw(b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert (await bench.fail()).reason == "PROVIDER_BAD_ANSWER"


async def test_a_failed_call_costs_what_the_provider_says_it_did(bench: Bench) -> None:
    bench.provider.behave = completion({"content": "\udc00"}, usage={"prompt_tokens": 1000, "completion_tokens": 10})
    assert (await bench.fail()).usage == Usage(1000, 10, 820)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4)),
        ({"prompt_tokens": 3}, (3, 0)),
        ({"prompt_tokens": "3", "completion_tokens": 4.0}, (0, 0)),
        ({"prompt_tokens": -3, "completion_tokens": True}, (0, 0)),
        ({"prompt_tokens": 10**30, "completion_tokens": None}, (0, 0)),
        ([], (0, 0)),
        (None, (0, 0)),
    ],
)
async def test_usage_counts_when_it_is_numbers(bench: Bench, usage: object, expected: tuple[int, int]) -> None:
    bench.provider.behave = completion({"content": "x"}, usage=usage)
    reply = await bench.call()
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == expected


@pytest.mark.parametrize(
    ("tokens", "price", "expected"),
    [
        ((0, 0), (800_000, 2_000_000), 0),
        ((1, 0), (499_999, 0), 0),
        ((1, 0), (500_000, 0), 1),
        ((1, 1), (250_000, 250_000), 1),
        ((1_000_000, 1_000_000), (1, 2), 3),
        ((2**31, 2**31), (10**12, 10**12), 2**32 * 10**6),
        ((2**31, 2**31), (10**15, 10**15), 2**53),
    ],
)
def test_a_price_is_whole_and_rounded_half_up(tokens: tuple[int, int], price: tuple[int, int], expected: int) -> None:
    config = ProviderConfig("p", "http://x", "m", True, "", *price)
    assert config.cost(*tokens) == Usage(*tokens, expected)


@pytest.mark.parametrize(("finish", "truncated"), [("length", True), ("content_filter", True), ("stop", False)])
async def test_an_answer_that_did_not_come_to_its_end_says_so(bench: Bench, finish: str, truncated: bool) -> None:
    bench.provider.behave = says("They tal", finish=finish)
    assert (await bench.call()).truncated is truncated


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "PROVIDER_KEY_MISSING"),
        ("  ", "PROVIDER_KEY_MISSING"),
        ("schlüssel", "PROVIDER_KEY_MALFORMED"),
        ("a\nb", "PROVIDER_KEY_MALFORMED"),
    ],
)
async def test_without_its_key_a_provider_is_not_called(bench: Bench, key: str, reason: str) -> None:
    bench.environ["KEY"] = key
    assert (await bench.fail()).reason == reason
    assert bench.models.facts() == {"p": ProviderFacts("p", True, False, reason)}
    assert bench.models.statuses() == [ProviderStatus("p", True, False, reason, None)]
    assert not bench.provider.requests


async def test_three_failures_in_a_row_leave_a_provider_alone_for_a_while(bench: Bench) -> None:
    bench.provider.behave = status(500)
    for _ in range(3):
        assert bench.usable()
        await bench.fail()
    assert bench.models.facts()["p"] == ProviderFacts("p", True, False, "PROVIDER_LEFT_ALONE")
    bench.clock.now += 12
    assert bench.models.statuses() == [ProviderStatus("p", True, False, "PROVIDER_STATUS_500", 18_000)]
    bench.clock.now += 18
    assert bench.models.statuses() == [ProviderStatus("p", True, True, "PROVIDER_STATUS_500", None)]


async def test_the_trial_call_decides(bench: Bench) -> None:
    bench.provider.behave = status(500)
    for _ in range(3):
        await bench.fail()
    bench.clock.now += 30
    await bench.fail()
    assert not bench.usable(), "the trial failed"
    bench.clock.now += 30
    bench.provider.behave = says("I am back.")
    await bench.call()
    assert bench.models.statuses() == [ProviderStatus("p", True, True, "", None)]
    bench.provider.behave = status(500)
    await bench.fail()
    await bench.fail()
    assert bench.usable(), "a success starts the count anew"


async def test_a_refused_answer_is_a_failure_like_any_other(bench: Bench) -> None:
    for thread in "abc":
        assert bench.usable()
        await bench.call()
        bench.models.reject("p", "ANSWER_EMPTY", thread)
    assert not bench.usable()
    assert bench.models.statuses()[0].last_error_reason == "ANSWER_EMPTY"


async def test_refused_and_failed_calls_count_together(bench: Bench) -> None:
    bench.provider.queue = [status(500), says(""), status(500)]
    await bench.fail()
    await bench.call()
    bench.models.reject("p", "ANSWER_EMPTY", "a")
    assert bench.usable()
    await bench.fail()
    assert not bench.usable()


async def test_one_provider_fares_apart_from_the_other(bench: Bench) -> None:
    async with FakeProvider() as other:
        models = Models(
            [bench.config, ProviderConfig("q", other.base_url, "m")],
            environ=bench.environ,
            circuit_failures=1,
        )
        bench.provider.behave = status(500)
        await bench.fail(models)
        assert {name: f.usable for name, f in models.facts().items()} == {"p": False, "q": True}
        assert (await models.call("q", "", "", 10)).text == "They talked."
        await models.close()


async def test_calls_at_once_share_a_client_and_get_their_own_answers(bench: Bench) -> None:
    gate = asyncio.Event()
    bench.provider.queue = [after(gate, says(f"answer {i}")) for i in range(4)]
    calls = [asyncio.create_task(bench.call()) for _ in range(4)]
    await bench.provider.asked(4)
    gate.set()
    assert {(await c).text for c in calls} == {f"answer {i}" for i in range(4)}


def test_the_sdk_is_not_loaded_before_a_model_is_called() -> None:
    code = (
        "import sys, memsvc.llm as m; m.Models([m.ProviderConfig('p', 'http://x', 'm')], environ={}).facts();"
        "sys.exit('openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
