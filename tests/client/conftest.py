"""A server that does as it is told, and each kind of client of it in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

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
