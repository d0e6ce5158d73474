"""Every setting of the console: MEMSVC_CONSOLE_* variables, read once, checked at once, frozen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from memsvc_client import Scope

from memsvc_console.chat_settings import ChatSettings, read_chat
from memsvc_console.passwords import is_hash
from memsvc_console.scopes import parse_scope

PREFIX = "MEMSVC_CONSOLE_"
MAX_ACTOR_CHARACTERS = 64
UTC = ZoneInfo("UTC")
LOOPBACK = re.compile(r"localhost|\[::1\]|127(\.[0-9]{1,3}){3}")


class SettingWrong(Exception):  # noqa: N818  # The name says what is wrong, as those of the client do.
    """A setting that the console cannot start with; names it and says what it should be, never its value."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the console runs with.

    - `listen`: host:port of the page.
    - `daemon`: host:port of the daemon; `token`: the reviewer's token, empty for a daemon without credentials;
      `daemon_ca`: PEM of the authority that signed the daemon's certificate, None for plain text.
    - `origin`: what the browser's address bar shows, as https://memory.example.org, where that is not `listen`.
    - `password_hash`: of the password that opens the console; empty for none, which only loopback may have.
    - `actor`: the person's name until they give one. `scopes`: those offered first. `time_zone`: of times on the pages.
    - `chat`: the model that the chat talks to, and the runner's token.
    """

    listen: str = "127.0.0.1:8080"
    daemon: str = "127.0.0.1:50051"
    token: str = ""
    daemon_ca: bytes | None = None
    origin: str = ""
    password_hash: str = ""
    actor: str = ""
    scopes: tuple[Scope, ...] = ()
    time_zone: ZoneInfo = UTC
    chat: ChatSettings = field(default_factory=ChatSettings)

    def __post_init__(self) -> None:
        host, _ = split_address("LISTEN", self.listen)
        split_address("DAEMON", self.daemon)
        if self.origin and not is_origin(self.origin):
            raise SettingWrong(f"{PREFIX}ORIGIN: must be a scheme and a host, as https://memory.example.org")
        if self.password_hash and not is_hash(self.password_hash):
            raise SettingWrong(f"{PREFIX}PASSWORD_HASH: is not what `memsvc-console hash` prints")
        if len(self.actor) > MAX_ACTOR_CHARACTERS or not self.actor.isprintable():
            raise SettingWrong(f"{PREFIX}ACTOR: must be a name of at most {MAX_ACTOR_CHARACTERS} characters")
        if not LOOPBACK.fullmatch(host) and not self.password_hash:
            raise SettingWrong(
                f"{PREFIX}LISTEN: off loopback a password is needed; `memsvc-console init --directory DIR` makes one"
            )

    @property
    def can_chat(self) -> bool:
        """Whether the chat has a model, and a credential to record runs with where one is needed."""
        return self.chat.has_model and bool(self.chat.runner_token or not self.token)

    @property
    def host(self) -> str:
        """Where to listen: the host, without the brackets of IPv6."""
        return split_address("LISTEN", self.listen)[0].strip("[]")

    @property
    def port(self) -> int:
        """Where to listen: the port; 0 lets the system choose."""
        return split_address("LISTEN", self.listen)[1]

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches the console."""
        return LOOPBACK.fullmatch(split_address("LISTEN", self.listen)[0]) is not None


def load(environ: Mapping[str, str]) -> Settings:
    """Reads the settings. SettingWrong."""
    values = {name.removeprefix(PREFIX): value for name, value in environ.items() if name.startswith(PREFIX)}
    ca_file = values.get("DAEMON_CA_FILE", "")
    return Settings(
        listen=values.get("LISTEN", "127.0.0.1:8080"),
        daemon=values.get("DAEMON", "127.0.0.1:50051"),
        token=read_secret("TOKEN_FILE", values.get("TOKEN_FILE", "")),
        daemon_ca=read_file("DAEMON_CA_FILE", ca_file) if ca_file else None,
        origin=values.get("ORIGIN", "").rstrip("/"),
        password_hash=values.get("PASSWORD_HASH", "")
        or read_secret("PASSWORD_HASH_FILE", values.get("PASSWORD_HASH_FILE", "")),
        actor=values.get("ACTOR", "").strip(),
        scopes=_scopes(values.get("SCOPES", "")),
        time_zone=_zone(values.get("TIME_ZONE", "UTC")),
        chat=_chat(values, environ),
    )


def split_address(name: str, address: str) -> tuple[str, int]:
    """Splits host:port. SettingWrong names the setting."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s/]+):([0-9]{1,5})", address)
    if not found or int(found[2]) > 65_535:
        raise SettingWrong(f"{PREFIX}{name}: must be host:port, as 127.0.0.1:8080")
    return found[1], int(found[2])


def is_origin(text: str) -> bool:
    """Says whether a text is an origin as browsers send it."""
    parts = urlsplit(text)
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and text == f"{parts.scheme}://{parts.netloc}"


def read_file(name: str, path: str) -> bytes:
    """The bytes of a file that the setting `name` names."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingWrong(f"{PREFIX}{name}: {path} cannot be read: {error.strerror}") from None


def read_secret(name: str, path: str) -> str:
    """A secret from a file of one line; empty where no file is named."""
    if not path:
        return ""
    secret = read_file(name, path).decode("ascii", "replace").strip()
    if not secret or not secret.isprintable() or " " in secret:
        raise SettingWrong(f"{PREFIX}{name}: {path} does not hold one word on one line")
    return secret


def _chat(values: Mapping[str, str], environ: Mapping[str, str]) -> ChatSettings:
    try:
        return read_chat(values, environ, read_secret)
    except ValueError as error:
        raise SettingWrong(f"{PREFIX}{error}") from None


def _scopes(text: str) -> tuple[Scope, ...]:
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        scope = parse_scope(*item.split("/")) if item.count("/") in {1, 2} else None
        if scope is None:
            raise SettingWrong(f"{PREFIX}SCOPES: must be tenant/agent or tenant/agent/user, with commas between")
        found.append(scope)
    return tuple(found)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise SettingWrong(f"{PREFIX}TIME_ZONE: is not an IANA time zone, as Asia/Shanghai") from None
