"""From a request to a page: who asks, in which language, about whose memory, and the template that answers.

A page is a function of a `View`. `route` makes Starlette's route of it: the scope is read from the address, and a call
that the daemon refuses becomes a page (or, where htmx asked, a toast) that says what to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from memsvc_client import AsyncMemory, MemsvcError, PermissionDenied, Scope
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from memsvc.v1 import memory_pb2 as pb
from memsvc_console import i18n, times
from memsvc_console.agent import Agent
from memsvc_console.problems import Problem, problem_of
from memsvc_console.scopes import decode_scope, encode_scope, scope_path
from memsvc_console.sessions import Attempts, Session, Sessions, Toast
from memsvc_console.settings import MAX_ACTOR_CHARACTERS, Settings
from memsvc_console.takeback import Held, Takebacks

STATIC = Path(__file__).with_name("static")
YEAR_S = 365 * 86_400
MAX_FIELDS = 100
SAFE_IN_ADDRESS = "/?&=%#:@~+,;!$'()*"

LANGUAGE_COOKIE, THEME_COOKIE, ACTOR_COOKIE, SCOPE_COOKIE = "language", "theme", "actor", "scopes"
THEMES = ("auto", "light", "dark")


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation: its texts are under `nav.key`, its page is /s/…/key."""

    key: str


@dataclass(frozen=True, slots=True)
class Console:
    """What lives as long as the console; `agent` is None where no chat is set up."""

    settings: Settings
    memory: AsyncMemory
    sessions: Sessions
    attempts: Attempts
    takebacks: Takebacks
    templates: Environment
    sections: Sequence[Section]
    agent: Agent | None = None


def make_templates() -> Environment:
    """The templates. Everything is escaped unless it was made by a template itself; an unknown name is an error."""
    environment = Environment(
        loader=PackageLoader("memsvc_console", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = static_path
    environment.filters["coded"] = coded
    return environment


def coded(text: str) -> Markup:
    """A sentence with what stands `between backticks` set as code; all of it is escaped."""
    parts = (escape(part) for part in text.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


@cache
def static_path(name: str) -> str:
    """The address of a static file. It changes with the file, so that browsers may keep it for ever."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


class View:
    """One request, as pages see it. `scope` is whose memory the address names."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.console: Console = request.app.state.console
        self.session: Session = request.state.session
        accept = request.headers.get("accept-language", "")
        self.words = i18n.Words(i18n.choose(get_cookie(request, LANGUAGE_COOKIE), accept))
        theme = get_cookie(request, THEME_COOKIE)
        self.theme = theme if theme in THEMES else "auto"
        self.actor = read_actor(get_cookie(request, ACTOR_COOKIE)) or self.console.settings.actor
        self.notices: Sequence[pb.Notice] = ()
        self._scope: Scope | None = None

    @property
    def memory(self) -> AsyncMemory:
        """The client."""
        return self.console.memory

    @property
    def scope(self) -> Scope:
        """Whose memory this page is about; only for pages below /s/."""
        if self._scope is None:
            names = self.request.path_params
            self._scope = decode_scope("/".join(names.get(name, "") for name in ("tenant", "agent", "user")))
        if self._scope is None:
            raise HTTPException(404)
        return self._scope

    @property
    def has_scope(self) -> bool:
        """Whether the address names one."""
        return "tenant" in self.request.path_params

    @property
    def htmx(self) -> bool:
        """Whether htmx asks, for a piece of a page and not for a whole one."""
        return self.request.headers.get("hx-request") == "true"

    def here(self, suffix: str = "") -> str:
        """The address of a page of this scope, as `here("/memory")`."""
        return scope_path(self.scope) + suffix

    def param(self, name: str, most: int = 4096) -> str:
        """A parameter of the query; empty where it is missing or longer than `most` characters."""
        value = self.request.query_params.get(name, "")
        return value if len(value) <= most else ""

    async def form(self) -> dict[str, str]:
        """The fields of the form; line ends as the contract wants them."""
        try:
            pairs = parse_qsl(
                (await self.request.body()).decode("ascii"), True, True, errors="strict", max_num_fields=MAX_FIELDS
            )
        except ValueError:
            raise HTTPException(400) from None
        return {name: value.replace("\r\n", "\n") for name, value in pairs}

    def fragment(self, template: str, **values: Any) -> str:
        """A template as text."""
        return self.console.templates.get_template(template).render(self._context() | values)

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """A template as the answer."""
        return HTMLResponse(self.fragment(template, **values), status, {"vary": "Accept-Language"})

    def go(self, path: str, toast: Toast | None = None) -> Response:
        """Sends the browser to another page, which shows the toast."""
        if toast is not None:
            self.session.say(toast)
        if self.htmx:
            return Response(status_code=204, headers={"hx-redirect": quote(path, safe=SAFE_IN_ADDRESS)})
        return RedirectResponse(path, 303)

    def done(self, toast: Toast, path: str) -> Response:
        """Says what an action did: in a toast where htmx asked, and lists of the page are read anew; else on `path`."""
        if not self.htmx:
            return self.go(path, toast)
        return self._toast(self.fragment("part_toast.html", toast=toast), 200, {"hx-trigger": "changed"})

    def held(self, held: Held) -> Response:
        """Says that a decision waits and can be taken back; lists of the page are read anew, and leave it out."""
        left = round(held.left_s(self.console.takebacks.clock()))
        toast = self.fragment("part_waiting.html", id=held.id, label=held.label, left=left)
        return self._toast(toast, 200, {"hx-trigger": "changed"})

    def _toast(self, toast: str, status: int, headers: dict[str, str]) -> Response:
        return HTMLResponse(toast, status, {"hx-retarget": "#toasts", "hx-reswap": "beforeend"} | headers)

    def problem(self, problem: Problem) -> Response:
        """A page that says what went wrong; a toast where htmx asked."""
        if not self.htmx:
            return self.render("problem.html", problem.status, problem=problem)
        toast = Toast(problem.title, "problem", problem.advice)
        headers = {"hx-trigger": "changed"} if problem.key == "gone" else {}
        return self._toast(self.fragment("part_toast.html", toast=toast), problem.status, headers)

    def problem_of(self, error: MemsvcError) -> Problem:
        """What a failed call means, in this reader's language."""
        return problem_of(error, self.words, self.console.settings.daemon)

    def _context(self) -> dict[str, Any]:
        scope = self.scope if self.has_scope and self._is_scope() else None
        zone = self.console.settings.time_zone
        return {
            "t": self.words,
            "language": self.words.language,
            "languages": i18n.LANGUAGES,
            "theme": self.theme,
            "themes": THEMES,
            "actor": self.actor,
            "csrf": self.session.csrf,
            "can_log_out": self.session.logged_in_s is not None,
            "scope": scope,
            "notices": self.notices,
            "base": scope_path(scope) if scope else "",
            "sections": self.console.sections if scope else (),
            "here": self.request.url.path,
            "this_page": self.request.url.path + ("?" + self.request.url.query if self.request.url.query else ""),
            "htmx": self.htmx,
            "take_toasts": self.take_toasts,
            "waiting": lambda: self._waiting(scope),
            "when": lambda stamp: times.when(stamp, zone, self.words),
            "date": lambda stamp: times.date(stamp, zone, self.words),
            "query": lambda **values: urlencode({name: value for name, value in values.items() if value}),
        }

    def _is_scope(self) -> bool:
        try:
            return self.scope is not None
        except HTTPException:
            return False

    def take_toasts(self) -> list[Toast]:
        """What this page has to tell: once each."""
        toasts = self.session.take_toasts()
        if self.has_scope and self._is_scope():
            for failed in self.console.takebacks.take_failed(self.scope):
                problem = self.problem_of(failed.error)
                toasts.append(Toast(f"{failed.held.label} — {problem.title}", "problem", problem.advice))
        return toasts

    def _waiting(self, scope: Scope | None) -> list[tuple[str, str, int]]:
        """What can be taken back: id, label, whole seconds left."""
        if scope is None:
            return []
        takebacks = self.console.takebacks
        now_s = takebacks.clock()
        return [(held.id, held.label, round(held.left_s(now_s))) for held in takebacks.waiting(scope)]


Endpoint = Callable[[View], Awaitable[Response]]


def route(path: str, endpoint: Endpoint, *methods: str) -> Route:
    """The route of a page; GET unless other methods are named."""

    async def answer(request: Request) -> Response:
        view = View(request)
        try:
            if view.has_scope:
                remember = view.scope
                if request.method == "GET" and not view.htmx:
                    view.notices = await unsaid(view)
            response = await endpoint(view)
            if view.has_scope and request.method == "GET" and not view.htmx and response.status_code == 200:
                remember_scope(request, response, remember)
        except MemsvcError as error:
            return view.problem(view.problem_of(error))
        return response

    return Route(path, answer, methods=list(methods) or ["GET"])


async def unsaid(view: View) -> Sequence[pb.Notice]:
    """What the daemon wants said once and nobody has taken note of yet; nothing where the role is too low to ask."""
    try:
        return await view.memory.ops.notices(view.scope)
    except PermissionDenied:
        return ()


def scoped(path: str, endpoint: Endpoint, *methods: str) -> Route:
    """The route of a page of a scope: `scoped("/memory", page)` is /s/{tenant}/{agent}/{user}/memory."""
    return route("/s/{tenant}/{agent}/{user}" + path, endpoint, *methods)


def get_cookie(request: Request, name: str) -> str:
    """A preference of the browser; empty where it has none."""
    return unquote(request.cookies.get(name, ""))


def set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    """Keeps a preference of the browser for a year."""
    settings: Settings = request.app.state.console.settings
    secure = settings.origin.startswith("https:")
    response.set_cookie(name, quote(value, safe=""), max_age=YEAR_S, httponly=True, samesite="lax", secure=secure)


def remember_scope(request: Request, response: Response, scope: Scope) -> None:
    """Keeps the scopes that this browser saw last, the latest first, at most eight."""
    words = get_cookie(request, SCOPE_COOKIE).split(",")
    latest = encode_scope(scope)
    if words[0] != latest:
        set_cookie(request, response, SCOPE_COOKIE, ",".join([latest, *(w for w in words if w and w != latest)][:8]))


def read_actor(text: str) -> str:
    """A person's name as the contract takes it; empty where the text is none."""
    name = text.strip()
    return name if len(name) <= MAX_ACTOR_CHARACTERS and name.isprintable() else ""


def local_path(text: str) -> str:
    """A path of this console; `/` for whatever else a form or a link may name."""
    fine = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and len(text) <= 4096
    return text if fine else "/"
