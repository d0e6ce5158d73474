"""The job that asks a model for facts: what it asks about, whom, how often, and what becomes of a bad answer."""

from __future__ import annotations

from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Running, Start
from tests.fakes.provider import FakeProvider, by_kind, says, status
from tests.review import BLACK, GRADE, SUMMARY, Review, begun, configured, nothing, propose, proposes
from tests.talk import CANCELLED, FAILED, Talk

# -- the job


async def test_only_completed_runs_are_asked_about_and_each_once(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider(nothing()) as cloud:
        running, talk, _ = await begun(start, scope, cloud)
        await talk.record("失败的一轮", outcome=FAILED)
        await talk.record("中止的一轮", outcome=CANCELLED)
        await talk.turns("完成的一轮")
        await talk.record("又失败了", outcome=FAILED)
        await talk.turns("又完成了")
        asked = [request for request in cloud.requests if "NONE" in request.text]
        assert [("完成的一轮" in r.user, "又完成了" in r.user) for r in asked] == [(True, False), (False, True)]
        assert not any("失败" in request.user or "中止" in request.user for request in asked)
        await start.stop()  # type: ignore[attr-defined]
        again = await start(providers=configured({"cloud": cloud}))
        await again.settle()
        assert len([r for r in cloud.requests if "NONE" in r.text]) == 2
        assert running is not again


async def test_after_a_restart_what_was_not_asked_about_is_found(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider(nothing()) as cloud:
        _, talk, review = await begun(start, scope, cloud, limits=[{"extraction": False}])
        await talk.turns("封面请用黑色")
        assert cloud.requests == []
        await start.stop()  # type: ignore[attr-defined]
        cloud.behave = proposes(BLACK)
        running = await start(providers=configured({"cloud": cloud}))
        await running.settle()
        assert [c.text for c in await Review(running, scope).candidates()] == [BLACK]
        assert review


async def test_without_a_provider_nobody_looks_for_facts(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    await talk.turns("我喜欢黑色封面", provider="cloud")
    assert await talk.ops() == []
    assert (await talk.status()).pending_jobs == 0


async def test_an_answer_of_no_use_is_a_failed_call_that_is_told_of_and_tried_again(
    start: Start, scope: pb.Scope
) -> None:
    async with FakeProvider() as cloud:
        running, talk, review = await begun(start, scope, cloud)
        cloud.behave = by_kind(SUMMARY, says("抱歉，我无法完成这个请求。"))
        await talk.turns("封面请用黑色")
        (failed,) = (await talk.status()).failed_jobs
        assert (failed.kind, failed.error_reason) == (pb.MEMORY_OP_KIND_EXTRACT, "EXTRACTION_NOT_FACTS")
        assert failed.thread_id == talk.thread_id
        cloud.behave = proposes(BLACK)
        asked = len(cloud.requests)
        running.daemon.worker.retry_now()
        await cloud.asked(asked + 1)
        await running.settle()
        assert [c.text for c in await review.candidates()] == [BLACK]
        reasons = [op.error_reason for op in await talk.ops()]
        assert (reasons[0], reasons[-1]) == ("", "EXTRACTION_NOT_FACTS")
        assert not (await talk.status()).failed_jobs


async def test_a_model_that_cannot_extract_sums_up_all_the_same(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider(by_kind(SUMMARY, says("抱歉，我无法完成这个请求。"))) as cloud:
        running, talk, _ = await begun(start, scope, cloud, circuit_failures=1, circuit_ms=50)
        await talk.turns("一", "二", "三")
        while all("NONE" in request.text for request in cloud.requests):
            await cloud.asked(len(cloud.requests) + 1)
        await running.settle()
        assert (await talk.thread()).summarized_run_count == 1


async def test_a_provider_that_fails_is_named_and_its_cost_is_kept(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        _, talk, _ = await begun(start, scope, cloud)
        cloud.behave = by_kind(SUMMARY, status(500))
        await talk.turns("封面请用黑色")
        (failed,) = (await talk.status()).failed_jobs
        assert failed.error_reason == "PROVIDER_STATUS_500"


async def test_a_long_backlog_is_asked_about_in_bounded_pieces(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider(nothing()) as cloud:
        running, talk, _ = await begun(start, scope, cloud, limits=[{"extraction": False}])
        for n in range(6):
            await talk.record(f"第{n}轮：" + "一段很长的课文。" * 3_000)
        await running.settle()
        cloud.requests.clear()
        await start.stop()  # type: ignore[attr-defined]
        running = await start(providers=configured({"cloud": cloud}))
        await running.settle()
        asked = [request for request in cloud.requests if "NONE" in request.text]
        assert len(asked) > 1
        for n in range(6):
            assert sum(f"第{n}轮：" in request.user for request in asked) == 1
        assert all(len(request.text) < 30_000 for request in asked)


async def test_the_days_allowance_holds_for_extraction_too(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider(nothing()) as cloud:
        _, talk, _ = await begun(start, scope, cloud, limits=[{"daily_tokens": 100}])
        await talk.turns("一")
        await talk.turns("二")
        assert len(cloud.requests) == 1
        (failed,) = (await talk.status()).failed_jobs
        assert failed.error_reason == "ALLOWANCE_SPENT"
        assert [notice.kind for notice in await talk.notices()] == [pb.NOTICE_KIND_ALLOWANCE_SPENT]


# -- whose model may see what


async def test_a_cloud_is_asked_about_its_own_runs_and_shown_its_own_facts(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider(nothing()) as one, FakeProvider(nothing()) as other:
        running = await start(providers=configured({"one": one, "other": other}))
        review = Review(running, scope)
        ours, theirs = Talk(running, scope, provider="one"), Talk(running, scope, provider="other")
        await propose(ours, one, "用户收藏紫砂壶")
        await review.confirm((await review.candidates())[0].candidate_id)
        await review.create(GRADE)
        await theirs.turns("请出一份试卷")
        assert GRADE in other.text
        assert "紫砂壶" not in other.text
        await ours.turns("再出一份")
        assert "紫砂壶" in one.requests[-1].user
        assert "请出一份试卷" not in one.text


async def test_runs_that_no_model_may_see_are_passed_over(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider(nothing()) as one, FakeProvider(nothing()) as other:
        running = await start(providers=configured({"one": one, "other": other}), limits=[{"extraction": False}])
        talk = Talk(running, scope)
        await talk.record("第一轮归一家", provider="one")
        await talk.record("第二轮归另一家", provider="other")
        await talk.record("第三轮没有名字", provider="stranger")
        await start.stop()  # type: ignore[attr-defined]
        running = await start(providers=configured({"one": one, "other": other}))
        await running.settle()
        assert one.requests == other.requests == []
        talk.running = running
        assert (await talk.status()).pending_jobs == 0
        assert [notice.kind for notice in await talk.notices()] == [pb.NOTICE_KIND_UNKNOWN_PROVIDER]
        await talk.turns("第四轮又归一家", provider="one")
        assert "第四轮又归一家" in one.text
        assert "第二轮" not in one.text


async def test_the_local_fallback_looks_for_facts_where_the_cloud_is_down_and_a_notice_says_so(
    start: Start, scope: pb.Scope
) -> None:
    async with FakeProvider() as cloud, FakeProvider(proposes(BLACK)) as local:
        cloud.behave = by_kind(SUMMARY, status(500))
        running = await start(
            providers=configured({"cloud": cloud, "local": local}, local=["local"]),
            local_fallback="local",
            circuit_failures=1,
        )
        talk = Talk(running, scope, provider="cloud")
        await talk.record("封面请用黑色")
        await local.asked(1)
        await running.settle()
        assert [c.text for c in await Review(running, scope).candidates()] == [BLACK]
        (notice,) = await talk.notices()
        assert (notice.kind, notice.from_provider, notice.to_provider) == (
            pb.NOTICE_KIND_PROVIDER_CHANGE,
            "cloud",
            "local",
        )
