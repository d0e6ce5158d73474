"""How tests review what is known of a user: facts and candidates of a scope in few words, and a model that proposes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memsvc.model import Scope
from memsvc.store import read_core_log
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.fakes.provider import Behaviour, FakeProvider, by_kind, says
from tests.talk import Talk

BLACK = "用户偏好黑色封面"
GRADE = "用户教高二数学"
SUMMARY = says("用户与助手讨论了试卷的安排。")


@dataclass
class Review:
    """CoreService for one scope, as the person `actor`."""

    running: Running
    scope: pb.Scope
    actor: str = "wang"

    async def facts(self) -> list[pb.Fact]:
        """The facts, most recently used first."""
        return list((await self.running.core.ListFacts(svc.ListFactsRequest(scope=self.scope))).facts)

    async def texts(self) -> list[str]:
        """Their texts."""
        return [fact.text for fact in await self.facts()]

    async def create(self, text: str) -> svc.CreateFactResponse:
        """Writes a fact."""
        return await self.running.core.CreateFact(svc.CreateFactRequest(scope=self.scope, text=text, actor=self.actor))

    async def update(self, fact_id: str, text: str) -> pb.Fact:
        """Edits a fact."""
        request = svc.UpdateFactRequest(scope=self.scope, fact_id=fact_id, text=text, actor=self.actor)
        return (await self.running.core.UpdateFact(request)).fact

    async def delete(self, fact_id: str) -> None:
        """Deletes a fact."""
        await self.running.core.DeleteFact(svc.DeleteFactRequest(scope=self.scope, fact_id=fact_id, actor=self.actor))

    async def candidates(self, size: int = 200, token: str = "") -> list[pb.Candidate]:
        """The candidates of a page."""
        return list((await self.page(size, token)).candidates)

    async def page(self, size: int, token: str = "") -> svc.ListCandidatesResponse:
        """A page of candidates."""
        return await self.running.core.ListCandidates(
            svc.ListCandidatesRequest(scope=self.scope, page_size=size, page_token=token)
        )

    async def confirm(self, candidate_id: str, text: str = "") -> svc.ConfirmCandidateResponse:
        """Confirms a candidate, in its own words or better ones."""
        return await self.running.core.ConfirmCandidate(
            svc.ConfirmCandidateRequest(scope=self.scope, candidate_id=candidate_id, text=text, actor=self.actor)
        )

    async def reject(self, candidate_id: str) -> None:
        """Rejects a candidate."""
        await self.running.core.RejectCandidate(
            svc.RejectCandidateRequest(scope=self.scope, candidate_id=candidate_id, actor=self.actor)
        )


def proposes(*facts: str | dict[str, Any]) -> Behaviour:
    """Answers the next question for facts with these; a folding prompt gets a summary."""
    items = [{"fact": f, "confidence": 0.9, "run": 1, "supersedes": None} if isinstance(f, str) else f for f in facts]
    return by_kind(SUMMARY, says(json.dumps(items, ensure_ascii=False)))


def nothing() -> Behaviour:
    """Answers NONE, as models mostly do."""
    return by_kind(SUMMARY)


def configured(providers: dict[str, FakeProvider], local: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The settings `providers` of these."""
    return {
        name: {"base_url": fake.base_url, "model": "small", "local": name in local} for name, fake in providers.items()
    }


async def begun(start: Start, scope: pb.Scope, provider: FakeProvider, **settings: Any) -> tuple[Running, Talk, Review]:
    """Starts a daemon whose one provider, a cloud, is this; returns it, a conversation and its reviewer."""
    running = await start(**{"providers": configured({"cloud": provider})} | settings)
    return running, Talk(running, scope, provider="cloud"), Review(running, scope)


async def propose(talk: Talk, provider: FakeProvider, *facts: str | dict[str, Any], said: str = "") -> str:
    """Has the model propose after a run of a new conversation; returns the run's id."""
    provider.behave = proposes(*facts)
    texts = [fact if isinstance(fact, str) else fact["fact"] for fact in facts]
    run_id = await talk.record(said or "；".join(texts), thread_id="")
    await talk.running.settle()
    provider.behave = nothing()
    return run_id


def trail(path: Path, scope: pb.Scope) -> list[tuple[str, str, str, str]]:
    """The changes in the trail: who, what, and the words before and after."""
    read = read_core_log(path, Scope(scope.tenant_id, scope.agent_id, scope.user_id))
    return [(entry.actor, entry.change, entry.text_before, entry.text_after) for entry in read]


def files(folder: Path) -> list[Path]:
    """The files of the test's database."""
    return sorted(folder.glob("memsvc.db*"))
