"""Where one begins: the memory that was looked at last, or the choice of one."""

from __future__ import annotations

from collections.abc import Sequence

from memsvc_client import PermissionDenied, Scope, Unimplemented
from memsvc_client.services import OpsCalls
from starlette.responses import RedirectResponse, Response

from memsvc_console.daemon import one_page
from memsvc_console.scopes import decode_scope, parse_scope, scope_path
from memsvc_console.view import SCOPE_COOKIE, View, get_cookie, route

LISTED = 50


async def start(view: View) -> Response:
    """Goes to the memory that was seen last, or to the only one there is; else offers the choice."""
    settings = view.console.settings
    latest = next(iter(seen(view)), settings.scopes[0] if len(settings.scopes) == 1 else None)
    return RedirectResponse(scope_path(latest) + "/memory" if latest else "/scopes", 303)


async def choose(view: View) -> Response:
    """Offers the scopes of the settings, those seen before, and those that an admin's token may list."""
    typed = {name: view.param(name, 200) for name in ("tenant", "agent", "user")}
    wrong = False
    if typed["tenant"] or typed["agent"]:
        scope = parse_scope(typed["tenant"].strip(), typed["agent"].strip(), typed["user"].strip())
        if scope is not None:
            return RedirectResponse(scope_path(scope) + "/memory", 303)
        wrong = True
    listed, following = await _listed(view)
    first = [] if view.param("page") else [*seen(view), *view.console.settings.scopes]
    offers = [(scope, scope_path(scope) + "/memory") for scope in dict.fromkeys([*first, *listed])]
    return view.render(
        "scopes.html",
        422 if wrong else 200,
        offers=offers,
        following=following,
        paged=bool(view.param("page")),
        typed=typed,
        wrong=wrong,
    )


async def _listed(view: View) -> tuple[Sequence[Scope], str]:
    """A page of what an admin's token sees, and the token of the next. A reviewer's may not ask."""
    try:
        return await one_page(view.memory, OpsCalls.scopes.describe(None, page_size=LISTED), view.param("page"))
    except (PermissionDenied, Unimplemented):
        return [], ""


def seen(view: View) -> list[Scope]:
    """The scopes that this browser saw, the latest first."""
    words = get_cookie(view.request, SCOPE_COOKIE).split(",")
    return [scope for scope in map(decode_scope, words) if scope is not None]


ROUTES = [route("/", start), route("/scopes", choose)]
