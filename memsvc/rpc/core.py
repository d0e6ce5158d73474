"""CoreService: what is known of the user. Whoever holds a runner's token has no way in here, and there is no other."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import grpc

from memsvc.errors import InvalidField
from memsvc.model import Fact, Scope
from memsvc.rpc import checks, convert
from memsvc.rpc.guard import caller
from memsvc.rpc.pages import Pager
from memsvc.rules import ids
from memsvc.rules.facts import MAX_FACTS, checked
from memsvc.rules.tags import disown
from memsvc.store import NewFact, Store
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

MAX_TEXT_BYTES = 4 << 10
"""What is read of a fact at all, in bytes of UTF-8; its 200 characters take at most a fifth of it."""

Call = grpc.aio.ServicerContext[Any, Any]


class CoreService(rpc.CoreServiceServicer):
    """Check, call, reply. `now_us` is the wall clock."""

    def __init__(self, store: Store, now_us: Callable[[], int]) -> None:
        self._store, self._now_us = store, now_us

    async def ListFacts(self, request: svc.ListFactsRequest, context: Call) -> svc.ListFactsResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        found = await self._store.list_facts(scope)
        return svc.ListFactsResponse(facts=[convert.fact(scope, f) for f in found], capacity=MAX_FACTS)

    async def CreateFact(self, request: svc.CreateFactRequest, context: Call) -> svc.CreateFactResponse:
        """See the contract."""
        scope, by = checks.scope(request.scope), _by(request.actor)
        change = await self._store.create_fact(
            scope, _new_fact(await self._text(scope, request.text), by), self._now_us()
        )
        return svc.CreateFactResponse(fact=convert.fact(scope, change.fact), evicted=_fact(scope, change.evicted))

    async def UpdateFact(self, request: svc.UpdateFactRequest, context: Call) -> svc.UpdateFactResponse:
        """See the contract."""
        scope, by = checks.scope(request.scope), _by(request.actor)
        fact_id = checks.required("fact_id", request.fact_id)
        fact = await self._store.update_fact(scope, fact_id, await self._text(scope, request.text), by, self._now_us())
        return svc.UpdateFactResponse(fact=convert.fact(scope, fact))

    async def DeleteFact(self, request: svc.DeleteFactRequest, context: Call) -> svc.DeleteFactResponse:
        """See the contract."""
        scope, by = checks.scope(request.scope), _by(request.actor)
        await self._store.delete_fact(scope, checks.required("fact_id", request.fact_id), by, self._now_us())
        return svc.DeleteFactResponse()

    async def ListCandidates(self, request: svc.ListCandidatesRequest, context: Call) -> svc.ListCandidatesResponse:
        """See the contract."""
        scope = checks.scope(request.scope)
        pager = Pager(self._store.secret, "candidates", scope)
        page = pager.page(request.page_token, request.page_size, 50, 200)
        found, after = await self._store.list_candidates(scope, page)
        return svc.ListCandidatesResponse(
            candidates=[convert.candidate(scope, c) for c in found], next_page_token=pager.token(after)
        )

    async def ConfirmCandidate(
        self, request: svc.ConfirmCandidateRequest, context: Call
    ) -> svc.ConfirmCandidateResponse:
        """See the contract."""
        scope, by = checks.scope(request.scope), _by(request.actor)
        candidate_id = checks.required("candidate_id", request.candidate_id)
        new = _new_fact(await self._text(scope, request.text) if request.text else "", by)
        change = await self._store.confirm_candidate(scope, candidate_id, new, self._now_us())
        return svc.ConfirmCandidateResponse(
            fact=convert.fact(scope, change.fact),
            superseded=_fact(scope, change.superseded),
            evicted=_fact(scope, change.evicted),
        )

    async def RejectCandidate(self, request: svc.RejectCandidateRequest, context: Call) -> svc.RejectCandidateResponse:
        """See the contract."""
        scope, by = checks.scope(request.scope), _by(request.actor)
        candidate_id = checks.required("candidate_id", request.candidate_id)
        await self._store.reject_candidate(scope, candidate_id, by, self._now_us())
        return svc.RejectCandidateResponse()

    async def _text(self, scope: Scope, value: str) -> str:
        """Returns a text that may be kept. On a thread: the first red line of a process takes half a second to get
        ready, and a hostile text most of a tenth.
        """
        text = await asyncio.to_thread(checked, checks.text("text", value, MAX_TEXT_BYTES))
        # It would be masked where it is shown, and what is kept is what is shown.
        if disown(text, ids.tag(self._store.secret, scope)) != text:
            raise InvalidField("text", "must not bear the tag of the frames around this scope's memory")
        return text


def _by(actor: str) -> str:
    """Returns who acts: the credential's name and the person that the call names, as `console/wang`."""
    return "/".join(part for part in (caller.get().name, checks.actor(actor)) if part)


def _new_fact(text: str, by: str) -> NewFact:
    return NewFact(f"f_{secrets.token_hex(8)}", text, by)


def _fact(scope: Scope, value: Fact | None) -> pb.Fact | None:
    return None if value is None else convert.fact(scope, value)
