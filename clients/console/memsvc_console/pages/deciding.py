"""What cannot be undone later: held for ten seconds where a script shows how to take it back, and asked for first where
none runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from memsvc_console.sessions import Toast
from memsvc_console.view import View

SHOWN = 80


def ask_first(view: View, key: str, text: str, submit: str, back: str) -> Response:
    """The page that asks; its form is sent to the address that it stands at."""
    return view.render("sure.html", key=key, text=text, submit=submit, back=back)


async def decide(
    view: View,
    kind: str,
    target: str,
    texts: str,
    text: str,
    send: Callable[[], Awaitable[object]],
    back: str,
) -> Response:
    """Holds a decision on `text` where htmx asked, and sends it at once where a confirming page did.

    `texts` is the area of the texts, as "memory" for `memory.held.reject`; `back` the page to go on with.
    """
    verb = "reject" if kind == "reject" else "delete"
    shown = shorten(text)
    if view.htmx:
        label = view.words(f"{texts}.held.{verb}", text=shown)
        held = view.console.takebacks.hold(view.scope, kind, target, label, send)
        return view.held(held)
    await send()
    done = "rejected" if verb == "reject" else "deleted"
    return view.done(Toast(view.words(f"{texts}.done.{done}", text=shown)), back)


def shorten(text: str) -> str:
    """A text on one line, of at most 80 characters."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
