"""What the inspector knows about a block besides its text: where each piece came from, and what recall made of the
input. Read from the daemon in a few calls, for the page of the inspector and for the panel beside a chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memsvc_client import AsyncMemory, Context, NotFound, Scope, SectionKind, ThreadNotInScope
from memsvc_client.services import ThreadCalls

from memsvc.v1 import memory_pb2 as pb
from memsvc_console.block import Part, Share, parts, shares
from memsvc_console.daemon import one_page

THRESHOLD = 0.2
"""What recall must score above to be shown to an agent; the contract's."""
SEARCHED = 20
MAX_LOOKED_UP = 40


@dataclass(frozen=True, slots=True)
class Found:
    """A past run that bears on the input. `fate` says what became of it: "shown" in the section of related history,
    "thread" (the conversation's own section shows it already), "below" the threshold, or "spare" (above it, but others
    came first or there was no room).
    """

    hit: pb.RecallHit
    fate: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """A block and what is known of it. `thread` is None for a new one; `facts` and `runs` by their ids."""

    context: Context
    parts: tuple[Part, ...]
    shares: tuple[Share, ...]
    reserved: int
    thread: pb.Thread | None
    facts: Mapping[str, pb.Fact] = field(default_factory=dict)
    runs: Mapping[str, pb.Run] = field(default_factory=dict)
    found: Sequence[Found] = ()


async def inspect(
    memory: AsyncMemory, scope: Scope, context: Context, user_input: str, reserved: int = 0
) -> Inspection:
    """Looks up what a block was made of. What was deleted meanwhile is left out."""
    hits: Sequence[pb.RecallHit] = ()
    thread, facts, hits = await asyncio.gather(
        find_thread(memory, scope, "" if context.thread_new else context.thread_id),
        _facts(memory, scope, context),
        _search(memory, scope, user_input),
    )
    runs = {hit.run.run_id: hit.run for hit in hits}
    runs |= await _runs(memory, scope, context, runs)
    return Inspection(
        context, parts(context), shares(context, reserved), reserved, thread, facts, runs, fates(context, hits)
    )


def fates(context: Context, hits: Sequence[pb.RecallHit]) -> tuple[Found, ...]:
    """What became of each hit of a search for the same input."""
    of_kind = {
        section.kind: {source.run_id for source in section.sources if source.run_id} for section in context.sections
    }
    in_thread, recalled = of_kind.get(SectionKind.THREAD, set()), of_kind.get(SectionKind.RECALL, set())

    def fate(hit: pb.RecallHit) -> str:
        if hit.run.run_id in recalled:
            return "shown"
        if hit.run.run_id in in_thread:
            return "thread"
        return "spare" if hit.score > THRESHOLD else "below"

    return tuple(Found(hit, fate(hit)) for hit in hits)


async def find_thread(memory: AsyncMemory, scope: Scope, thread_id: str) -> pb.Thread | None:
    """The thread; None for one that has no run yet, or no id."""
    if not thread_id:
        return None
    try:
        return await memory.threads.get(scope, thread_id)
    except ThreadNotInScope:
        return None


async def _facts(memory: AsyncMemory, scope: Scope, context: Context) -> dict[str, pb.Fact]:
    if not any(section.kind is SectionKind.CORE for section in context.sections):
        return {}
    return {fact.fact_id: fact for fact in (await memory.core.list_facts(scope)).facts}


async def _search(memory: AsyncMemory, scope: Scope, user_input: str) -> Sequence[pb.RecallHit]:
    if not user_input.strip():
        return ()
    return await memory.recall.search(scope, user_input, top_k=SEARCHED)


async def _runs(memory: AsyncMemory, scope: Scope, context: Context, known: Mapping[str, pb.Run]) -> dict[str, pb.Run]:
    """The runs that the block names and no search found: the newest of the thread in one call, the others singly."""
    found: dict[str, pb.Run] = {}
    named = [source.run_id for section in context.sections for source in section.sources if source.run_id]
    wanted = [run_id for run_id in dict.fromkeys(named) if run_id not in known]
    if wanted and not context.thread_new:
        described = ThreadCalls.runs.describe(
            None, scope, context.thread_id, newest_first=True, view=pb.RUN_VIEW_BASIC, page_size=len(named)
        )
        try:
            runs, _ = await one_page(memory, described)
        except ThreadNotInScope:
            runs = ()
        found = {run.run_id: run for run in runs}
    rest = [run_id for run_id in wanted if run_id not in found][:MAX_LOOKED_UP]
    for run in await asyncio.gather(*(_run(memory, scope, run_id) for run_id in rest)):
        if run is not None:
            found[run.run_id] = run
    return found


async def _run(memory: AsyncMemory, scope: Scope, run_id: str) -> pb.Run | None:
    try:
        return await memory.threads.get_run(scope, run_id)
    except NotFound:
        return None
