"""The job that looks for facts of the user in what was said: it proposes, and can do nothing else.

Batches are of one provider's runs, so that a cloud is never shown what it did not serve; of the known facts it sees
those whose every source it served, and those that a person wrote.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import structlog

from memsvc import metrics
from memsvc.llm import Reply
from memsvc.model import OpKind, Scope
from memsvc.modelwork import Errand, ModelWork
from memsvc.rules import extraction, facts, ids, prompts
from memsvc.rules.provider import Action, Work, may_receive
from memsvc.rules.tags import disown
from memsvc.rules.terms import query_terms
from memsvc.store import ExtractState, KnownFact, NewCandidate, NewOp

log = structlog.get_logger()

ANSWER_TOKENS = 1_000
"""What a model may answer: five facts and their JSON, twice."""


async def extract_thread(means: ModelWork, scope: Scope, thread_id: str) -> bool:
    """Asks a model about the next exchanges of a thread; returns whether there may be more. JobFailed."""
    state = await means.store.extract_state(scope, thread_id)
    if state is None:
        return False
    if not state.runs:
        await means.store.commit_extraction(scope, thread_id, state, state.end, [], None, None, means.now_us())
        return True
    work = Work(OpKind.EXTRACT, {run.served_by for run in state.runs}, state.latest_provider)
    choice = means.choose(work, thread_id)
    notice = means.notice(choice)
    if choice.action is Action.SKIP:
        # No model that is configured may ever see these, so they count as looked at.
        upto = state.cursors[-1]
        await means.store.commit_extraction(scope, thread_id, state, upto, [], None, notice, means.now_us())
        return True
    await means.check_allowance(scope, state.scope_no)
    errand = Errand(means, OpKind.EXTRACT, scope, state.scope_no, thread_id, choice.provider, work, notice)
    tag = ids.tag(means.store.secret, scope)
    known, asked, prompt = await asyncio.to_thread(_prepare, means, tag, state, choice.provider)
    reply = await errand.ask(prompt, ANSWER_TOKENS)
    judged = await asyncio.to_thread(_judged, reply, tag, asked, len(known), prompt)
    if judged.reason:
        await errand.reject(reply, judged.reason)
    errand.accept()
    candidates = [_candidate(proposal, state, known) for proposal in judged.proposals]
    op = NewOp(OpKind.EXTRACT, choice.provider, reply.model, reply.usage, "", reply.duration_ms)
    upto = state.cursors[len(asked.exchanges) - 1]
    held = await means.store.commit_extraction(scope, thread_id, state, upto, candidates, op, notice, means.now_us())
    metrics.memory_op(op)
    _tell(thread_id, reply, asked, judged, held)
    return True  # look again: there may be more, and where the thread moved there is


def _prepare(
    means: ModelWork, tag: str, state: ExtractState, provider: str
) -> tuple[Sequence[KnownFact], extraction.Asked, prompts.Prompt]:
    """Returns the known facts that the prompt shows, the exchanges it asks about, and the prompt itself."""
    exchanges = [extraction.Exchange(disown(run.own_input, tag), disown(run.output, tag)) for run in state.runs]
    locale = extraction.locale_of(exchanges)
    audience = means.models.facts()[provider]
    known = [fact for fact in state.known if may_receive(audience, fact.served_by)]
    order = facts.order(known, query_terms("\n".join(e.own_input for e in exchanges)))
    known = [known[i] for i in order]
    limit = means.settings.fold_input_tokens
    known_limit = min(extraction.KNOWN_LIMIT, limit // 4)
    known_lines, count = extraction.known_lines([disown(fact.text, tag) for fact in known], known_limit, means.meter)
    frame = prompts.extract_prompt(locale, tag, known_lines, "")
    room = limit - means.meter.count(frame.system + frame.user)
    asked = extraction.plan(exchanges, room, means.meter)
    return known[:count], asked, prompts.extract_prompt(asked.locale, tag, known_lines, asked.lines)


def _judged(
    reply: Reply, tag: str, asked: extraction.Asked, known_count: int, prompt: prompts.Prompt
) -> extraction.Judged:
    # A fact that bore the tag would be shown without it, and what is kept is what is shown.
    return extraction.judge(disown(reply.text, tag), asked, known_count, prompt.system)


def _candidate(proposal: extraction.Proposal, state: ExtractState, known: Sequence[KnownFact]) -> NewCandidate:
    """What a model proposes may hold words of all that it was shown, the known facts included."""
    shown = [{run.served_by for run in state.runs}, *(fact.served_by for fact in known)]
    return NewCandidate(
        candidate_id=f"c_{secrets.token_hex(8)}",
        text=proposal.text,
        confidence=proposal.confidence,
        sequences=[state.runs[i].sequence for i in proposal.exchanges],
        supersedes_fact_id="" if proposal.supersedes is None else known[proposal.supersedes].fact_id,
        served_by=frozenset().union(*shown),
    )


def _tell(thread_id: str, reply: Reply, asked: extraction.Asked, judged: extraction.Judged, held: bool) -> None:
    log.info(
        "extracted",
        thread_id=thread_id,
        runs=len(asked.exchanges),
        proposed=len(judged.proposals),
        refused=judged.refused,
        held=held,
        duration_ms=reply.duration_ms,
    )
