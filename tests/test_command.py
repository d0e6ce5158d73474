"""The command as people type it: what it prints, where, and with which exit status."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

import pytest

from memsvc.__main__ import main
from memsvc.auth import Gate
from memsvc.config import Settings, load
from memsvc.errors import Unauthenticated
from tests.conftest import Start

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")


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


@pytest.mark.parametrize("role", ["runner", "reviewer", "admin"])
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
