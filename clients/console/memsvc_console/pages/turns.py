"""One turn by itself, and the turns that a fact was drawn from."""

from __future__ import annotations

import asyncio

from memsvc_client import NotFound
from starlette.responses import Response

from memsvc.v1 import memory_pb2 as pb
from memsvc_console.pages.deciding import ask_first, decide
from memsvc_console.view import View, scoped

MAX_SOURCES = 6
DELETE = "delete_run"


async def turn(view: View) -> Response:
    """The whole of a turn."""
    run = await view.memory.threads.get_run(view.scope, view.request.path_params["id"])
    return view.render("part_turn.html" if view.htmx else "turn.html", run=run, number=0, whole=True)


async def sources(view: View) -> Response:
    """The turns named by `run`, at most six, without those that were deleted since."""
    named = view.request.query_params.getlist("run")
    found = await asyncio.gather(*(_find(view, run_id) for run_id in named[:MAX_SOURCES]))
    return view.render(
        "part_sources.html" if view.htmx else "sources.html",
        runs=[run for run in found if run is not None],
        gone=found.count(None),
        more=max(0, len(named) - MAX_SOURCES),
    )


async def _find(view: View, run_id: str) -> pb.Run | None:
    try:
        return await view.memory.threads.get_run(view.scope, run_id)
    except NotFound:
        return None


async def ask_delete(view: View) -> Response:
    """Asks whether a turn is to be deleted, where no script lets one take it back."""
    run = await view.memory.threads.get_run(view.scope, view.request.path_params["id"])
    return ask_first(view, "run.sure", run.input, view.words("thread.delete"), _thread_of(view, run))


async def delete(view: View) -> Response:
    """Deletes a turn."""
    run = await view.memory.threads.get_run(view.scope, view.request.path_params["id"])
    scope, threads = view.scope, view.memory.threads
    back = _thread_of(view, run)
    return await decide(view, DELETE, run.run_id, "run", run.input, lambda: threads.delete_run(scope, run.run_id), back)


def _thread_of(view: View, run: pb.Run) -> str:
    return view.here(f"/conversations/{run.thread_id}")


ROUTES = [
    scoped("/sources", sources),
    scoped("/runs/{id}", turn),
    scoped("/runs/{id}/delete", ask_delete),
    scoped("/runs/{id}/delete", delete, "POST"),
]
