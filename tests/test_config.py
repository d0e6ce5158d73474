"""A wrong setting stops the start, is named as people wrote it, and is never quoted: it may be a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.config import NO_LIMIT, Settings, host_port, is_loopback, known_zone, load, strangers, variable
from memsvc.errors import SettingWrong

PROVIDER = '[providers.own]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
HASH = "sha256:" + "a" * 64
CREDENTIAL = f'[[credentials]]\nname = "a"\nrole = "runner"\ntenants = ["t"]\ntoken_hash = "{HASH}"\n'


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(table: str = "", **environ: str) -> Settings:
    """Settings from a memsvc.toml and an environment of the test's own."""
    Path("memsvc.toml").write_text(table, "utf-8")
    return load(environ)


def test_with_nothing_said_the_daemon_listens_on_loopback_and_needs_no_file() -> None:
    settings = load({})
    assert (settings.listen, settings.database, settings.providers) == ("127.0.0.1:50051", Path("memsvc.db"), {})
    assert (settings.model_deadline_ms, settings.retry_first_ms, settings.retry_max_ms) == (60_000, 1_000, 60_000)
    assert (settings.circuit_failures, settings.circuit_ms, settings.builtin_after_ms) == (3, 30_000, 3_600_000)
    assert settings.limit_of("any", "one") is NO_LIMIT


def test_the_environment_goes_before_the_file() -> None:
    settings = loaded('listen = "127.0.0.1:1"\ncurrency = "CNY"\n', MEMSVC_LISTEN="[::1]:2", MEMSVC_RETRY_FIRST_MS="5")
    assert (settings.listen, settings.currency, settings.retry_first_ms) == ("[::1]:2", "CNY", 5)


def test_another_file_is_read_where_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('currency = "EUR"', "utf-8")
    assert loaded('currency = "CNY"', MEMSVC_CONFIG=str(tmp_path / "other.toml")).currency == "EUR"


@pytest.mark.parametrize(
    ("table", "environ", "named"),
    [
        ("", {"MEMSVC_LISTEN": "here"}, "MEMSVC_LISTEN"),
        ("", {"MEMSVC_LISTEN": "127.0.0.1:70000"}, "MEMSVC_LISTEN"),
        ("", {"MEMSVC_LISTEN": "0.0.0.0:1"}, "MEMSVC_LISTEN"),
        ('listen = "[::]:1"', {}, "listen"),
        ("", {"MEMSVC_LOG_LEVEL": "loud"}, "MEMSVC_LOG_LEVEL"),
        ("", {"MEMSVC_RETRY_MAX_MS": "soon"}, "MEMSVC_RETRY_MAX_MS"),
        ("", {"MEMSVC_RETRY_MAX_MS": ""}, "MEMSVC_RETRY_MAX_MS"),
        ("", {"MEMSVC_MODEL_DEADLINE_MS": "0"}, "MEMSVC_MODEL_DEADLINE_MS"),
        ("", {"MEMSVC_TIME_ZONE": "Mars/Olympus"}, "MEMSVC_TIME_ZONE"),
        ("", {"MEMSVC_CURRENCY": "yuan"}, "MEMSVC_CURRENCY"),
        ("", {"MEMSVC_PROVIDERS": "own"}, "MEMSVC_PROVIDERS"),
        ("", {"MEMSVC_CONFIG": "missing.toml"}, "MEMSVC_CONFIG"),
        ("", {"MEMSVC_LOCAL_FALLBACK": "own"}, "MEMSVC_LOCAL_FALLBACK"),
        ("listen = ", {}, "MEMSVC_CONFIG"),
        ("retry_frist_ms = 5", {}, "retry_frist_ms"),
        ('local_fallback = "home"', {}, "local_fallback"),
        ('local_fallback = "own"\n' + PROVIDER, {}, "local_fallback"),
        (PROVIDER + "modle = 1", {}, "providers.own.modle"),
        (PROVIDER.replace("http:", "ftp:"), {}, "providers.own.base_url"),
        (PROVIDER.replace("own", '"a b"'), {}, "providers"),
        (PROVIDER.replace("own", "builtin"), {}, "providers"),
        (PROVIDER + "input_price_micros_per_million = -1", {}, "providers.own.input_price_micros_per_million"),
        (CREDENTIAL + CREDENTIAL, {}, "credentials"),
        (CREDENTIAL.replace("runner", "king"), {}, "credentials.0.role"),
        (CREDENTIAL.replace('["t"]', "[]"), {}, "credentials.0.tenants"),
        (CREDENTIAL.replace("sha256:", "secret:"), {}, "credentials.0.token_hash"),
        ("", {"MEMSVC_TLS_CERTIFICATE": "c.pem"}, "tls_key"),
        ("", {"MEMSVC_TLS_KEY": "k.pem"}, "MEMSVC_TLS_KEY"),
        ("", {"MEMSVC_TLS_CLIENT_CA": "ca.pem"}, "MEMSVC_TLS_CLIENT_CA"),
        ("", {"MEMSVC_HEALTHCHECK_KEY": "k.pem"}, "MEMSVC_HEALTHCHECK_KEY"),
        ("", {"MEMSVC_MAX_RECEIVE_BYTES": "1048576"}, "MEMSVC_MAX_RECEIVE_BYTES"),
        ("", {"MEMSVC_MAX_SEND_BYTES": "7340031"}, "page_bytes"),
        ("", {"MEMSVC_PAGE_BYTES": "13000000"}, "MEMSVC_PAGE_BYTES"),
        ("", {"MEMSVC_MAX_METADATA_BYTES": "100"}, "MEMSVC_MAX_METADATA_BYTES"),
        ("", {"MEMSVC_MAX_IMPORT_RUNS": "0"}, "MEMSVC_MAX_IMPORT_RUNS"),
        ("", {"MEMSVC_MAX_CONCURRENT_CALLS": "0"}, "MEMSVC_MAX_CONCURRENT_CALLS"),
        ("", {"MEMSVC_MAX_CONCURRENT_CALLS": "4001"}, "MEMSVC_MAX_CONCURRENT_CALLS"),
        ("", {"MEMSVC_CALLS_PER_SECOND": "-1"}, "MEMSVC_CALLS_PER_SECOND"),
        ("", {"MEMSVC_CALLS_BURST": "0"}, "MEMSVC_CALLS_BURST"),
        ("", {"MEMSVC_MAX_CONNECTIONS": "0"}, "MEMSVC_MAX_CONNECTIONS"),
        ("", {"MEMSVC_MAX_CONNECTION_AGE_MS": "0"}, "MEMSVC_MAX_CONNECTION_AGE_MS"),
        ("", {"MEMSVC_MIN_PING_INTERVAL_MS": "often"}, "MEMSVC_MIN_PING_INTERVAL_MS"),
        ("[[limits]]\ndaily_tokens = -1", {}, "limits.0.daily_tokens"),
        ("[[limits]]\nretention_days = 0", {}, "limits.0.retention_days"),
        ("[[limits]]\ndayly_tokens = 1", {}, "limits.0.dayly_tokens"),
        ('[[limits]]\n[[limits]]\ntenant = "a"', {}, "limits.1"),
        ('[[limits]]\ntenant = "a"\n[[limits]]\nagent = "b"\n[[limits]]\ntenant = "a"\nagent = "c"', {}, "limits.2"),
    ],
)
def test_a_wrong_setting_is_named(table: str, environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingWrong) as raised:
        loaded(table, **environ)
    message = raised.value.message
    assert message.startswith(named), message
    assert "\n" not in message
    assert raised.value.exit_status == 78


def test_a_value_that_may_be_a_secret_is_not_quoted() -> None:
    with pytest.raises(SettingWrong) as raised:
        loaded(CREDENTIAL.replace(HASH, "msv_my_very_token"))
    assert "msv_my_very_token" not in raised.value.message


def test_off_loopback_is_for_credentials_or_for_those_who_say_so() -> None:
    away = {"MEMSVC_LISTEN": "0.0.0.0:1", "MEMSVC_ALLOW_PLAINTEXT": "true"}
    assert loaded(CREDENTIAL, **away).listen == "0.0.0.0:1"
    assert loaded("", **away, MEMSVC_ALLOW_REMOTE="true").allow_remote


def test_off_loopback_is_for_tls_or_for_those_who_say_that_they_want_none() -> None:
    away = {"MEMSVC_LISTEN": "0.0.0.0:1"}
    with pytest.raises(SettingWrong, match="MEMSVC_LISTEN: off loopback in plain text"):
        loaded(CREDENTIAL, **away)
    assert loaded(CREDENTIAL, **away, MEMSVC_TLS_CERTIFICATE="c.pem", MEMSVC_TLS_KEY="k.pem").tls_key == "k.pem"


def test_the_first_limit_that_matches_holds() -> None:
    settings = loaded(
        '[[limits]]\ntenant = "a"\nagent = "x"\ndaily_tokens = 1\n'
        '[[limits]]\ntenant = "a"\ndaily_tokens = 2\n[[limits]]\ndaily_tokens = 3\n'
    )
    assert [settings.limit_of(*who).daily_tokens for who in (("a", "x"), ("a", "y"), ("b", "x"))] == [1, 2, 3]


def test_variables_of_ours_that_nobody_knows_are_told_but_not_those_of_the_console() -> None:
    environ = {"MEMSVC_LISTEN": "", "MEMSVC_LISTNE": "", "MEMSVC_CONFIG": "", "MEMSVC_TOKEN": "", "OTHER": ""}
    environ |= {"MEMSVC_CONSOLE_LISTEN": "", "MEMSVC_CONSOLE_PORT": ""}
    assert strangers(environ) == ["MEMSVC_LISTNE"]
    assert variable("listen") == "MEMSVC_LISTEN"


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("[::1]", 65535)),
        ("memsvc:50051", ("memsvc", 50051)),
        ("localhost", None),
        (":50051", None),
        ("::1:50051", None),
        ("a b:1", None),
        ("127.0.0.1:65536", None),
        ("127.0.0.1:５", None),
        ("127.0.0.1:1\n", None),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, wanted: tuple[str, int] | None) -> None:
    if wanted is None:
        with pytest.raises(ValueError, match="must be host:port"):
            host_port(address)
    else:
        assert host_port(address) == wanted


@pytest.mark.parametrize(
    ("host", "wanted"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("localhost", True), ("[::1]", True)]
    + [(host, False) for host in ("0.0.0.0", "[::]", "10.0.0.1", "127.0.0.1.example.com", "example.com", "[::2]")],
)
def test_loopback_is_what_this_machine_alone_reaches(host: str, wanted: bool) -> None:
    assert is_loopback(host) is wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("UTC", True), ("Asia/Shanghai", True), ("America/Argentina/Buenos_Aires", True), ("Etc/GMT+5", True)]
    + [(name, False) for name in ("", "Asia", "../UTC", "/etc/localtime", "Asia/Shanghai\n", "Mars", "A" * 5000)],
)
def test_a_time_zone_is_an_iana_name(name: str, wanted: bool) -> None:
    assert known_zone(name) is wanted
