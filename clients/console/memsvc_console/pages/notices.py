"""Notices: what the daemon wants said once, in the words of this console, until a person has taken note of it."""

from __future__ import annotations

from contextlib import suppress

from memsvc_client import NotFound
from starlette.responses import Response

from memsvc_console.sessions import Toast
from memsvc_console.view import View, scoped


async def notices(view: View) -> Response:
    """What has not been said yet: for htmx the banner of a page, else a page."""
    found = await view.memory.ops.notices(view.scope)
    return view.render("part_notices.html" if view.htmx else "notices.html", notices=found)


async def acknowledge(view: View) -> Response:
    """Takes note of one. Whoever was second has nothing left to do."""
    with suppress(NotFound):
        await view.memory.ops.acknowledge(view.scope, view.request.path_params["id"])
    if view.htmx:
        return await notices(view)
    return view.go(view.here("/notices"), Toast(view.words("notice.done")))


ROUTES = [scoped("/notices", notices), scoped("/notices/{id}", acknowledge, "POST")]
