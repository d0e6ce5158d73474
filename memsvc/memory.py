"""The request path: what GetContext and RecordRun do between wire and store. One hop each, no model, no waiting.

What is pure and heavy is done before the write and after the read, on a thread of its own where it holds up others.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from memsvc.config import Settings
from memsvc.model import BASIC_VIEW_BYTES, NewRun, Run, RunOutcome, Scope
from memsvc.rules import ids
from memsvc.rules.budget import DEFAULT_BUDGET
from memsvc.rules.context import Ask, Block, render
from memsvc.rules.courtesy import is_courtesy
from memsvc.rules.derived import derive, spoken_in
from memsvc.rules.frames import leading_block
from memsvc.rules.shown import Renderer, title
from memsvc.rules.snippet import snippet
from memsvc.rules.terms import query_terms
from memsvc.store import PreparedRun, Question, Recorded, Store, ThreadRef

INLINE_CHARACTERS = 16_384
"""Texts up to this are worked on at once; longer ones on a thread, so that no other call waits for them."""

DEFAULT_RECALL_TOP_K = 3


@dataclass(frozen=True, slots=True)
class ContextQuery:
    """A checked GetContext; zeros and empty texts stand for the defaults."""

    ref: ThreadRef
    input: str
    token_budget: int = 0
    reserved_tokens: int = 0
    knowledge: str = ""
    recall_top_k: int = 0
    locale: str = ""
    time_zone: str = ""
    preview: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """The answer: a thread id, minted where there was none, and the block."""

    thread_id: str
    thread_new: bool
    block: Block


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A past run, its relevance from 0 to 1, and why: the passage that matched best."""

    run: Run
    score: float
    snippet: str


@dataclass(frozen=True)
class Memory:
    """The use cases. `recorded` is told of every new run, `shown` of the facts that stood in a block."""

    store: Store
    renderer: Renderer
    settings: Settings
    now_us: Callable[[], int]
    recorded: Callable[[Scope, Recorded, RunOutcome], None]
    shown: Callable[[Scope, Sequence[str]], None]

    async def get_context(self, scope: Scope, query: ContextQuery) -> Context:
        """Returns what the agent should remember for this input. Writes nothing. ThreadNotInScope, Deleted."""
        top_k = query.recall_top_k or DEFAULT_RECALL_TOP_K
        terms = [] if is_courtesy(query.input) else query_terms(query.input)
        read = await self.store.read_context(scope, query.ref, Question(terms, top_k))
        ask = Ask(
            locale=query.locale or read.locale or spoken_in(query.input, self.settings.locale),
            tag=ids.tag(self.store.secret, scope),
            token_limit=max(0, (query.token_budget or DEFAULT_BUDGET) - query.reserved_tokens),
            knowledge=query.knowledge,
            recall_top_k=top_k,
            terms=terms,
            time_zone=ZoneInfo(query.time_zone or self.settings.time_zone),
        )
        if len(query.knowledge) > INLINE_CHARACTERS:
            block = await asyncio.to_thread(render, read.memory, ask, self.renderer.meter)
        else:
            block = render(read.memory, ask, self.renderer.meter)
        if not query.preview and (
            fact_ids := [s.fact_id for part in block.sections for s in part.sources if s.fact_id]
        ):
            self.shown(scope, fact_ids)
        return Context(read.thread_id or self._mint(scope), read.thread_new, block)

    async def search(self, scope: Scope, query: str, top_k: int, min_score: float) -> list[SearchHit]:
        """Returns past runs that bear on `query`, best first, each with the passage that does most."""
        terms = query_terms(query)
        found = await self.store.search(scope, terms, top_k, min_score, BASIC_VIEW_BYTES)
        words = {term.term for term in terms}
        return await asyncio.to_thread(
            lambda: [SearchHit(f.run, f.score, snippet((f.own_input, f.output), words)) for f in found]
        )

    async def record_run(self, scope: Scope, ref: ThreadRef, run: NewRun) -> Recorded:
        """Records a finished run, durably. ThreadNotInScope, RunConflict, Deleted."""
        if len(run.input) + len(run.output) > INLINE_CHARACTERS:
            prepared = await asyncio.to_thread(self._prepare, scope, run)
        else:
            prepared = self._prepare(scope, run)
        write = asyncio.ensure_future(self._write(scope, ref, prepared, run.outcome))
        # A caller who leaves in mid-write may leave a run behind, and whoever folds is to hear of it all the same.
        return await asyncio.shield(write)

    async def _write(self, scope: Scope, ref: ThreadRef, prepared: PreparedRun, outcome: RunOutcome) -> Recorded:
        recorded = await self.store.record_run(scope, ref, prepared, self.now_us())
        if recorded.created:
            self.recorded(scope, recorded, outcome)
        return recorded

    def _prepare(self, scope: Scope, run: NewRun) -> PreparedRun:
        own_offset = leading_block(run.input, ids.tag(self.store.secret, scope))
        own_input = run.input[own_offset:]
        ended_us = self.now_us() if run.ended_us is None else run.ended_us
        zone, locale = ZoneInfo(self.settings.time_zone), self.settings.locale
        made = derive(own_input, run.output, run.outcome, ended_us, self.renderer, zone, locale)
        return PreparedRun(
            run=run,
            fresh_thread_id=self._mint(scope),
            title=title(own_input),
            locale=made.locale,
            own_offset=own_offset,
            renderer=self.renderer.renderer_id,
            whole=made.whole,
            shown=made.shown,
            terms=made.terms,
        )

    def _mint(self, scope: Scope) -> str:
        return ids.mint_thread_id(self.store.secret, scope, secrets.token_bytes(ids.NAME_BYTES))
