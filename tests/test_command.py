"""The command as people type it: what it prints, where, and with which exit status."""

from __future__ import annotations

import asyncio
import os
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memsvc.__main__ import main
from memsvc.auth import Gate, entry, make_token, make_tokens
from memsvc.config import Settings, load
from memsvc.errors import SettingWrong, Unauthenticated
from tests.conftest import Start

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
ROLES = ("runner", "reviewer", "admin")


@pytest.fixture(autouse=True)
def _nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests, and a folder without a memsvc.toml."""
    for name in Settings.model_fields:
        monkeypatch.delenv("MEMSVC_" + name.upper(), raising=False)
    monkeypatch.delenv("MEMSVC_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def test_help_teaches_a_first_conversation(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "MemoryService/RecordRun" in shown
    assert "MemoryService/GetContext" in shown


@pytest.mark.parametrize("role", ROLES)
def test_a_new_token_opens_what_its_printed_entry_grants(role: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "--role", role]) == 0
    token, entry = capsys.readouterr().out.split("\n\n", 1)
    assert token not in entry
    Path("memsvc.toml").write_text(entry, "utf-8")
    gate = Gate(load({}).credentials)
    assert gate.caller(f"Bearer {token}").role == role
    with pytest.raises(Unauthenticated):
        gate.caller(f"Bearer {token}x")


def test_no_two_tokens_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create"]) == main(["token", "create"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({line for line in lines if line.startswith(("msv_", "token_hash"))}) == 4


def test_tokens_are_made_once_each_for_one_reader_and_never_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deep" / "tokens"
    assert main(["token", "init", "--directory", str(folder), "--tenants", "school-7", "school-8"]) == 0
    shown = capsys.readouterr().out
    credentials = folder / "credentials.toml"
    gate = Gate(load({"MEMSVC_CREDENTIALS_FILE": str(credentials)}).credentials)
    for role in ROLES:
        file = folder / role / "token"
        token = file.read_text("utf-8").strip()
        assert (gate.caller(f"Bearer {token}").role, gate.caller(f"Bearer {token}").tenants) == (
            role,
            ("school-7", "school-8"),
        )
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert str(file) in shown
        assert token not in shown + credentials.read_text("utf-8")
    assert f"MEMSVC_CREDENTIALS_FILE={credentials}" in shown

    before = contents(folder)
    assert main(["token", "init", "--directory", str(folder)]) == 0
    assert "exists; nothing was made or changed" in capsys.readouterr().out
    assert contents(folder) == before
    assert not list(folder.rglob("*.new"))


def test_tokens_whose_making_was_cut_off_are_made_anew(tmp_path: Path) -> None:
    for leftover in ("runner/token", "runner/token.new", "credentials.toml.new"):
        (tmp_path / leftover).parent.mkdir(exist_ok=True)
        (tmp_path / leftover).write_text("half a tok", "utf-8")
        (tmp_path / leftover).chmod(0o644)
    assert main(["token", "init", "--directory", str(tmp_path)]) == 0
    gate = Gate(load({"MEMSVC_CREDENTIALS_FILE": str(tmp_path / "credentials.toml")}).credentials)
    file = tmp_path / "runner" / "token"
    assert gate.caller(f"Bearer {file.read_text('utf-8').strip()}").role == "runner"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_of_two_that_make_tokens_at_once_one_does(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make_tokens(tmp_path, ["*"]), range(8)))
    assert sum(one is not None for one in made) == 1
    gate = Gate(load({"MEMSVC_CREDENTIALS_FILE": str(tmp_path / "credentials.toml")}).credentials)
    for role in ROLES:
        assert gate.caller(f"Bearer {(tmp_path / role / 'token').read_text('utf-8').strip()}").role == role


def test_tokens_that_cannot_be_kept_are_one_line_and_an_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    assert main(["token", "init", "--directory", str(tmp_path / "file" / "below")]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("memsvc: --directory: ")
    with pytest.raises(SystemExit):
        main(["token", "init", "--directory", str(tmp_path), "--tenants", 'a"]\nrole = "admin'])
    assert os.listdir(tmp_path) == ["file"]


def test_credentials_of_both_files_count(tmp_path: Path) -> None:
    (here, here_hash), (there, there_hash) = make_token(), make_token()
    Path("memsvc.toml").write_text('credentials_file = "more.toml"\n' + entry("runner", ["*"], here_hash), "utf-8")
    Path("more.toml").write_text(entry("admin", ["a", "b"], there_hash), "utf-8")
    gate = Gate(load({}).credentials)
    assert gate.caller(f"Bearer {here}").role == "runner"
    assert gate.caller(f"Bearer {there}").tenants == ("a", "b")


def test_off_loopback_the_daemon_wants_credentials_or_a_word(tmp_path: Path) -> None:
    everywhere = {"MEMSVC_LISTEN": "0.0.0.0:50051", "MEMSVC_ALLOW_PLAINTEXT": "true"}
    with pytest.raises(SettingWrong, match="credentials"):
        load(everywhere)
    assert load(everywhere | {"MEMSVC_ALLOW_REMOTE": "true"}).credentials == ()
    make_tokens(tmp_path, ["*"])
    assert len(load(everywhere | {"MEMSVC_CREDENTIALS_FILE": str(tmp_path / "credentials.toml")}).credentials) == 3


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_wrong_setting_is_one_line_and_an_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSVC_LISTEN", "everywhere")
    assert main(["serve"]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("memsvc: MEMSVC_LISTEN: ")


async def test_the_health_check_says_whether_the_daemon_serves(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await start()
    monkeypatch.setenv("MEMSVC_LISTEN", running.daemon.address)
    monkeypatch.setenv("MEMSVC_CREDENTIALS_FILE", "broken.toml")  # the daemon would keep the ones that it has
    assert await _in_a_thread("healthcheck") == 0
    assert capsys.readouterr().out.endswith("SERVING\n")
    await start.stop()  # type: ignore[attr-defined]
    assert await _in_a_thread("healthcheck") == 1
    assert "does not answer" in capsys.readouterr().err


def test_the_settings_of_the_local_model_are_ones_the_daemon_takes() -> None:
    example = ROOT / "clients" / "examples" / "memsvc.ollama.toml"
    settings = Settings.model_validate(tomllib.loads(example.read_text("utf-8")))
    assert settings.providers[settings.local_fallback].local


def test_the_readme_tells_every_setting_and_its_default() -> None:
    for name, field in Settings.model_fields.items():
        if field.description:
            default = str(getattr(field.default, "value", field.default)).replace("False", "false")
            cell = f"`{default}`" if default else ""
            assert f"| `MEMSVC_{name.upper()}` | {cell} | ".replace("|  |", "| |") in README, name


def test_the_readme_shows_a_configuration_that_the_daemon_takes() -> None:
    shown = README.split("```toml\n", 1)[1].split("```", 1)[0]
    Path("memsvc.toml").write_text(shown.replace("sha256:…", "sha256:" + "0" * 64), "utf-8")
    settings = load({})
    assert settings.local_fallback in settings.providers
    assert settings.credentials
    assert settings.limits


async def _in_a_thread(*arguments: str) -> int:
    """The command blocks, and the daemon it asks runs on this loop."""
    return await asyncio.to_thread(main, arguments)
