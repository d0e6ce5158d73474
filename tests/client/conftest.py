"""A server that does as it is told, the real daemon, and each kind of client of both in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memsvc.app import Daemon, running
from memsvc.config import Settings
from tests.client.both import QUICK, Awaited, Blocking, Client
from tests.fakes.memory_server import FakeMemory


@pytest.fixture
async def server() -> AsyncIterator[FakeMemory]:
    async with FakeMemory() as server:
        yield server


@pytest.fixture(params=[Blocking, Awaited])
async def client(server: FakeMemory, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    client: Client = request.param(server.address, backoff=QUICK)
    yield client
    await client.close()


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    settings = Settings.model_validate({"listen": "127.0.0.1:0", "database": tmp_path / "memory.db"})
    async with running(settings) as daemon:
        yield daemon


@pytest.fixture(params=[Blocking, Awaited])
async def real_client(daemon: Daemon, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    client: Client = request.param(daemon.address)
    yield client
    await client.close()
