"""Taking a decision back before it is sent, and hearing of those that could not be sent."""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from memsvc_console.sessions import Toast
from memsvc_console.view import View, local_path, scoped


async def take_back(view: View) -> Response:
    """Forgets the decision; the page that the person is on shows again what it had left out."""
    form = await view.form()
    held = view.console.takebacks.take_back(view.scope, view.request.path_params["held"])
    toast = Toast(view.words("app.undone")) if held else Toast(view.words("app.undo.late"), "problem")
    if not view.htmx:
        return view.go(local_path(form.get("next", "")), toast)
    return HTMLResponse(view.fragment("part_toast.html", toast=toast), headers={"hx-trigger": "changed"})


async def failed(view: View) -> Response:
    """The toasts of what could not be sent, none where all went well. Asked for when the ten seconds are over."""
    toasts = "".join(view.fragment("part_toast.html", toast=toast) for toast in view.take_toasts())
    return HTMLResponse(toasts, headers={"hx-trigger": "changed"} if toasts else {})


ROUTES = [scoped("/takebacks", failed), scoped("/takebacks/{held}", take_back, "POST")]
