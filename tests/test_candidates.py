"""Candidates, over the wire: proposed by a model, decided upon by people, gone with the runs they came from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from memsvc.rules.facts import MAX_CANDIDATES
from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Start
from tests.fakes.provider import Answer, FakeProvider, Request, after, by_kind
from tests.review import BLACK, GRADE, SUMMARY, begun, files, nothing, propose, proposes, trail
from tests.talk import refusal

# -- candidates


async def test_a_proposal_waits_until_a_person_confirms_it(start: Start, scope: pb.Scope, tmp_path: Path) -> None:
    async with FakeProvider() as cloud:
        running, talk, review = await begun(start, scope, cloud)
        run_id = await propose(talk, cloud, {"fact": BLACK, "confidence": "90%", "run": 1, "supersedes": None})
        (candidate,) = await review.candidates()
        assert (candidate.text, list(candidate.source_run_ids)) == (BLACK, [run_id])
        assert candidate.confidence == pytest.approx(0.9)
        assert await review.facts() == []
        assert "核心记忆" not in (await talk.context()).text
        confirmed = await review.confirm(candidate.candidate_id)
        assert (confirmed.fact.text, list(confirmed.fact.source_run_ids)) == (BLACK, [run_id])
        assert not confirmed.HasField("superseded")
        assert not confirmed.HasField("evicted")
        assert await review.candidates() == []
        assert f"- {BLACK}" in (await talk.context()).text
        await running.settle()
        again = (await review.confirm(candidate.candidate_id)).fact
        assert again.fact_id == confirmed.fact.fact_id
        assert trail(tmp_path / "memsvc.db", scope) == [("wang", "confirmed", "", BLACK)]


async def test_a_person_may_correct_the_wording_and_the_old_one_does_not_come_back(
    start: Start, scope: pb.Scope
) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        await propose(talk, cloud, BLACK)
        (candidate,) = await review.candidates()
        fact = (await review.confirm(candidate.candidate_id, "用户的试卷封面用黑色")).fact
        assert fact.text == "用户的试卷封面用黑色"
        await propose(talk, cloud, BLACK, "用户的试卷封面用黑色。")
        assert await review.candidates() == []


async def test_equal_proposals_are_one_candidate_with_all_their_runs(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        runs = [
            await propose(talk, cloud, {"fact": text, "confidence": confidence})
            for text, confidence in ((BLACK, 0.4), (f"{BLACK}。", 0.8), (f"“{BLACK}”吧", 0.6))
        ]
        await propose(talk, cloud, "用户不偏好黑色封面")
        (other, candidate) = await review.candidates()
        assert (candidate.text, list(candidate.source_run_ids)) == (BLACK, runs)
        assert candidate.confidence == pytest.approx(0.8)
        assert other.text == "用户不偏好黑色封面"
        assert list((await review.confirm(candidate.candidate_id)).fact.source_run_ids) == runs
        await propose(talk, cloud, BLACK)
        assert await review.candidates() == [other]


async def test_what_was_rejected_or_deleted_is_not_proposed_again_until_a_person_writes_it(
    start: Start, scope: pb.Scope
) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        await propose(talk, cloud, BLACK, GRADE)
        black, grade = sorted(await review.candidates(), key=lambda candidate: candidate.text != BLACK)
        await review.reject(black.candidate_id)
        await review.delete((await review.confirm(grade.candidate_id)).fact.fact_id)
        assert (await refusal(review.confirm(black.candidate_id))).reason == "CANDIDATE_NOT_FOUND"
        assert (await refusal(review.confirm(grade.candidate_id))).reason == "CANDIDATE_NOT_FOUND"
        await propose(talk, cloud, f"{BLACK}！", GRADE)
        assert await review.candidates() == []
        fact = (await review.create(BLACK)).fact
        assert await review.texts() == [BLACK]
        await review.update(fact.fact_id, "用户偏好白色封面")
        await propose(talk, cloud, BLACK)
        assert await review.candidates() == []


async def test_writing_what_a_candidate_says_confirms_it(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        await propose(talk, cloud, BLACK)
        (candidate,) = await review.candidates()
        fact = (await review.create(BLACK)).fact
        assert list(fact.source_run_ids) == []
        assert await review.candidates() == []
        assert (await review.confirm(candidate.candidate_id)).fact == fact


async def test_a_contradiction_names_the_fact_and_replaces_it_when_confirmed(
    start: Start, scope: pb.Scope, tmp_path: Path
) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        old = (await review.create("用户教高二")).fact
        kept = (await review.create(BLACK)).fact
        asked = len(cloud.requests)
        # The latest fact stands first where none bears on what was said.
        cloud.behave = by_kind(SUMMARY, supersedes("用户教高二", "用户教高三"))
        await talk.turns("我今年教高三了")
        assert "用户教高二" in cloud.requests[asked].user
        (candidate,) = await review.candidates()
        assert candidate.supersedes_fact_id == old.fact_id
        confirmed = await review.confirm(candidate.candidate_id)
        assert confirmed.superseded == old
        assert {fact.fact_id for fact in await review.facts()} == {kept.fact_id, confirmed.fact.fact_id}
        assert trail(tmp_path / "memsvc.db", scope)[-2:] == [
            ("wang", "superseded", "用户教高二", ""),
            ("wang", "confirmed", "", "用户教高三"),
        ]


def supersedes(old: str, new: str) -> Callable[[Request], Answer]:
    """Proposes `new` in place of the known fact `old`, by the number that the prompt gives it."""

    def answer(request: Request) -> Answer:
        (line,) = [line for line in request.user.splitlines() if line.endswith(old)]
        return Answer(f'[{{"fact": "{new}", "confidence": 0.9, "run": 1, "supersedes": {line.split(".")[0]}}}]')

    return answer


async def test_a_candidate_whose_contradicted_fact_is_gone_contradicts_nothing(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        old = (await review.create("用户教高二")).fact
        cloud.behave = by_kind(SUMMARY, supersedes("用户教高二", "用户教高三"))
        await talk.turns("我今年教高三了")
        await review.delete(old.fact_id)
        (candidate,) = await review.candidates()
        assert candidate.supersedes_fact_id == ""
        assert not (await review.confirm(candidate.candidate_id)).HasField("superseded")


async def test_candidates_are_paged_by_confidence_then_age_and_bounded(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        texts = [f"用户的第{n}种偏好" for n in range(MAX_CANDIDATES + 5)]
        for first in range(0, len(texts), 10):
            items = [
                {"fact": text, "confidence": 0.5 + (n % 3) / 10} for n, text in enumerate(texts[first : first + 10])
            ]
            await propose(talk, cloud, *items)
        pages, token = [], ""
        while True:
            page = await review.page(30, token)
            pages.append(list(page.candidates))
            token = page.next_page_token
            if not token:
                break
        listed = [candidate for page in pages for candidate in page]
        assert len(listed) == MAX_CANDIDATES
        assert [len(page) for page in pages] == [30] * 6 + [20]
        confidences = [round(candidate.confidence, 6) for candidate in listed]
        assert confidences == sorted(confidences, reverse=True)
        for confidence in set(confidences):
            alike = [c.text for c in listed if round(c.confidence, 6) == confidence]
            assert alike == sorted(alike, key=texts.index)
        assert not {candidate.text for candidate in listed} & set(texts[0:9:3])
        assert (await refusal(review.page(5, "AAAA"))).metadata == {"field": "page_token"}


# -- deletion


async def test_a_deleted_run_takes_its_candidates_along_and_leaves_facts_without_it(
    start: Start, scope: pb.Scope
) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        first = await propose(talk, cloud, BLACK, GRADE)
        second = await propose(talk, cloud, BLACK)
        black, grade = sorted(await review.candidates(), key=lambda candidate: candidate.text != BLACK)
        fact = (await review.confirm(black.candidate_id)).fact
        assert list(fact.source_run_ids) == [first, second]
        await talk.delete_run(first)
        assert await review.candidates() == []
        (left,) = await review.facts()
        assert (left.text, list(left.source_run_ids)) == (BLACK, [second])
        assert (await refusal(review.confirm(grade.candidate_id))).reason == "CANDIDATE_NOT_FOUND"
        await talk.delete_thread()
        (left,) = await review.facts()
        assert (left.text, list(left.source_run_ids)) == (BLACK, [])


async def test_the_words_of_a_deleted_run_leave_the_file_with_its_candidates(
    start: Start, scope: pb.Scope, tmp_path: Path
) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        run_id = await propose(talk, cloud, "用户收藏珐琅彩瓷", "用户研究甪里古镇")
        rejected = next(c for c in await review.candidates() if "甪里" in c.text)
        await review.reject(rejected.candidate_id)
        await talk.delete_run(run_id)
        await start.stop()  # type: ignore[attr-defined]
        content = b"".join(path.read_bytes() for path in files(tmp_path))
        for word in ("珐琅彩瓷", "甪里古镇"):
            assert word.encode() not in content


async def test_a_run_that_is_deleted_while_the_model_is_asked_leaves_no_word_behind(
    start: Start, scope: pb.Scope
) -> None:
    async with FakeProvider() as cloud:
        running, talk, review = await begun(start, scope, cloud)
        answered = asyncio.Event()
        cloud.behave = after(answered, proposes(BLACK))
        run_id = await talk.record("封面请用黑色")
        kept = await talk.record("再出一份")
        await cloud.asked(1)
        await talk.delete_run(run_id)
        cloud.behave = nothing()
        answered.set()
        await running.settle()
        assert await review.candidates() == []
        assert "封面请用黑色" not in cloud.requests[-1].text
        assert "再出一份" in cloud.requests[-1].text
        assert [op.error_reason for op in await talk.ops()] == ["", ""]
        assert kept
