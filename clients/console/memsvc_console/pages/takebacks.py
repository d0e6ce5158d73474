"""Taking a decision back before it is sent."""

from __future__ import annotations

from starlette.responses import Response

from memsvc_console.sessions import Toast
from memsvc_console.view import View, local_path, scoped


async def take_back(view: View) -> Response:
    """Forgets the decision, and shows the page again that the person is on."""
    form = await view.form()
    held = view.console.takebacks.take_back(view.scope, view.request.path_params["held"])
    toast = Toast(view.words("app.undone")) if held else Toast(view.words("app.undo.late"), "problem")
    return view.go(local_path(form.get("next", "")), toast)


ROUTES = [scoped("/takebacks/{held}", take_back, "POST")]
