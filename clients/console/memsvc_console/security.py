"""What stands around every page: only our own address, bounded bodies, no forged requests, and headers that say what a
browser may do. Also the one line of log per request, which holds no content: no query, no form, no name.
"""

from __future__ import annotations

import hmac
import logging
import re
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc_console.sessions import Session, Sessions
from memsvc_console.settings import LOOPBACK, Settings

log = logging.getLogger("memsvc_console")

MAX_BODY_BYTES = 2 * 1024 * 1024
CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
SAFE = {"GET", "HEAD"}
OPEN_PATHS = re.compile(r"/(login|preferences|static/.*)")
"""What may be asked for before the password is given."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With "no-referrer" browsers send "Origin: null" with our own forms, and the check below would be blind.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

Refuse = Callable[[Request, str, int], ASGIApp]
"""Makes the page that explains a refusal: the request, a key of the problems, a status."""


class Guard:
    """The innermost of what stands around the pages; see the module.

    `refuse` renders a refusal. The session of the request is in `request.state.session` for all that comes after.
    """

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions, refuse: Refuse) -> None:
        self.app, self.settings, self.sessions, self.refuse = app, settings, sessions, refuse
        self.cookie = f"memsvc-console-{settings.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        if scope["method"] in SAFE and scope["path"].startswith("/static/"):
            await self.app(scope, receive, self._with_headers(scope, None, send))
            return
        found = self.sessions.find(request.cookies.get(self.cookie, ""))
        session = found or self.sessions.begin()
        scope.setdefault("state", {})["session"] = session
        sender = self._with_headers(scope, session, send)
        if not self._is_our_host(request):
            await self.refuse(request, "host", 421)(scope, receive, sender)
            return
        if scope["method"] not in SAFE:
            body = await self._body(request)
            if body is None:
                await self.refuse(request, "body", 413)(scope, receive, sender)
                return
            if not self._is_our_form(request, session, body):
                await self.refuse(request, "forged", 403)(scope, receive, sender)
                return
            receive = _replay(body, receive)
        if self.settings.password_hash and not self.sessions.knows(session) and not OPEN_PATHS.fullmatch(scope["path"]):
            await self.refuse(request, "login", 401)(scope, receive, sender)
            return
        await self.app(scope, receive, sender)

    def _is_our_host(self, request: Request) -> bool:
        """A name that an attacker made to point at 127.0.0.1 is not ours; what the browser was told is in Host."""
        host = request.headers.get("host", "")
        if self.settings.origin and host == urlsplit(self.settings.origin).netloc:
            return True
        name = re.sub(r":[0-9]{1,5}$", "", host)
        if self.settings.on_loopback:
            return LOOPBACK.fullmatch(name) is not None
        return bool(name) and (not self.settings.origin or LOOPBACK.fullmatch(name) is not None)

    async def _body(self, request: Request) -> bytes | None:
        """The whole body; None where it is larger than 2 MiB."""
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > 10 or int(declared) > MAX_BODY_BYTES:
            return None
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                return None
        return bytes(body)

    def _is_our_form(self, request: Request, session: Session, body: bytes) -> bool:
        """Whether our own page sent it: by what the browser says of its origin, and by the session's secret word."""
        headers = request.headers
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return False
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and origin not in {f"http://{host}", f"https://{host}", self.settings.origin or None}:
            return False
        if headers.get("content-type", "").partition(";")[0].strip() not in {"", "application/x-www-form-urlencoded"}:
            return False
        word = headers.get(CSRF_HEADER) or _field(body, CSRF_FIELD)
        return hmac.compare_digest(word.encode(), session.csrf.encode())

    def _with_headers(self, scope: Scope, session: Session | None, send: Send) -> Send:
        """`send`, with our headers, the session's cookie where the browser has another, and a line in the log."""
        began_s = time.monotonic()
        secure = "; Secure" if self.settings.origin.startswith("https:") else ""

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if session is not None:
                    headers.setdefault("cache-control", "no-store")
                    headers.add_vary_header("Cookie")
                    now: Session = scope["state"]["session"]  # another one than before, where it has just logged in
                    if Request(scope).cookies.get(self.cookie) != now.id:
                        headers.append("set-cookie", f"{self.cookie}={now.id}; Path=/; HttpOnly; SameSite=Lax{secure}")
                route = getattr(scope.get("route"), "path", "-")
                took_ms = (time.monotonic() - began_s) * 1000
                log.info("%s %s %d %.0f ms", scope["method"], route, message["status"], took_ms)
            await send(message)

        return sender


def _field(body: bytes, name: str) -> str:
    """A field of a form; empty where the body is none."""
    try:
        return parse_qs(body.decode("ascii"), max_num_fields=100).get(name, [""])[0]
    except ValueError:
        return ""


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body again, for the page; after it, what the server has to say."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
