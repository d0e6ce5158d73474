"""The only builder: settings → client → pages → what stands around them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from memsvc_console.agent import Agent
from memsvc_console.daemon import connect
from memsvc_console.pages import ROUTES, SECTIONS
from memsvc_console.problems import own_problem
from memsvc_console.security import HEADERS, Guard
from memsvc_console.sessions import Attempts, Sessions
from memsvc_console.settings import Settings
from memsvc_console.takeback import Takebacks
from memsvc_console.view import STATIC, Console, View, make_templates

log = logging.getLogger("memsvc_console")

BY_STATUS = {404: "missing", 405: "method"}


class Files(StaticFiles):
    """The static files. Their address changes with them, so they may be kept for ever."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """The file, with the header that says so."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]  # Handed on as it came.
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response


def create_app(settings: Settings, takebacks: Takebacks | None = None) -> Starlette:
    """The console as an ASGI application. It connects to the daemon when it is first asked for something."""
    sessions = Sessions()
    console = Console(
        settings=settings,
        memory=connect(settings, settings.token),
        sessions=sessions,
        attempts=Attempts(),
        takebacks=takebacks or Takebacks(),
        templates=make_templates(),
        sections=SECTIONS,
        agent=Agent(settings.chat, connect(settings, settings.chat.runner_token)) if settings.can_chat else None,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if console.agent is not None:
            console.agent.prepare()
        yield
        await console.takebacks.flush()
        if console.agent is not None:
            await console.agent.close()
        await console.memory.close()

    app = Starlette(
        routes=[*ROUTES, Mount("/static", Files(directory=STATIC))],
        middleware=[Middleware(Guard, settings=settings, sessions=sessions, refuse=refuse)],
        exception_handlers={HTTPException: no_page, Exception: crashed},
        lifespan=lifespan,
    )
    app.state.console = console
    return app


def refuse(request: Request, key: str, status: int) -> Response:
    """What the guard answers in place of a page."""
    view = View(request)
    if key == "login":
        # An action has no page to go back to; the one that it was taken on has.
        parts = request.headers.get("referer", "").split("/", 3)
        page = request.url.path if request.method == "GET" and not view.htmx else "/" + "".join(parts[3:])
        path = "/login?next=" + quote(page, safe="/")
        if view.htmx:
            return Response(status_code=401, headers={"hx-redirect": path})
        return RedirectResponse(path, 303)
    return view.problem(own_problem(key, view.words, status))


async def no_page(request: Request, error: Exception) -> Response:
    """An address or a method that no page has."""
    assert isinstance(error, HTTPException)
    if not hasattr(request.state, "session"):
        return Response(status_code=error.status_code)  # A static file: it has no session, and nobody reads its page.
    view = View(request)
    return view.problem(own_problem(BY_STATUS.get(error.status_code, "missing"), view.words, error.status_code))


async def crashed(request: Request, error: Exception) -> Response:
    """A fault of ours. Only its type and place are told: its text may quote what somebody wrote."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "?"
    log.error("failed: %s at %s", type(error).__name__, where)
    view = View(request)
    response = view.problem(own_problem("crashed", view.words, 500))
    # Starlette answers a fault outside the guard, which sets these for every other answer.
    response.headers.update(HEADERS | {"cache-control": "no-store"})
    return response
