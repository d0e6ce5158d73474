"""Credentials as files: read at the start, read anew at SIGHUP, and never half; of a process of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc

from memsvc.auth import entry
from tests.child import Child, child, spawn
from tests.papers import METHODS, OURS, ROLES, TOKENS, ask, bearer, request


class Files:
    """The two places where a daemon's credentials stand, and the tokens that open it."""

    def __init__(self, folder: Path) -> None:
        self.config, self.credentials = folder / "memsvc.toml", folder / "credentials.toml"
        self.config.write_text(self.entry("reviewer"), "utf-8")
        self.credentials.write_text(self.entry("runner"), "utf-8")

    @staticmethod
    def entry(name: str) -> str:
        return entry(name, [OURS], TOKENS[name][1])


async def hears(daemon: Child, event: str) -> str:
    """Returns the next line of the log that tells of the event."""
    assert daemon.process.stderr is not None
    async for line in daemon.process.stderr:
        daemon.said.append(line.decode())
        if f'"{event}"' in daemon.said[-1]:
            return daemon.said[-1]
    raise AssertionError("".join(daemon.said))


async def reload(daemon: Child, event: str) -> str:
    daemon.process.send_signal(signal.SIGHUP)
    return await asyncio.wait_for(hears(daemon, event), 20)


async def opened(daemon: Child) -> set[str]:
    """The roles whose tokens the daemon knows."""
    method = METHODS[0]
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        return {
            role for role in ROLES if (await ask(channel, method, request(method, OURS), bearer(role))).code == "OK"
        }


async def test_sighup_takes_new_credentials_and_forgets_removed_ones(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with child(tmp_path, MEMSVC_CREDENTIALS_FILE=str(files.credentials)) as daemon:
        assert await opened(daemon) == {"runner", "reviewer"}
        files.credentials.write_text(files.entry("admin"), "utf-8")
        assert '"credentials": 2' in await reload(daemon, "reloaded")
        assert await opened(daemon) == {"admin", "reviewer"}
        files.config.write_text("", "utf-8")
        await reload(daemon, "reloaded")
        assert await opened(daemon) == {"admin"}


def breakages(files: Files) -> Iterator[str]:
    """Breaks the credentials file in one way after another; each yields what the log must name."""
    for text, named in (
        ("[[credentials]\n", "is not TOML"),
        ("", "credentials"),
        ("credentials = []\n", "credentials"),
        ("credentials = 1\n", "credentials"),
        (files.entry("admin").replace('role = "admin"', 'role = "owner"'), "credentials.0.role"),
        (files.entry("admin").replace(f'["{OURS}"]', "[]"), "credentials.0.tenants"),
        (files.entry("admin").replace('"sha256:', '"sha1:'), "credentials.0.token_hash"),
        (files.entry("admin") + 'expires = "never"\n', "credentials.0.expires"),
        ('listen = "0.0.0.0:1"\n' + files.entry("admin"), "listen"),
        (files.entry("reviewer"), "the same name"),
        (files.entry("reviewer").replace('name = "reviewer"', 'name = "other"'), "the same token"),
    ):
        files.credentials.write_text(text, "utf-8")
        yield named
    files.credentials.unlink()
    yield "cannot be read"


async def test_broken_credentials_leave_the_old_ones_in_force_and_the_log_says_why(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with child(tmp_path, MEMSVC_CREDENTIALS_FILE=str(files.credentials)) as daemon:
        for named in breakages(files):
            assert named in await reload(daemon, "reload_refused")
            assert await opened(daemon) == {"runner", "reviewer"}
        files.credentials.write_text(files.entry("admin"), "utf-8")
        await reload(daemon, "reloaded")
        assert await opened(daemon) == {"reviewer", "admin"}
        said = "".join(daemon.said)
    assert not any(secret in said for pair in TOKENS.values() for secret in pair)


async def test_a_daemon_does_not_start_on_broken_credentials(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.config.unlink()
    files.credentials.write_text("", "utf-8")
    refused = await spawn(tmp_path, MEMSVC_CREDENTIALS_FILE=str(files.credentials))
    assert await refused.ended() == 78
    (line,) = "".join(refused.said).splitlines()
    assert line.startswith("memsvc: MEMSVC_CREDENTIALS_FILE: ")


async def test_a_daemon_with_credentials_cannot_be_talked_into_having_none(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with child(tmp_path) as daemon:
        assert await opened(daemon) == {"reviewer"}
        files.config.write_text("", "utf-8")
        await reload(daemon, "reload_refused")
        assert await opened(daemon) == {"reviewer"}
