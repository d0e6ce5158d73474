"""What a browser keeps of its person's wishes: language, appearance, and the name that goes along with decisions."""

from __future__ import annotations

from starlette.responses import Response

from memsvc_console.i18n import Words, is_language
from memsvc_console.sessions import Toast
from memsvc_console.view import (
    ACTOR_COOKIE,
    LANGUAGE_COOKIE,
    THEME_COOKIE,
    THEMES,
    View,
    local_path,
    read_actor,
    route,
    set_cookie,
)


async def save(view: View) -> Response:
    """Keeps what the form names, and goes back to the page that it was sent from."""
    form = await view.form()
    language, theme, actor = form.get("language", ""), form.get("theme", ""), form.get("actor")
    words = Words("zh" if language == "zh" else "en") if is_language(language) else view.words
    toast = Toast(words("app.saved"))
    if actor is not None and actor.strip() and not read_actor(actor):
        toast, actor = Toast(words("app.actor.long"), "problem"), None
    response = view.go(local_path(form.get("next", "/")), toast)
    if is_language(language):
        set_cookie(view.request, response, LANGUAGE_COOKIE, language)
    if theme in THEMES:
        set_cookie(view.request, response, THEME_COOKIE, theme)
    if actor is not None:
        set_cookie(view.request, response, ACTOR_COOKIE, read_actor(actor))
    return response


ROUTES = [route("/preferences", save, "POST")]
