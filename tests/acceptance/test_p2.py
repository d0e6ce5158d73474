"""Recall over the wire: what bears on an input is brought back, what does not is left alone, and nothing is lost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.talk import Talk

TOLD = (
    ("每天早上八点把早报发给我", "好的，早报会准时送达。"),
    ("修改API配置文件里的超时", "已经把超时改成30秒。"),
    ("C盘快满了怎么清理", "先清理临时文件夹。"),
    ("升级到v2.3之后报错", "请先迁移数据库。"),
    ("Which boxes hold the winter coats?", "The two boxes beside the boiler."),
    ("猫不肯吃药", "把药片碾碎拌进罐头。"),
)
SMALL_TALK = (
    ("帮我写一首关于秋天的诗", "秋风起，落叶黄。"),
    ("把这段话翻译成英文", "Here is the translation."),
    ("周末去哪里爬山", "可以去香山。"),
    ("推荐一本历史小说", "可以读《大秦帝国》。"),
    ("怎样煮溏心蛋", "水开后六分半钟。"),
    ("Plan a birthday party", "Invite friends and order a cake."),
)


async def told(running: Running, scope: pb.Scope) -> list[str]:
    """Records each exchange in a conversation of its own; returns the ids of those that tell something."""
    for given, output in SMALL_TALK:
        await Talk(running, scope).record(given, output)
    return [await Talk(running, scope).record(given, output) for given, output in TOLD]


async def recalled(running: Running, scope: pb.Scope, given: str) -> list[str]:
    """The runs that a new conversation is reminded of by an input."""
    block = await Talk(running, scope).context(given)
    section = [s for s in block.sections if s.kind == pb.SECTION_KIND_RECALL]
    assert bool(section) is ("[相关历史" in block.text)
    return [source.run_id for part in section for source in part.sources]


async def found(running: Running, scope: pb.Scope, query: str) -> list[pb.RecallHit]:
    """What Search brings."""
    return list((await running.recall.Search(svc.SearchRequest(scope=scope, query=query))).hits)


async def test_a_relevant_run_is_injected_and_an_irrelevant_one_is_not(running: Running, scope: pb.Scope) -> None:
    ids = await told(running, scope)
    block = await Talk(running, scope).context("早报里加上天气")
    assert "早报会准时送达" in block.text
    assert not any(output in block.text for _, output in [*TOLD[1:], *SMALL_TALK])
    assert await recalled(running, scope, "早报里加上天气") == ids[:1]
    assert await recalled(running, scope, "解释一下量子纠缠") == []


async def test_many_runs_that_end_at_once_lose_neither_log_nor_index(running: Running, scope: pb.Scope) -> None:
    talks = [Talk(running, scope) for _ in range(8)]

    async def end(talk: Talk, number: int) -> None:
        await talk.record(f"needle{number} 第{number}件事")

    await asyncio.gather(*(end(talks[n % 8], n) for n in range(160)))
    recorded = {run_id for talk in talks for run_id in talk.run_ids}
    listed = 0
    threads = (await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope, page_size=200))).threads
    for thread in threads:
        listed += thread.run_count
    assert (len(recorded), listed) == (160, 160)
    for number in range(160):
        first = (await found(running, scope, f"needle{number}"))[0].run
        assert first.input.startswith(f"needle{number} ")
        assert first.run_id in recorded


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("早报", 0),
        ("配置", 1),
        ("API配置", 1),
        ("api 配置", 1),
        ("C盘", 2),
        ("c盘", 2),
        ("Ｃ盘", 2),
        ("v2.3", 3),
        ("the box of a winter coat", 4),
        ("猫", 5),
        ('"早报"', 0),
        ("早报*", 0),
        ("NEAR(早报", 0),
        ("-早报", 0),
        ("早报 AND NOT 早报", 0),
    ],
)
async def test_short_mixed_and_quoted_queries_find_and_inject_their_run(
    running: Running, scope: pb.Scope, query: str, expected: int
) -> None:
    ids = await told(running, scope)
    assert (await found(running, scope, query))[0].run.run_id == ids[expected]
    assert await recalled(running, scope, query) == [ids[expected]]


@pytest.mark.parametrize("query", ["", " ", "的", "是什么", "what is it", '"', "*", "NEAR(", "-", "' OR 1=1 --"])
async def test_what_names_nothing_injects_nothing(running: Running, scope: pb.Scope, query: str) -> None:
    await told(running, scope)
    assert await recalled(running, scope, query) == []


async def test_a_query_of_256_kib_is_answered_by_its_ends(running: Running, scope: pb.Scope) -> None:
    ids = await told(running, scope)
    query = "x" * (256 * 1024 - len("早报".encode())) + "早报"
    assert [hit.run.run_id for hit in await found(running, scope, query)][:1] == ids[:1]
    assert await recalled(running, scope, query) == ids[:1]


async def test_another_scope_changes_neither_order_nor_score(running: Running, scope: pb.Scope) -> None:
    await told(running, scope)
    queries = ("早报", "配置文件", "winter boxes", "清理一下C盘")
    before = [[(hit.run.run_id, hit.score) for hit in await found(running, scope, query)] for query in queries]
    other = pb.Scope(tenant_id=scope.tenant_id, agent_id=scope.agent_id, user_id="another")
    for _ in range(5):
        await told(running, other)
    assert before == [[(hit.run.run_id, hit.score) for hit in await found(running, scope, query)] for query in queries]


async def test_the_last_turn_is_not_overridden_by_an_old_run(running: Running, scope: pb.Scope) -> None:
    await Talk(running, scope).record("B型打印机的价格", "B型打印机1200元。")
    talk = Talk(running, scope)
    await talk.record("A型打印机的价格", "A型打印机900元。")
    text = (await talk.context("打印机的价格再便宜点")).text
    assert text.index("A型打印机900元") < text.index("[相关历史") < text.index("B型打印机1200元")
    assert text.count("A型打印机900元") == 1


@pytest.mark.parametrize("query", ["what did we do on January 5, 2024?", "2024年1月5日的安排", "2024-01-05"])
async def test_a_date_finds_the_runs_of_its_day(running: Running, scope: pb.Scope, query: str) -> None:
    await told(running, scope)
    days = {}
    for day in (4, 5, 6):
        ended = Timestamp(seconds=int(datetime(2024, 1, day, 9, tzinfo=UTC).timestamp()))
        days[await Talk(running, scope).record(f"arrange the plants, plan {day}", end_time=ended)] = day
    assert days[(await found(running, scope, query))[0].run.run_id] == 5
