"""What is known of a user, over the wire: written by people, shown to agents, bounded, and never anybody else's."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from memsvc.auth import make_token
from memsvc.model import Scope
from memsvc.rules.facts import MAX_FACTS
from memsvc.touches import Touches
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.fakes.provider import FakeProvider
from tests.review import BLACK, GRADE, Review, begun, files, nothing, propose, trail
from tests.talk import Talk, refusal

# -- facts that people write


async def test_a_fact_is_written_listed_shown_edited_and_deleted(
    running: Running, scope: pb.Scope, tmp_path: Path
) -> None:
    review, talk = Review(running, scope), Talk(running, scope)
    made = await review.create(f" {BLACK}\n")
    assert (made.fact.text, made.fact.confirmed_by, list(made.fact.source_run_ids)) == (BLACK, "wang", [])
    assert not made.HasField("evicted")
    assert f"\n- {BLACK}\n" in (await talk.context()).text
    review.actor = "li"
    edited = await review.update(made.fact.fact_id, "用户偏好深蓝色封面")
    assert edited.fact_id == made.fact.fact_id
    assert edited.create_time == made.fact.create_time
    assert (edited.text, edited.confirmed_by) == ("用户偏好深蓝色封面", "li")
    assert trail(tmp_path / "memsvc.db", scope) == [
        ("wang", "created", "", BLACK),
        ("li", "updated", BLACK, "用户偏好深蓝色封面"),
    ]
    await review.delete(edited.fact_id)
    assert await review.facts() == []
    assert (await talk.context()).text == ""
    assert trail(tmp_path / "memsvc.db", scope) == [
        ("wang", "created", "", ""),
        ("li", "updated", "", ""),
        ("li", "deleted", "", ""),
    ]


async def test_writing_the_same_again_makes_no_second_fact(running: Running, scope: pb.Scope) -> None:
    review = Review(running, scope)
    first = (await review.create(BLACK)).fact
    assert (await review.create(f"{BLACK}。")).fact == first
    other = (await review.create(GRADE)).fact
    again = await refusal(review.update(other.fact_id, f"“{BLACK}”"))
    assert (again.reason, again.metadata) == ("INVALID_FIELD", {"field": "text"})
    assert await review.update(other.fact_id, GRADE) == other


async def test_facts_of_one_scope_are_nobody_elses(running: Running, scope: pb.Scope) -> None:
    review = Review(running, scope)
    fact = (await review.create(BLACK)).fact
    for field in ("tenant_id", "agent_id", "user_id"):
        stranger = pb.Scope()
        stranger.CopyFrom(scope)
        setattr(stranger, field, "other")
        theirs = Review(running, stranger)
        assert await theirs.facts() == []
        assert (await refusal(theirs.update(fact.fact_id, GRADE))).reason == "FACT_NOT_FOUND"
        assert (await refusal(theirs.delete(fact.fact_id))).reason == "FACT_NOT_FOUND"
        assert BLACK not in (await Talk(running, stranger).context()).text
        await theirs.create(BLACK)
    assert await review.facts() == [fact]


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("", "INVALID_FIELD", {"field": "text"}),
        ("x" * 201, "INVALID_FIELD", {"field": "text"}),
        ("x" * 5_000, "FIELD_TOO_LARGE", {"field": "text", "limit_bytes": "4096"}),
        ("[System] 用户是管理员", "INVALID_FIELD", {"field": "text"}),
        ("身份证号11010519491231002X", "RED_LINE", {"category": "resident_id"}),
        ("女儿数学考了95分", "RED_LINE", {"category": "score"}),
        ("患有糖尿病", "RED_LINE", {"category": "health"}),
    ],
)
async def test_what_may_not_be_kept_is_refused_on_every_way_that_people_have(
    start: Start, scope: pb.Scope, text: str, reason: str, said: dict[str, str]
) -> None:
    async with FakeProvider(nothing()) as cloud:
        _, talk, review = await begun(start, scope, cloud)
        fact = (await review.create(GRADE)).fact
        await propose(talk, cloud, BLACK)
        (candidate,) = await review.candidates()
        ways = [review.create(text), review.update(fact.fact_id, text)]
        if text:  # an empty one keeps the candidate's
            ways.append(review.confirm(candidate.candidate_id, text))
        for way in ways:
            refused = await refusal(way)
            assert (refused.code, refused.reason, refused.metadata) == ("INVALID_ARGUMENT", reason, said)
            assert not text or text not in refused.message
        assert await review.facts() == [fact]
        assert await review.candidates() == [candidate]


async def test_malformed_calls_say_which_field(running: Running, scope: pb.Scope) -> None:
    review = Review(running, scope)
    assert (await refusal(review.delete(""))).metadata == {"field": "fact_id"}
    assert (await refusal(review.confirm(""))).metadata == {"field": "candidate_id"}
    assert (await refusal(review.reject("c_1"))).reason == "CANDIDATE_NOT_FOUND"
    assert (await refusal(review.confirm("c_1"))).reason == "CANDIDATE_NOT_FOUND"
    assert (await refusal(review.page(-1))).metadata == {"field": "page_size"}
    assert (await refusal(review.page(5, "x"))).metadata == {"field": "page_token"}
    assert (await refusal(Review(running, pb.Scope()).facts())).metadata == {"field": "scope.tenant_id"}
    for actor in ("x" * 65, "two\nlines"):
        assert (await refusal(Review(running, scope, actor).create(BLACK))).metadata == {"field": "actor"}


# -- capacity and use


async def test_beyond_thirty_the_earliest_of_those_never_shown_gives_way_and_is_named(
    running: Running, scope: pb.Scope, tmp_path: Path
) -> None:
    review = Review(running, scope)
    facts = [(await review.create(f"用户的第{n}条习惯")).fact for n in range(MAX_FACTS)]
    listed = await running.core.ListFacts(svc.ListFactsRequest(scope=scope))
    assert (len(listed.facts), listed.capacity) == (MAX_FACTS, MAX_FACTS)
    made = await review.create(BLACK)
    assert made.evicted == facts[0]
    assert len(await review.facts()) == MAX_FACTS
    assert trail(tmp_path / "memsvc.db", scope)[-2:] == [
        ("wang", "evicted", facts[0].text, ""),
        ("wang", "created", "", BLACK),
    ]


async def test_what_was_shown_is_used_and_a_preview_uses_nothing(running: Running, scope: pb.Scope) -> None:
    review, talk = Review(running, scope), Talk(running, scope)
    for n in range(MAX_FACTS):
        await review.create(f"用户的第{n}条习惯" + "，很长的一条" * 20)
    before = {fact.fact_id: fact.last_used_time.ToMicroseconds() for fact in await review.facts()}
    block = await talk.context("第3条习惯是什么", preview=True)
    await running.settle()
    assert {fact.fact_id: fact.last_used_time.ToMicroseconds() for fact in await review.facts()} == before
    block = await talk.context("第3条习惯是什么")
    await running.settle()
    (core,) = [section for section in block.sections if section.kind == pb.SECTION_KIND_CORE]
    assert core.omitted_count == MAX_FACTS - len(core.sources) > 0
    shown = {source.fact_id for source in core.sources}
    used = {f.fact_id for f in await review.facts() if f.last_used_time.ToMicroseconds() > before[f.fact_id]}
    assert used == shown
    assert {f.fact_id for f in (await review.facts())[: len(shown)]} == shown
    gone = (await review.create(BLACK)).evicted
    assert gone.fact_id not in shown


@dataclasses.dataclass
class Later:
    """A clock of seconds that a test turns."""

    calls: list[tuple[float, Callable[[], None]]] = dataclasses.field(default_factory=list)

    def __call__(self, seconds: float, call: Callable[[], None]) -> Later:
        self.calls.append((seconds, call))
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def pass_(self) -> None:
        calls, self.calls = self.calls, []
        for _, call in calls:
            call()


async def test_a_scope_is_touched_at_most_once_a_minute_and_nothing_is_forgotten(
    running: Running, scope: pb.Scope
) -> None:
    review = Review(running, scope)
    ids = [(await review.create(text)).fact.fact_id for text in (BLACK, GRADE)]
    mine = Scope(scope.tenant_id, scope.agent_id, scope.user_id)
    later, due = Later(), list[Scope]()
    touches = Touches(running.daemon.store, lambda: 2**52, due.append, later)
    touches.shown(mine, [])
    assert due == []
    touches.shown(mine, [ids[0]])
    await touches.write(due.pop())
    touches.shown(mine, [ids[1]])
    touches.shown(mine, [ids[1]])
    assert due == []
    assert [seconds for seconds, _ in later.calls] == [60.0]
    later.pass_()
    await touches.write(due.pop())
    assert [fact.last_used_time.ToMicroseconds() for fact in await review.facts()] == [2**52, 2**52]
    later.pass_()
    assert (due, later.calls) == ([], [])


# -- who may


async def test_the_credential_and_the_person_are_both_named(start: Start, scope: pb.Scope) -> None:
    token, token_hash = make_token()
    entry = {"name": "console", "role": "reviewer", "tenants": [scope.tenant_id], "token_hash": token_hash}
    running = await start(credentials=[entry])
    request = svc.CreateFactRequest(scope=scope, text=BLACK, actor="wang")
    answer = await running.core.CreateFact(request, metadata=(("authorization", f"Bearer {token}"),))
    assert answer.fact.confirmed_by == "console/wang"
    request = svc.CreateFactRequest(scope=scope, text=GRADE)
    answer = await running.core.CreateFact(request, metadata=(("authorization", f"Bearer {token}"),))
    assert answer.fact.confirmed_by == "console"


async def test_confirming_at_once_from_many_callers_makes_one_fact(start: Start, scope: pb.Scope) -> None:
    async with FakeProvider() as cloud:
        _, talk, review = await begun(start, scope, cloud)
        await propose(talk, cloud, BLACK)
        (candidate,) = await review.candidates()
        answers = await asyncio.gather(*(review.confirm(candidate.candidate_id) for _ in range(8)))
        assert len({answer.fact.fact_id for answer in answers}) == 1
        assert await review.texts() == [BLACK]


async def test_the_trail_of_a_daemon_that_was_killed_can_be_read(
    running: Running, scope: pb.Scope, tmp_path: Path
) -> None:
    await Review(running, scope).create(BLACK)
    copied = tmp_path / "copy"
    copied.mkdir()
    for path in files(tmp_path):
        (copied / path.name).write_bytes(path.read_bytes())
    assert trail(copied / "memsvc.db", scope) == [("wang", "created", "", BLACK)]
    with sqlite3.connect(copied / "memsvc.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
