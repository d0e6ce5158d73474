"""What the console decides by itself: words, colours, times, sessions, passwords, settings, held decisions."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from zoneinfo import ZoneInfo

import memsvc_console
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from memsvc_client import MemsvcError, NotFound, RateLimited, RoleDenied, Scope
from memsvc_console import i18n, times
from memsvc_console.__main__ import SETTINGS, main, without_trace
from memsvc_console.i18n import Words, choose
from memsvc_console.passwords import hash_password, matches
from memsvc_console.scopes import decode_scope, encode_scope, parse_scope, scope_path
from memsvc_console.sessions import Attempts, Sessions, Toast
from memsvc_console.settings import SettingWrong, load
from memsvc_console.takeback import Takebacks
from memsvc_console.texts import TEXTS
from memsvc_console.view import make_templates

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(memsvc_console.__file__).parent
HAN = re.compile(r"[\u4e00-\u9fff]")

SECTIONS = ("core", "thread", "recall", "knowledge")
ON_PAPER = ("paper", "surface", "raised", "sunken")
PAIRS = [
    *((ink, ground, 4.5) for ink in ("ink", "muted", "accent", "danger", "warn", "good") for ground in ON_PAPER),
    *((f"{name}", f"{name}-wash", 4.5) for name in ("danger", "warn", "good", "core", "thread", "recall", "knowledge")),
    *(
        (f"{name}", ground, 4.5)
        for name in ("core", "thread", "recall", "knowledge")
        for ground in ("paper", "surface")
    ),
    *(("ink", f"{name}-wash", 4.5) for name in ("accent", "danger", "warn", *SECTIONS)),
    ("accent-strong", "accent-wash", 4.5),
    ("on-accent", "accent", 4.5),
    ("on-accent", "accent-strong", 4.5),
    *(("edge", ground, 3.0) for ground in ("paper", "surface", "raised")),
]
"""What meets on the pages, and how much it must differ: WCAG AA for text, and for the edges of what can be used."""


DECIDING = {"memory", "thread", "run"}
"""Areas whose texts a decision puts together."""


def colours() -> dict[str, tuple[str, str]]:
    """The colours of the design: name → (light, dark)."""
    css = (PACKAGE / "static" / "tokens.css").read_text("utf-8")
    found = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", css)
    return {name: (light, dark) for name, light, dark in found}


def luminance(colour: str) -> float:
    """As WCAG has it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_whatever_meets_on_a_page_can_be_told_apart(theme: int) -> None:
    known = colours()
    for front, back, least in PAIRS:
        lights = sorted((luminance(known[front][theme]), luminance(known[back][theme])), reverse=True)
        contrast = (lights[0] + 0.05) / (lights[1] + 0.05)
        assert contrast >= least, f"{front} on {back}: {contrast:.2f}"


def test_no_colour_stands_outside_the_tokens() -> None:
    for path in (PACKAGE / "static").glob("*.css"):
        if path.name != "tokens.css":
            assert re.findall(r"#[0-9a-fA-F]{3,8}\b", path.read_text("utf-8")) == [], path.name


def test_both_languages_say_the_same_with_the_same_blanks() -> None:
    for key, (chinese, english) in TEXTS.items():
        blanks = [{name for _, name, _, _ in Formatter().parse(text) if name} for text in (chinese, english)]
        shared = blanks[0] | blanks[1]
        assert blanks[0] == blanks[1] or shared <= {"month", "name", "day", "year", "time", "n"}, key
        assert chinese
        assert english
        assert not HAN.search(english), key
        words = re.sub(r"\{[a-z_]+\}", "", chinese)
        assert HAN.search(words) or not re.search("[A-Za-z]{6}", words), key


def test_every_text_that_a_page_asks_for_is_there_and_every_text_is_asked_for() -> None:
    files = [*PACKAGE.glob("*.py"), *PACKAGE.glob("pages/*.py"), *PACKAGE.glob("templates/*.html")]
    text = "\n".join(path.read_text("utf-8") for path in files if path.name != "i18n.py")
    asked = set(re.findall(r"""\b(?:t|words)\(\s*["']([a-z_.]+[a-z_])["']\s*[,)]""", text))
    assert asked <= TEXTS.keys()
    literal = set(re.findall(r"""["']([a-z_.]+)["']""", text))
    stems = tuple(re.findall(r"""["']((?:[a-z_]+\.)+)["'{]""", text))  # of keys that a page puts together
    unused = [key.split(".") for key in TEXTS if key not in literal and not key.startswith(stems)]
    assert [parts for parts in unused if parts[0] not in DECIDING or parts[1] not in {"held", "done", "sure"}] == []


def test_every_template_can_be_read() -> None:
    templates = make_templates()
    names = templates.list_templates()
    assert names
    for name in names:
        templates.get_template(name)


@pytest.mark.parametrize(
    ("chosen", "accept", "language"),
    [
        ("", "", "en"),
        ("", "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("", "en-GB,en;q=0.9,zh;q=0.8", "en"),
        ("", "de, zh-TW;q=0.5, en;q=0.4", "zh"),
        ("", "fr, *;q=0.1", "en"),
        ("", "zh;q=0", "en"),
        ("", "zh;q=x,,;,=", "en"),
        ("en", "zh-CN", "en"),
        ("zh", "en", "zh"),
        ("xx", "zh", "zh"),
    ],
)
def test_the_language_is_the_chosen_one_or_the_browsers(chosen: str, accept: str, language: str) -> None:
    assert choose(chosen, accept) == language


def test_a_number_changes_an_english_sentence() -> None:
    english, chinese = Words("en"), Words("zh")
    assert [english("threads.runs", n=n) for n in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]
    assert chinese("threads.runs", n=1) == "1 轮"
    assert i18n.is_language("zh")
    assert not i18n.is_language("ZH")


@pytest.mark.parametrize(
    ("moment", "chinese", "english"),
    [
        (datetime(2026, 12, 1, 15, 30, tzinfo=UTC), "今天 23:30", "today 23:30"),
        (datetime(2026, 12, 1, 16, 30, tzinfo=UTC), "12月2日 00:30", "2 Dec, 00:30"),
        (datetime(2026, 11, 30, 15, 59, tzinfo=UTC), "昨天 23:59", "yesterday 23:59"),
        (datetime(2026, 3, 8, 1, 0, tzinfo=UTC), "3月8日 09:00", "8 Mar, 09:00"),
        (datetime(2025, 3, 8, 1, 0, tzinfo=UTC), "2025年3月8日", "8 Mar 2025"),
    ],
)
def test_a_moment_is_told_in_the_readers_zone(moment: datetime, chinese: str, english: str) -> None:
    stamp, zone, now = Timestamp(), ZoneInfo("Asia/Shanghai"), datetime(2026, 12, 1, 12, tzinfo=UTC)
    stamp.FromDatetime(moment)
    assert times.when(stamp, zone, Words("zh"), now) == chinese
    assert times.when(stamp, zone, Words("en"), now) == english
    assert times.when(Timestamp(), zone, Words("en"), now) == "never"


def test_a_scope_stands_in_an_address_and_comes_back() -> None:
    for scope in (
        Scope("school-7", "exam", "wang"),
        Scope("a.b:c@d", "-", ""),
        Scope("t", "a", "-"),
        Scope(".", "..", ".."),
    ):
        assert decode_scope(encode_scope(scope)) == scope
        assert not {"", ".", ".."} & set(scope_path(scope).removeprefix("/s/").split("/"))
    for names in (("", "a"), ("a", ""), ("a/b", "c"), ("a", "b", "<script>"), ("a" * 129, "b"), ("a", "b", "c d")):
        assert parse_scope(*names) is None
    assert decode_scope("a/b") is None


def test_a_password_is_known_by_its_hash_alone() -> None:
    known = hash_password("开门")
    assert "开门" not in known
    assert known != hash_password("开门")
    assert matches("开门", known)
    assert not matches("开门 ", known)
    assert not matches("x" * 5000, hash_password("x" * 5000))
    assert not matches("", "scrypt:zz")


def test_strangers_do_not_drive_out_who_is_logged_in() -> None:
    sessions = Sessions()
    inside = sessions.begin(logged_in=True)
    first = sessions.begin()
    for _ in range(10_000):
        sessions.begin()
    assert sessions.find(inside.id) is inside
    assert sessions.find(first.id) is None
    sessions.end(inside)
    assert sessions.find(inside.id) is None


def test_a_login_ends_after_twelve_hours() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    session = sessions.begin(logged_in=True)
    assert sessions.knows(session)
    now[0] = 12 * 3600.0
    assert not sessions.knows(session)
    assert not sessions.knows(sessions.begin())


def test_attempts_are_counted_by_address_and_together() -> None:
    now = [0.0]
    attempts = Attempts(2, 3, lambda: now[0])
    assert [attempts.allow(who) for who in "aaabb"] == [True, True, False, True, False]
    now[0] = 60.0
    assert attempts.allow("a")


def test_a_toast_is_told_once_and_of_too_many_the_latest() -> None:
    session = Sessions().begin()
    for number in range(30):
        session.say(Toast(str(number)))
    assert [toast.text for toast in session.take_toasts()] == [str(number) for number in range(10, 30)]
    assert session.take_toasts() == []


SCOPE = Scope("school", "agent", "wang")


async def test_a_held_decision_is_sent_when_its_time_is_over_and_not_twice() -> None:
    sent: list[str] = []
    done = asyncio.Event()

    async def send() -> None:
        sent.append("x")
        done.set()

    held = Takebacks(grace_s=0.0)
    first = held.hold(SCOPE, "reject", "c_1", "label", send)
    assert held.hold(SCOPE, "reject", "c_1", "label", send) is first
    assert held.hidden(SCOPE, "reject") == {"c_1"}
    assert held.hidden(SCOPE, "delete_fact") == held.hidden(Scope("other", "agent", "wang"), "reject") == set()
    await done.wait()
    await held.flush()
    assert sent == ["x"]
    assert held.waiting(SCOPE) == []
    assert held.take_back(SCOPE, first.id) is None


async def test_a_decision_that_is_taken_back_or_overtaken_is_never_sent() -> None:
    async def send() -> None:
        raise AssertionError

    held = Takebacks()
    one, other = (held.hold(SCOPE, "reject", name, "label", send) for name in ("c_1", "c_2"))
    assert held.take_back(Scope("other", "agent", "wang"), one.id) is None
    assert held.take_back(SCOPE, one.id) is one
    held.drop(SCOPE, "reject", "c_2")
    assert held.take_back(SCOPE, other.id) is None
    await held.flush()
    assert held.take_failed(SCOPE) == []


@pytest.mark.parametrize(
    ("error", "attempts", "told"),
    [(NotFound("gone"), 1, 0), (RoleDenied("no"), 1, 1), (RateLimited("busy"), 3, 1)],
)
async def test_what_cannot_be_sent_is_told_once_and_what_is_gone_is_done(
    error: MemsvcError, attempts: int, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc_console.takeback.PAUSES_S", (0.0, 0.0, 0.0))
    tried: list[int] = []

    async def send() -> None:
        tried.append(1)
        raise error

    held = Takebacks(grace_s=0.0)
    held.hold(SCOPE, "reject", "c_1", "label", send)
    await held.flush()
    assert len(tried) == attempts
    assert [failed.error for failed in held.take_failed(SCOPE)] == [error] * told
    assert held.take_failed(SCOPE) == []


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"LISTEN": "0.0.0.0:8080"}, "LISTEN: off loopback a password is needed"),
        ({"LISTEN": "8080"}, "LISTEN: must be host:port"),
        ({"DAEMON": "http://x"}, "DAEMON: must be host:port"),
        ({"TOKEN_FILE": "/nowhere/token"}, "TOKEN_FILE: /nowhere/token cannot be read"),
        ({"ORIGIN": "memory.example.org"}, "ORIGIN: must be a scheme and a host"),
        ({"ORIGIN": "https://x.example/path"}, "ORIGIN: must be a scheme and a host"),
        ({"PASSWORD_HASH": "secret"}, "PASSWORD_HASH: is not what"),
        ({"ACTOR": "x" * 65}, "ACTOR: must be a name"),
        ({"SCOPES": "school"}, "SCOPES: must be tenant/agent"),
        ({"TIME_ZONE": "Mars"}, "TIME_ZONE: is not"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not_repeated(environ: dict[str, str], told: str) -> None:
    with pytest.raises(SettingWrong) as raised:
        load({f"MEMSVC_CONSOLE_{name}": value for name, value in environ.items()})
    assert told in str(raised.value)
    assert "secret" not in str(raised.value)


def test_the_settings_are_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("msv_abc\n")
    main(["init", "--directory", str(tmp_path / "console")])
    settings = load(
        {
            "MEMSVC_CONSOLE_LISTEN": "[::]:9090",
            "MEMSVC_CONSOLE_TOKEN_FILE": str(token),
            "MEMSVC_CONSOLE_PASSWORD_HASH_FILE": str(tmp_path / "console" / "password-hash"),
            "MEMSVC_CONSOLE_SCOPES": "school-7/exam/wang, school-7/exam",
            "MEMSVC_CONSOLE_ORIGIN": "https://memory.example.org/",
        }
    )
    assert (settings.host, settings.port, settings.token, settings.on_loopback) == ("::", 9090, "msv_abc", False)
    assert settings.scopes == (Scope("school-7", "exam", "wang"), Scope("school-7", "exam"))
    assert settings.origin == "https://memory.example.org"
    password = (tmp_path / "console" / "password").read_text().strip()
    assert matches(password, settings.password_hash)
    assert (tmp_path / "console" / "password").stat().st_mode & 0o077 == 0
    main(["init", "--directory", str(tmp_path / "console")])
    assert (tmp_path / "console" / "password").read_text().strip() == password


def test_a_wrong_setting_ends_the_command_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMSVC_CONSOLE_LISTEN", "nowhere")
    assert main([]) == 2
    assert capsys.readouterr().err == "memsvc-console: MEMSVC_CONSOLE_LISTEN: must be host:port, as 127.0.0.1:8080\n"


def test_the_servers_own_log_tells_no_more_of_a_fault_than_that_there_was_one() -> None:
    try:
        raise ValueError("用户的秘密")
    except ValueError:
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception in %s", ("app",), sys.exc_info())
    assert without_trace(record)
    assert logging.Formatter().format(record) == "Exception in app"


def test_every_setting_is_read_told_by_the_command_and_documented() -> None:
    code = "\n".join((PACKAGE / name).read_text("utf-8") for name in ("settings.py", "chat_settings.py"))
    read = set(re.findall(r"""(?:values\.get\(|_price\(values, )"([A-Z_]+)\"""", code))
    told = set(re.findall(r"^  MEMSVC_CONSOLE_([A-Z_]+) ", SETTINGS, re.MULTILINE))
    documented = set(
        re.findall(r"^\| `MEMSVC_CONSOLE_([A-Z_]+)`", (ROOT / "docs" / "console.md").read_text("utf-8"), re.MULTILINE)
    )
    assert read == told == documented
