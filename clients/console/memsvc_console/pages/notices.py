"""Notices: what the daemon wants said once stands on every page, until a person has taken note of it."""

from __future__ import annotations

from contextlib import suppress

from memsvc_client import NotFound
from starlette.responses import Response

from memsvc_console.sessions import Toast
from memsvc_console.view import View, local_path, scoped, unsaid


async def acknowledge(view: View) -> Response:
    """Takes note of one. Whoever was second has nothing left to do."""
    form = await view.form()
    with suppress(NotFound):
        await view.memory.ops.acknowledge(view.scope, view.request.path_params["id"])
    if view.htmx:
        return view.render("part_notices.html", notices=await unsaid(view))
    return view.go(local_path(form.get("next", "")), Toast(view.words("notice.done")))


ROUTES = [scoped("/notices/{id}", acknowledge, "POST")]
