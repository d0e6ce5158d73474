"""The conversations: the list beside the one that is open, its turns as a chat, and what can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memsvc_client.services import ThreadCalls
from starlette.responses import RedirectResponse, Response

from memsvc.v1 import memory_pb2 as pb
from memsvc_console.daemon import one_page
from memsvc_console.pages import turns
from memsvc_console.pages.deciding import ask_first, decide
from memsvc_console.sessions import Toast
from memsvc_console.view import View, scoped

THREADS, TURNS = 20, 20
MAX_QUERY_CHARACTERS = 200
DELETE = "delete_thread"


@dataclass(frozen=True, slots=True)
class Turn:
    """A run in a conversation: `number` counts from 1, and `covered` says whether the summary covers it."""

    run: pb.Run
    number: int
    covered: bool


async def conversations(view: View) -> Response:
    """Goes on with the latest active conversation; the list alone where it was asked for or nothing is there."""
    if not any(view.param(name) for name in ("q", "archived", "page", "list")):
        threads, _ = await one_page(view.memory, ThreadCalls.list.describe(None, view.scope, page_size=THREADS))
        latest = next(iter(_without(view, threads)), None)
        if latest is not None and not view.htmx:
            return RedirectResponse(view.here(f"/conversations/{latest.thread_id}#latest"), 303)
    return view.render("conversations.html", thread=None, **await _listed(view))


async def conversation(view: View) -> Response:
    """One conversation, its newest turns first, beside the list."""
    thread_id = view.request.path_params["id"]
    described = ThreadCalls.runs.describe(
        None, view.scope, thread_id, newest_first=True, view=pb.RUN_VIEW_BASIC, page_size=TURNS
    )
    thread, (runs, older), listed = await asyncio.gather(
        view.memory.threads.get(view.scope, thread_id),
        one_page(view.memory, described, view.param("older")),
        _listed(view),
    )
    seen = int(view.param("seen", 9)) if view.param("seen", 9).isdecimal() else 0
    hidden = view.console.takebacks.hidden(view.scope, turns.DELETE)
    first = thread.run_count - seen
    shown = [
        Turn(run, first - at, first - at <= thread.summarized_run_count)
        for at, run in enumerate(runs)
        if run.run_id not in hidden
    ]
    return view.render(
        "conversations.html",
        thread=thread,
        turns=shown[::-1],
        older=older,
        seen=seen + len(runs),
        paged=bool(view.param("older")),
        can_chat=view.console.agent is not None,
        **listed,
    )


async def _listed(view: View) -> dict[str, Any]:
    """What the list shows: a page of threads, newest activity first."""
    query, archived = view.param("q", MAX_QUERY_CHARACTERS).strip(), bool(view.param("archived"))
    threads, following = await one_page(
        view.memory,
        ThreadCalls.list.describe(None, view.scope, query=query, include_archived=archived, page_size=THREADS),
        view.param("page"),
    )
    return {
        "threads": _without(view, threads),
        "following": following,
        "listed_from": view.param("page"),
        "asked": query,
        "archived": archived,
    }


def _without(view: View, threads: Sequence[pb.Thread]) -> list[pb.Thread]:
    """The threads that nobody has just deleted."""
    hidden = view.console.takebacks.hidden(view.scope, DELETE)
    return [thread for thread in threads if thread.thread_id not in hidden]


async def begin(view: View) -> Response:
    """The id of a new conversation. Nothing is kept until a run is recorded under it."""
    context = await view.memory.get_context(view.scope, preview=True)
    return view.render("new.html", thread_id=context.thread_id, can_chat=view.console.agent is not None)


async def rename(view: View) -> Response:
    """Gives the conversation another title."""
    title = " ".join((await view.form()).get("title", "").split())
    thread = await view.memory.threads.rename(view.scope, view.request.path_params["id"], title)
    return view.go(_address(view, thread), Toast(view.words("thread.done.renamed")))


async def archive(view: View) -> Response:
    """Hides the conversation from the list."""
    thread = await view.memory.threads.archive(view.scope, view.request.path_params["id"])
    return view.go(_address(view, thread), Toast(view.words("thread.done.archived")))


async def unarchive(view: View) -> Response:
    """Brings the conversation back into the list."""
    thread = await view.memory.threads.unarchive(view.scope, view.request.path_params["id"])
    return view.go(_address(view, thread), Toast(view.words("thread.done.unarchived")))


async def ask_delete(view: View) -> Response:
    """Asks whether the conversation is to be deleted, where no script lets one take it back."""
    thread = await view.memory.threads.get(view.scope, view.request.path_params["id"])
    return ask_first(view, "thread.sure", thread.title, view.words("thread.delete"), _address(view, thread))


async def delete(view: View) -> Response:
    """Deletes the conversation. Held, it is out of the list at once, and the next one is opened."""
    thread = await view.memory.threads.get(view.scope, view.request.path_params["id"])
    scope, threads = view.scope, view.memory.threads
    back = view.here("/conversations")
    answer = await decide(
        view,
        DELETE,
        thread.thread_id,
        "thread",
        thread.title or thread.thread_id,
        lambda: threads.delete(scope, thread.thread_id),
        back,
    )
    return view.go(back) if view.htmx else answer


def _address(view: View, thread: pb.Thread) -> str:
    return view.here(f"/conversations/{thread.thread_id}")


ROUTES = [
    scoped("/conversations", conversations),
    scoped("/conversations/new", begin),
    scoped("/conversations/{id}", conversation),
    scoped("/conversations/{id}/rename", rename, "POST"),
    scoped("/conversations/{id}/archive", archive, "POST"),
    scoped("/conversations/{id}/unarchive", unarchive, "POST"),
    scoped("/conversations/{id}/delete", ask_delete),
    scoped("/conversations/{id}/delete", delete, "POST"),
]
