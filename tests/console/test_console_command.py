"""The console as people run it: a process of its own, asked over HTTP, and stopped by a signal."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.console.world import Corner

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def spawned(port: int, **settings: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, once it serves; killed at the end where it still runs."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    environ |= {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "clients/python", ROOT / "clients/console")))}
    environ |= {f"MEMSVC_CONSOLE_{name.upper()}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "memsvc_console"), env=environ, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async for line in process.stderr:
            if b"running on" in line:
                break
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def free_port() -> int:
    """A port that nobody uses."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_what_waits_is_sent_before_the_console_stops(corner: Corner) -> None:
    await corner.propose("用户偏好黑色封面")
    (candidate,) = await corner.review.candidates()
    port = free_port()
    daemon = corner.world.console.settings.daemon
    async with spawned(port, listen=f"127.0.0.1:{port}", daemon=daemon) as process:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
            page = await web.get(corner.base + "/memory")
            csrf = re.findall(r'name="csrf" value="([0-9a-f]{64})"', page.text)[0]
            answer = await web.post(
                f"{corner.base}/memory/candidates/{candidate.candidate_id}/reject",
                headers={"hx-request": "true", "x-csrf-token": csrf},
            )
        assert answer.status_code == 200
        assert len(await corner.review.candidates()) == 1
        process.terminate()
        assert await process.wait() == 0
    assert await corner.review.candidates() == []
