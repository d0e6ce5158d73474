"""Cost and work: the pages show the numbers of the contract, and notices are said once."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memsvc_console import figures, spending
from playwright.async_api import Page, expect

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from tests.console.conftest import NewPage
from tests.console.world import Corner, client
from tests.fakes.provider import by_kind
from tests.review import SUMMARY

NOW = datetime(2026, 12, 1, 20, tzinfo=UTC)
SHANGHAI = ZoneInfo("Asia/Shanghai")

session = pytest.mark.asyncio(loop_scope="session")


async def spent(corner: Corner, turns: int = 5) -> str:
    """A conversation whose runner reports what it took; returns the thread."""
    corner.world.provider.behave = by_kind(SUMMARY)
    talk = corner.talk()
    for i in range(turns):
        usage = pb.Usage(input_tokens=400 + 10 * i, output_tokens=150, cost_micros=1_500_000 + i)
        await talk.record(f"第{i + 1}题", "好的", usage=usage, context_token_count=9 * i)
        await corner.world.running.settle()
    return talk.thread_id


async def usage(corner: Corner, **fields: object) -> rpc.GetUsageResponse:
    """What the contract says."""
    request = rpc.GetUsageRequest(scope=corner.scope, **fields)  # type: ignore[arg-type]
    return await corner.world.running.ops.GetUsage(request)


@session
@pytest.mark.parametrize("unit", ["tokens", "cost"])
async def test_the_sums_are_those_of_get_usage(corner: Corner, page: Page, unit: str) -> None:
    await spent(corner)
    sums = await usage(corner)
    await page.goto(corner.at(f"/cost?unit={unit}"))
    write = spending.writer(unit, sums.currency_code)
    shown = await page.locator(".sum strong").all_inner_texts()
    assert shown == [write(spending.worth(unit)(each)) for each in (sums.runs, sums.memory, sums.total)]
    assert sums.memory.input_tokens > 0
    (provider,) = (await usage(corner, group_by=rpc.USAGE_GROUP_PROVIDER)).buckets
    row = page.locator("section[aria-labelledby=providers-title] tbody tr")
    assert (await row.locator("th, td.number").all_inner_texts()) == [
        "cloud",
        *map(write, (spending.worth(unit)(provider.runs), spending.worth(unit)(provider.memory))),
        write(spending.worth(unit)(sums.total)),
    ]


@session
async def test_a_conversation_has_its_curve(corner: Corner, page: Page) -> None:
    thread_id = await spent(corner)
    await page.goto(corner.at("/cost"))
    await page.locator(f"a[href$='/cost/threads/{thread_id}']").click()
    ops = await page.locator("table tbody tr").count()
    assert ops == 5
    sums = await usage(corner, thread_id=thread_id)
    read = sum(400 + 10 * i for i in range(5)) + sums.memory.input_tokens + sums.memory.output_tokens
    assert await page.locator(".sum-prompt strong").inner_text() == figures.count(read)
    # Own tokens are 400 to 404, of which 400 count as instructions: a turn adds its number and 150 of output.
    history = sum(400 + i + sum(150 + k for k in range(i)) for i in range(5))
    assert await page.locator(".sum-history strong").inner_text() == f"≥ {figures.count(history)}"
    assert await page.locator("svg.drawing-wide .line-of").count() == 4
    await page.locator("a[href*='/cost/calls']").click()
    await expect(page.locator("tbody tr").first).to_contain_text("cloud")


@session
async def test_what_is_not_reported_is_not_compared(corner: Corner, page: Page) -> None:
    corner.world.provider.behave = by_kind(SUMMARY)
    talk = corner.talk()
    await talk.turns("一", "二")
    await page.goto(corner.at(f"/cost/threads/{talk.thread_id}"))
    await expect(page.locator(".note", has_text="无法与")).to_be_visible()
    assert await page.locator(".sum-history").count() == 0


@session
async def test_a_notice_is_said_in_both_languages_until_it_is_noted(corner: Corner, new_page: NewPage) -> None:
    talk = corner.talk()
    await talk.record("一", provider="<b>nowhere</b>")
    await talk.record("二", provider="<b>nowhere</b>")
    await corner.world.running.settle()
    english = await new_page(locale="en", width=375)
    await english.goto(corner.at("/cost"))
    await expect(english.locator(".notice")).to_contain_text("Conversations name the provider “<b>nowhere</b>”")
    page = await new_page()
    await page.goto(corner.at("/context"))
    await expect(page.locator(".notice")).to_contain_text("“<b>nowhere</b>”，记忆整理改由“内置摘要器”完成")
    await page.locator(".notice button").click()
    await expect(page.locator(".notice")).to_have_count(0)
    assert await talk.notices() == []
    await english.locator(".notice button").click()
    await expect(english.locator(".notice")).to_have_count(0)


@session
async def test_notices_can_be_noted_without_a_script(corner: Corner, new_page: NewPage) -> None:
    talk = corner.talk()
    await talk.record("一", provider="nowhere")
    await talk.record("二", provider="nowhere")
    await corner.world.running.settle()
    page = await new_page(java_script_enabled=False)
    await page.goto(corner.at("/cost?days=7"))
    await page.locator(".notice button").click()
    await expect(page.locator(".toast")).to_contain_text("不再提")
    await expect(page.locator(".notice")).to_have_count(0)
    assert page.url == corner.at("/cost?days=7")


@session
async def test_pages_without_numbers_say_so_and_fit_a_narrow_window(corner: Corner, new_page: NewPage) -> None:
    page = await new_page(locale="en", width=375)
    for path, said in (
        ("/cost", "Nothing was spent in this time"),
        ("/cost?days=0&unit=x", "Nothing was spent in this time"),
        ("/cost/calls", "No call yet"),
    ):
        await page.goto(corner.at(path))
        await expect(page.locator(".state").first).to_contain_text(said)
    thread_id = await spent(corner, 3)
    for path in ("/cost", f"/cost/threads/{thread_id}", "/cost/calls"):
        await page.goto(corner.at(path))
        assert await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@session
async def test_memorys_calls_are_paged(corner: Corner) -> None:
    await spent(corner, 28)
    seen: list[str] = []
    async with client(corner.world.app) as browser:
        path = corner.base + "/cost/calls"
        while path:
            text = (await browser.get(path)).text
            seen += re.findall(r'<td class="nowrap"><time datetime="([^"]+)"', text)
            older = re.search(r'href="([^"]+page=[^"]+)"', text)
            path = older[1].replace("&amp;", "&") if older else ""
    ops = [op.create_time.ToJsonString() for op in await corner.talk().ops()]
    assert seen == ops
    assert len(ops) > 50


buckets = st.dictionaries(
    st.dates(date(2026, 1, 1), date(2026, 12, 2)).map(str),
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
    max_size=40,
).map(
    lambda days: [
        rpc.UsageBucket(key=key, runs=pb.Usage(input_tokens=a), memory=pb.Usage(output_tokens=b))
        for key, (a, b) in sorted(days.items())
    ]
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(buckets, st.sampled_from(spending.PERIODS))
def test_days_have_no_gaps_and_lose_nothing_of_their_period(found: list[rpc.UsageBucket], period: int) -> None:
    begin = spending.start_of(period, SHANGHAI, NOW)
    within = [b for b in found if begin is None or b.key >= str(begin.astimezone(SHANGHAI).date())]
    days = spending.by_day(within, "tokens", period, SHANGHAI, NOW)
    assert sum(day.total for day in days) == sum(b.runs.input_tokens + b.memory.output_tokens for b in within)
    keys = [datetime.fromisoformat(day.key).toordinal() for day in days]
    assert keys == list(range(keys[0], keys[0] + len(keys)))
    assert len(days) == period or not period
    assert days[-1].key == "2026-12-02"


def test_a_period_begins_at_midnight_where_the_reader_is() -> None:
    assert spending.start_of(7, SHANGHAI, NOW) == datetime(2026, 11, 25, 16, tzinfo=UTC)
    assert spending.start_of(0, SHANGHAI, NOW) is None


def test_the_largest_come_first() -> None:
    found = [rpc.UsageBucket(key=key, runs=pb.Usage(cost_micros=cost)) for key, cost in (("b", 1), ("a", 1), ("c", 5))]
    assert [row.key for row in spending.largest(found, "cost")] == ["c", "a", "b"]
