"""The memory page: what waits for a person's word beside what has it, and the deciding."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc_client import NotFound
from memsvc_client.services import CoreCalls
from starlette.responses import Response

from memsvc.v1 import memory_pb2 as pb
from memsvc_console.daemon import one_page
from memsvc_console.pages.deciding import ask_first, decide
from memsvc_console.sessions import Toast
from memsvc_console.view import View, scoped

PAGE = 20
REJECT, DELETE = "reject", "delete_fact"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate as the page shows it. `replaces` is the text of the fact that it would replace, empty for none."""

    candidate: pb.Candidate
    replaces: str

    @property
    def percent(self) -> int:
        """How sure the model was, of a hundred."""
        return round(100 * min(1.0, max(0.0, self.candidate.confidence)))


async def memory(view: View) -> Response:
    """Both columns, without what the person has just decided on."""
    held = view.console.takebacks
    rejected, deleted = held.hidden(view.scope, REJECT), held.hidden(view.scope, DELETE)
    known = await view.memory.core.list_facts(view.scope)
    candidates, following = await one_page(
        view.memory, CoreCalls.candidates.describe(None, view.scope, page_size=PAGE), view.param("page")
    )
    texts = {fact.fact_id: fact.text for fact in known.facts}
    return view.render(
        "memory.html",
        facts=[fact for fact in known.facts if fact.fact_id not in deleted],
        capacity=known.capacity,
        proposals=[
            Proposal(each, texts.get(each.supersedes_fact_id, ""))
            for each in candidates
            if each.candidate_id not in rejected
        ],
        following=following,
        paged=bool(view.param("page")),
    )


async def confirm(view: View) -> Response:
    """A candidate becomes a fact, in its own words or in the person's."""
    candidate_id = view.request.path_params["id"]
    text = (await view.form()).get("text", "").strip()
    await _make_room(view)
    answer = await view.memory.core.confirm(view.scope, candidate_id, text=text, actor=view.actor)
    view.console.takebacks.drop(view.scope, REJECT, candidate_id)
    return view.done(_kept(view, "confirmed", answer.fact, answer.superseded, answer.evicted), view.here("/memory"))


async def create(view: View) -> Response:
    """The person writes a fact."""
    text = (await view.form()).get("text", "").strip()
    await _make_room(view)
    answer = await view.memory.core.create_fact(view.scope, text, actor=view.actor)
    return view.done(_kept(view, "created", answer.fact, pb.Fact(), answer.evicted), view.here("/memory"))


async def _make_room(view: View) -> None:
    """Sends deletions that wait, where the memory is full: else another fact would give way for one that is to go."""
    if view.console.takebacks.hidden(view.scope, DELETE):
        known = await view.memory.core.list_facts(view.scope)
        if len(known.facts) >= known.capacity:
            await view.console.takebacks.flush(view.scope, DELETE)


async def edit(view: View) -> Response:
    """The person gives a fact another wording."""
    text = (await view.form()).get("text", "").strip()
    fact = await view.memory.core.update_fact(view.scope, view.request.path_params["id"], text, actor=view.actor)
    return view.done(Toast(view.words("memory.done.edited", text=fact.text)), view.here("/memory"))


def _kept(view: View, how: str, fact: pb.Fact, superseded: pb.Fact, evicted: pb.Fact) -> Toast:
    """What became of a decision; names what had to go for it."""
    gone = [
        view.words(f"memory.done.{why}", text=other.text)
        for why, other in (("superseded", superseded), ("evicted", evicted))
        if other.fact_id
    ]
    return Toast(view.words(f"memory.done.{how}", text=fact.text), "news" if gone else "done", "\n".join(gone))


async def ask_reject(view: View) -> Response:
    """Asks whether a candidate is to be rejected, where no script lets one take it back."""
    candidate = await _candidate(view)
    return ask_first(view, "memory.sure.reject", candidate.text, view.words("memory.reject"), view.here("/memory"))


async def reject(view: View) -> Response:
    """Drops a candidate."""
    candidate = await _candidate(view)
    scope, core, actor = view.scope, view.memory.core, view.actor
    return await decide(
        view,
        REJECT,
        candidate.candidate_id,
        "memory",
        candidate.text,
        lambda: core.reject(scope, candidate.candidate_id, actor=actor),
        view.here("/memory"),
    )


async def ask_delete(view: View) -> Response:
    """Asks whether a fact is to be deleted, likewise."""
    fact = await _fact(view)
    return ask_first(view, "memory.sure.delete", fact.text, view.words("memory.delete"), view.here("/memory"))


async def delete(view: View) -> Response:
    """Forgets a fact."""
    fact = await _fact(view)
    scope, core, actor = view.scope, view.memory.core, view.actor
    return await decide(
        view,
        DELETE,
        fact.fact_id,
        "memory",
        fact.text,
        lambda: core.delete_fact(scope, fact.fact_id, actor=actor),
        view.here("/memory"),
    )


async def _candidate(view: View) -> pb.Candidate:
    """The candidate that the address names; the contract has lists only. NotFound."""
    async for candidate in view.memory.core.candidates(view.scope, page_size=200):
        if candidate.candidate_id == view.request.path_params["id"]:
            return candidate
    raise NotFound("no such candidate")


async def _fact(view: View) -> pb.Fact:
    """The fact that the address names. NotFound."""
    for fact in (await view.memory.core.list_facts(view.scope)).facts:
        if fact.fact_id == view.request.path_params["id"]:
            return fact
    raise NotFound("no such fact")


ROUTES = [
    scoped("/memory", memory),
    scoped("/memory/facts", create, "POST"),
    scoped("/memory/facts/{id}/edit", edit, "POST"),
    scoped("/memory/facts/{id}/delete", ask_delete),
    scoped("/memory/facts/{id}/delete", delete, "POST"),
    scoped("/memory/candidates/{id}/confirm", confirm, "POST"),
    scoped("/memory/candidates/{id}/reject", ask_reject),
    scoped("/memory/candidates/{id}/reject", reject, "POST"),
]
