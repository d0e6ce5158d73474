"""Chat: a conversation with an agent that remembers, and beside it what memory does meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from memsvc_client import MemsvcError, Outcome
from memsvc_client.services import CoreCalls, ThreadCalls
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memsvc.v1 import memory_pb2 as pb
from memsvc_console.agent import Busy, Ended, Event, Given, Piece, Talk
from memsvc_console.daemon import one_page
from memsvc_console.inspection import find_thread, inspect
from memsvc_console.pages.context import drawn
from memsvc_console.problems import Problem, own_problem
from memsvc_console.sessions import Toast
from memsvc_console.view import View, scoped

TURNS, CANDIDATES = 10, 5
STREAM = "application/x-ndjson"
"""One JSON value a line; what chat.js asks for."""


@dataclass(frozen=True, slots=True)
class Need:
    """A setting of the chat, and whether it is there."""

    name: str
    is_set: bool


def needs(view: View) -> tuple[Need, ...]:
    """What the chat cannot do without."""
    settings = view.console.settings
    found = [Need("CHAT_BASE_URL", bool(settings.chat.base_url)), Need("CHAT_MODEL", bool(settings.chat.model))]
    if settings.token:
        found.append(Need("RUNNER_TOKEN_FILE", bool(settings.chat.runner_token)))
    return tuple(found)


async def chat(view: View) -> Response:
    """The page: the conversation that is named, or the latest one, or a new one; or what is missing for a chat."""
    if view.console.agent is None:
        return view.render("chat_setup.html", needs=needs(view))
    wanted = view.param("thread", 64)
    thread = await find_thread(view.memory, view.scope, wanted)
    if not wanted and not view.param("new", 1):
        latest, _ = await one_page(view.memory, ThreadCalls.list.describe(None, view.scope, page_size=1))
        thread = next(iter(latest), None)
    runs: list[pb.Run] = []
    if thread is not None:
        described = ThreadCalls.runs.describe(
            None, view.scope, thread.thread_id, newest_first=True, view=pb.RUN_VIEW_BASIC, page_size=TURNS
        )
        runs = list((await one_page(view.memory, described))[0])[::-1]
    return view.render(
        "chat.html",
        thread_id=thread.thread_id if thread else wanted,
        runs=runs,
        earlier=thread.run_count - len(runs) if thread else 0,
        model=view.console.settings.chat.model,
        **await remembered(view, thread),
    )


async def memory(view: View) -> Response:
    """What memory has made of the conversation so far."""
    thread = await find_thread(view.memory, view.scope, view.param("thread", 64))
    return view.render("part_remembered.html", **await remembered(view, thread))


async def remembered(view: View, thread: pb.Thread | None) -> dict[str, Any]:
    """The summary, the facts and what is proposed, and whether work is still owed."""
    (proposed, more), facts, owed = await asyncio.gather(
        one_page(view.memory, CoreCalls.candidates.describe(None, view.scope, page_size=CANDIDATES)),
        view.memory.core.list_facts(view.scope),
        view.memory.ops.worker_status(view.scope),
    )
    return {
        "thread": thread,
        "proposed": proposed,
        "more_proposed": bool(more),
        "facts": facts.facts,
        "capacity": facts.capacity,
        "owed": owed,
    }


async def say(view: View) -> Response:
    """One turn. Streamed where the script asks for it, else the page again when the answer is there."""
    agent = view.console.agent
    form = await view.form()
    said, thread_id = form.get("input", "").strip(), form.get("thread_id", "").strip()
    if agent is None or not said:
        return view.go(_address(view, thread_id))
    try:
        talk = agent.begin(view.scope, thread_id, said, view.console.settings.time_zone.key)
    except Busy:
        return view.problem(own_problem("busy", view.words, 503))
    if STREAM in view.request.headers.get("accept", ""):
        headers = {"x-accel-buffering": "no"}
        return StreamingResponse(_lines(view, talk, said), media_type=STREAM, headers=headers)
    ended = Ended(Outcome.FAILED)
    async for event in talk.events():
        if isinstance(event, Ended):
            ended = event
    problem = problem_of(view, ended)
    toast = Toast(problem.title, "problem", problem.advice) if problem else None
    return view.go(_address(view, ended.thread_id or thread_id) + "#say", toast)


async def stop(view: View) -> Response:
    """Stops an answer."""
    if agent := view.console.agent:
        agent.stop((await view.form()).get("talk", ""))
    return Response(status_code=204)


def problem_of(view: View, ended: Ended) -> Problem | None:
    """What went wrong with an answer, None where nothing did."""
    if ended.error is not None:
        return view.problem_of(ended.error)
    if ended.reason:
        advice = view.words.get(f"reason.{ended.reason}", "reason.other") + " " + view.words("chat.failed.do")
        return Problem("model", view.words("chat.failed"), advice, 502, ended.reason)
    return None


async def _lines(view: View, talk: Talk, said: str) -> AsyncIterator[str]:
    """The events as lines of JSON, for as long as somebody reads them."""
    gone = asyncio.create_task(_gone(view.request, talk))
    try:
        async for event in talk.events():
            yield json.dumps(await _told(view, talk, event, said), ensure_ascii=False) + "\n"
    finally:
        gone.cancel()
        talk.stop()


async def _gone(request: Request, talk: Talk) -> None:
    """Stops the answer when the reader has left: with a model that says nothing, sending would not tell."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    talk.stop()


async def _told(view: View, talk: Talk, event: Event, said: str) -> dict[str, Any]:
    match event:
        case Given(context):
            try:
                seen = await inspect(view.memory, view.scope, context, said)
                html = view.fragment("part_given.html", **drawn(seen))
            except MemsvcError:
                html = ""  # The answer goes on; what it was given can be looked at later.
            return {"kind": "given", "talk": talk.id, "html": html}
        case Piece(text):
            return {"kind": "piece", "text": text}
        case Ended():
            return await _ending(view, event)


async def _ending(view: View, ended: Ended) -> dict[str, Any]:
    problem = problem_of(view, ended)
    told: dict[str, Any] = {"kind": "end", "thread": ended.thread_id, "html": "", "problem": None}
    if problem is not None:
        told["problem"] = {"title": problem.title, "advice": problem.advice}
    if ended.thread_id and ended.error is None:
        try:
            run = await view.memory.threads.get_run(view.scope, ended.run_id)
            told["html"] = view.fragment("part_said.html", run=run)
        except MemsvcError:
            pass  # It is recorded; the page shows it when it is loaded again.
    return told


def _address(view: View, thread_id: str) -> str:
    return view.here("/chat") + (f"?thread={thread_id}" if thread_id else "")


ROUTES = [
    scoped("/chat", chat),
    scoped("/chat", say, "POST"),
    scoped("/chat/stop", stop, "POST"),
    scoped("/chat/memory", memory),
]
