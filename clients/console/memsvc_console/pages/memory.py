"""The memory page: what waits for a decision beside what is confirmed."""

from __future__ import annotations

from memsvc_client.services import CoreCalls
from starlette.responses import Response

from memsvc_console.daemon import one_page
from memsvc_console.view import View, scoped

PAGE = 20


async def memory(view: View) -> Response:
    """Both columns."""
    facts = await view.memory.core.list_facts(view.scope)
    candidates, _ = await one_page(
        view.memory, CoreCalls.candidates.describe(None, view.scope, page_size=PAGE), view.param("page")
    )
    return view.render("memory.html", facts=facts.facts, capacity=facts.capacity, candidates=candidates)


ROUTES = [scoped("/memory", memory)]
