"""Deleted means gone from the bytes: words are planted wherever they can get, and looked for in every file.

Each place has words of its own, a Latin one and two rare characters, so that a failure tells which place was missed.
They are looked for as text and as terms of the index: in a posting, of eight bytes, the upper 35 bits are the term's.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from memsvc.rules.terms import count_terms
from memsvc.store.sqlite import recall
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.fakes.provider import Answer, FakeProvider, Request
from tests.review import Review, configured
from tests.talk import Talk, refusal
from tests.units import contents

OF_THE_RUN = ("run_id", "input", "output", "label_key", "label", "model", "summary", "candidate", "rejected")
OF_THE_THREAD = ("thread_key", "title")
OF_A_LONG_RUN = ("long", "draft")
OF_THE_FACT = ("fact", "fact_before")
OF_THE_SCOPE = ("provider", "actor", "user")
PLACES = (*OF_THE_RUN, *OF_THE_THREAD, *OF_A_LONG_RUN, *OF_THE_FACT, *OF_THE_SCOPE)
INDEXED = ("input", "output", "long")

_rare = itertools.count(0x9EA0)
_LETTERS = "bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True)
class Needle:
    """Words that stand nowhere else."""

    latin: str
    han: str

    @classmethod
    def of(cls, scope: str, place: str) -> Needle:
        """Fresh ones, in which somebody who looks at a file can read the place."""
        first, second = next(_rare), next(_rare)
        unique = "".join(_LETTERS[first // 19**n % 19] for n in range(3))
        return cls(f"zq{scope}{place}{unique}".replace("_", "").lower(), chr(first) + chr(second))

    def __str__(self) -> str:
        return f"{self.latin}，{self.han}。"

    def stands_in(self, content: bytes) -> bool:
        """Tells whether either word is there, in any encoding that a file could hold."""
        encoded = [word.encode(e) for word in (self.latin, self.han) for e in ("utf-8", "utf-16-le", "utf-16-be")]
        return any(form in content for form in (*encoded, json.dumps(self.han)[1:-1].encode()))

    def is_indexed_in(self, content: bytes) -> bool:
        """Tells whether a posting of any term of them is there, whichever end of its bytes comes first."""
        for term in count_terms(str(self)):
            *_, low, a, b, c, d = recall._key(term).to_bytes(8, "little")
            for form, beside in ((bytes([a, b, c, d]), -1), (bytes([d, c, b, a]), 4)):
                at = content.find(form, 1)
                while at > 0:
                    if content[at + beside : at + beside + 1] and content[at + beside] & 0b11100000 == low:
                        return True
                    at = content.find(form, at + 1)
        return False


class Planted:
    """A scope with words in every place."""

    def __init__(self, running: Running, name: str) -> None:
        self.words = {place: Needle.of(name, place) for place in PLACES}
        user = self.words["user"].latin
        self.scope = pb.Scope(tenant_id="school-7", agent_id="exam", user_id=user)
        self.talk = Talk(running, self.scope, provider="cloud")
        self.long = Talk(running, self.scope, provider="cloud")
        self.review = Review(running, self.scope, actor=str(self.words["actor"]))
        self.running = running

    def answer(self, request: Request) -> Answer | None:
        """What the model makes of words of this scope: it repeats none, so that each stands in its own place."""
        text, words = request.text, self.words
        if "NONE" in text:
            proposed = [f"用户喜欢{words[place]}" for place in ("fact_before", "candidate", "rejected")]
            items = [{"fact": fact, "confidence": 0.9, "run": 1, "supersedes": None} for fact in proposed]
            return Answer(json.dumps(items, ensure_ascii=False)) if words["input"].latin in text else None
        if words["draft"].latin in text:
            return Answer(status=500, raw=b"{}")
        if words["long"].latin in text:
            return Answer(f"用户请助手整理了{words['draft']}的资料。")
        if words["input"].latin in text or words["summary"].latin in text:
            return Answer(f"用户与助手讨论了{words['summary']}的安排。")
        return None

    async def plant(self) -> None:
        """Puts words everywhere."""
        words, talk = self.words, self.talk
        await talk.record(
            str(words["input"]),
            str(words["output"]),
            run_id=f"r-{words['run_id'].latin}",
            labels={words["label_key"].latin: str(words["label"])},
            model=str(words["model"]),
            thread_key=str(words["thread_key"]),
            thread_id="",
        )
        for number in range(6):  # one by one: a summary and a checkpoint each
            await talk.turns(f"安排第{number}件事")
        title = svc.RenameThreadRequest(scope=self.scope, thread_id=talk.thread_id, title=str(words["title"]))
        await self.running.threads.RenameThread(title)
        proposed = {c.text: c.candidate_id for c in await self.review.candidates()}
        fact = (await self.review.confirm(proposed[f"用户喜欢{words['fact_before']}"])).fact
        await self.review.update(fact.fact_id, f"用户喜欢{words['fact']}")
        unknown = Talk(self.running, self.scope, provider=words["provider"].latin)
        await unknown.turns("出卷", "再出一份", "换一份")
        # Too long for one call: what is made of its first piece waits for a second, which fails.
        await self.long.turns(f"{words['long']}{'资料很多。' * 3_000}", "接着", "再来")

    def found(self, content: bytes, places: Iterable[str]) -> set[str]:
        """Which of the places have their words in these bytes."""
        return {p for p in places if self.words[p].stands_in(content)} | {
            f"{p}, indexed" for p in places if p in INDEXED and self.words[p].is_indexed_in(content)
        }

    def all_of(self, places: Iterable[str]) -> set[str]:
        """What `found` returns where nothing is missing."""
        return {*places, *(f"{p}, indexed" for p in places if p in INDEXED)}


async def delete_run(planted: Planted) -> tuple[str, ...]:
    # A title that a person chose is theirs; without one, the first input is it.
    request = svc.RenameThreadRequest(scope=planted.scope, thread_id=planted.talk.thread_id, title="卷")
    await planted.running.threads.RenameThread(request)
    await planted.talk.delete_run(planted.talk.run_ids[0])
    await planted.long.delete_run(planted.long.run_ids[0])
    return (*OF_THE_RUN, *OF_A_LONG_RUN, "title")


async def delete_thread(planted: Planted) -> tuple[str, ...]:
    await planted.talk.delete_thread()
    await planted.long.delete_thread()
    return (*OF_THE_RUN, *OF_THE_THREAD, *OF_A_LONG_RUN)


async def delete_fact(planted: Planted) -> tuple[str, ...]:
    (fact,) = await planted.review.facts()
    await planted.review.delete(fact.fact_id)
    return OF_THE_FACT


async def reject_candidate(planted: Planted) -> tuple[str, ...]:
    for candidate in await planted.review.candidates():
        if planted.words["rejected"].latin in candidate.text:
            await planted.review.reject(candidate.candidate_id)
    return ("rejected",)


async def delete_scope(planted: Planted) -> tuple[str, ...]:
    await planted.running.ops.DeleteScope(svc.DeleteScopeRequest(scope=planted.scope))
    return PLACES


DELETIONS = (delete_run, delete_thread, delete_fact, reject_candidate, delete_scope)


async def test_what_is_deleted_is_gone_from_every_byte_and_nothing_else_is(start: Start, tmp_path: Path) -> None:
    scopes: list[Planted] = []

    def behave(request: Request) -> Answer:
        answers = (planted.answer(request) for planted in scopes)
        return next((answer for answer in answers if answer), Answer("NONE"))

    def read() -> bytes:
        return b"\0".join(contents(tmp_path).values())

    with structlog.testing.capture_logs() as said:
        async with FakeProvider(behave) as cloud:
            # What fails, fails once and waits.
            settings = {"providers": configured({"cloud": cloud}), "retry_first_ms": 600_000, "retry_max_ms": 600_000}
            running = await start(**settings, circuit_failures=100)
            scopes += [Planted(running, name) for name in ("run", "thread", "fact", "cand", "scope", "kept")]
            for planted in scopes:
                await planted.plant()
            standing = {id(planted): set(PLACES) for planted in scopes}
            for planted in scopes:
                assert planted.found(read(), PLACES) == planted.all_of(PLACES)
                assert [job.thread_id for job in (await planted.talk.status()).failed_jobs] == [planted.long.thread_id]

            for planted, delete in zip(scopes, DELETIONS, strict=False):
                gone = set(await delete(planted))
                standing[id(planted)] -= gone
                content = read()
                assert planted.found(content, gone) == set(), delete.__name__
                for each in scopes:
                    assert each.found(content, standing[id(each)]) == each.all_of(standing[id(each)]), delete.__name__
            await start.stop()  # type: ignore[attr-defined]

            # Nor does anything come back when the background goes over what is left.
            running = await start(**settings)
            await running.settle()
            for planted in scopes:
                gone = set(PLACES) - standing[id(planted)]
                assert planted.found(read(), gone) == set()
            run, thread, *_, scope, _ = scopes
            for planted in (run, thread, scope):
                late = Talk(running, planted.scope)
                again = late.record("x", run_id=f"r-{planted.words['run_id'].latin}")
                assert (await refusal(again)).reason == "DELETED"
    logged = repr(said).encode()
    assert [planted.found(logged, set(PLACES) - {"run_id", "provider"}) for planted in scopes] == [set()] * len(scopes)
