"""The door, where the console has a password: it opens for twelve hours."""

from __future__ import annotations

import asyncio

from starlette.responses import RedirectResponse, Response

from memsvc_console.passwords import matches
from memsvc_console.view import View, local_path, route


async def ask(view: View) -> Response:
    """The form."""
    target = local_path(view.param("next"))
    if not view.console.settings.password_hash or view.console.sessions.knows(view.session):
        return RedirectResponse(target, 303)
    return view.render("login.html", target=target, problem="")


async def enter(view: View) -> Response:
    """Compares the password; a new session follows, so that nobody holds one that was made before."""
    console = view.console
    form = await view.form()
    target = local_path(form.get("next", "/"))
    client = view.request.client
    if not console.settings.password_hash:
        return RedirectResponse(target, 303)
    if not console.attempts.allow(client.host if client else ""):
        return view.render("login.html", 429, target=target, problem=view.words("login.slow"))
    if not await asyncio.to_thread(matches, form.get("password", ""), console.settings.password_hash):
        return view.render("login.html", 401, target=target, problem=view.words("login.wrong"))
    console.sessions.end(view.session)
    view.request.state.session = console.sessions.begin(logged_in=True)
    return RedirectResponse(target, 303)


async def leave(view: View) -> Response:
    """Ends the session."""
    view.console.sessions.end(view.session)
    view.request.state.session = view.console.sessions.begin()
    return RedirectResponse("/login", 303)


ROUTES = [route("/login", ask), route("/login", enter, "POST"), route("/logout", leave, "POST")]
