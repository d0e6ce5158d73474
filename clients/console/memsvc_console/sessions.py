"""Who sits in front of a browser: a random id in a cookie, what it may do, and what the next page should tell it.

Sessions live in memory: logging out ends one for good, and so does the end of the console.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_STRANGERS = 10_000
MAX_LOGGED_IN = 1_000
MAX_TOASTS = 20
LOGIN_LASTS_S = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class Toast:
    """A short message that the next page shows. `kind`: "done", "problem"; `detail` stands below, as what to do."""

    text: str
    kind: str = "done"
    detail: str = ""


@dataclass(slots=True)
class Session:
    """One browser. `logged_in_s` is when it gave the password, on the sessions' clock; None when it did not."""

    id: str
    csrf: str
    logged_in_s: float | None = None
    toasts: list[Toast] = field(default_factory=list)

    def say(self, toast: Toast) -> None:
        """Keeps a message for the next page; of too many the oldest are dropped."""
        self.toasts = [*self.toasts, toast][-MAX_TOASTS:]

    def take_toasts(self) -> list[Toast]:
        """The messages to show now; they are shown once."""
        taken, self.toasts = self.toasts, []
        return taken


class Sessions:
    """The sessions; of too many the longest unused goes. `clock` gives seconds that only grow.

    Those that gave the password are kept apart (1 000), so that no crowd of strangers (10 000) drives them out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._strangers: OrderedDict[str, Session] = OrderedDict()
        self._logged_in: OrderedDict[str, Session] = OrderedDict()

    def find(self, session_id: str) -> Session | None:
        """The session of a cookie; None for a cookie that the console did not make or has forgotten."""
        for held in (self._logged_in, self._strangers):
            if session_id in held:
                held.move_to_end(session_id)
                return held[session_id]
        return None

    def begin(self, logged_in: bool = False) -> Session:
        """A new session."""
        session_id = secrets.token_urlsafe(32)
        csrf = hmac.new(self._key, session_id.encode(), hashlib.sha256).hexdigest()
        session = Session(session_id, csrf, self._clock() if logged_in else None)
        held, most = (self._logged_in, MAX_LOGGED_IN) if logged_in else (self._strangers, MAX_STRANGERS)
        held[session_id] = session
        while len(held) > most:
            held.popitem(last=False)
        return session

    def end(self, session: Session) -> None:
        """Forgets a session."""
        self._strangers.pop(session.id, None)
        self._logged_in.pop(session.id, None)

    def knows(self, session: Session) -> bool:
        """Says whether the session gave the password, and not too long ago."""
        return session.logged_in_s is not None and self._clock() - session.logged_in_s < LOGIN_LASTS_S


class Attempts:
    """How often the password may be tried: `each` times a minute from one address, `all` from all together."""

    def __init__(self, each: int = 5, together: int = 60, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._together, self._clock = each, together, clock
        self._made: list[tuple[float, str]] = []

    def allow(self, address: str) -> bool:
        """Counts an attempt and says whether it may go on."""
        now = self._clock()
        self._made = [(at, who) for at, who in self._made if now - at < 60]
        if len(self._made) >= self._together or sum(who == address for _, who in self._made) >= self._each:
            return False
        self._made.append((now, address))
        return True
