"""A daemon, a model that proposes, and a console before both: what a test of the console asks of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import httpx2
import uvicorn
from memsvc_console.app import create_app
from memsvc_console.settings import Settings
from memsvc_console.view import Console
from starlette.applications import Starlette

from memsvc import app as daemon_app
from memsvc.config import Settings as DaemonSettings
from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Running
from tests.fakes.provider import FakeProvider
from tests.review import Review, configured, propose
from tests.talk import Talk

HOST = "127.0.0.1"
_numbers = count()


@dataclass
class World:
    """What runs: the daemon, its only provider, the console and the address of its pages."""

    running: Running
    provider: FakeProvider
    app: Starlette
    url: str

    @property
    def console(self) -> Console:
        """What lives as long as the console."""
        console: Console = self.app.state.console
        return console

    def corner(self, agent: str = "agent") -> Corner:
        """A scope that no other test uses."""
        return Corner(self, pb.Scope(tenant_id=f"school-{next(_numbers)}", agent_id=agent, user_id="wang"))


@dataclass
class Corner:
    """One scope of the world: how a test fills it, and where its pages are."""

    world: World
    scope: pb.Scope

    @property
    def base(self) -> str:
        """The path that all its pages begin with."""
        return f"/s/{self.scope.tenant_id}/{self.scope.agent_id}/{self.scope.user_id}"

    def at(self, path: str) -> str:
        """The whole address of a page, as `at("/memory")`."""
        return self.world.url + self.base + path

    @property
    def review(self) -> Review:
        """Facts and candidates by the contract."""
        return Review(self.world.running, self.scope)

    def talk(self) -> Talk:
        """A new conversation."""
        return Talk(self.world.running, self.scope, provider="cloud")

    async def propose(self, *facts: str | dict[str, Any], said: str = "") -> str:
        """Has the model propose these after a run; returns the run's id."""
        return await propose(self.talk(), self.world.provider, *facts, said=said)


@asynccontextmanager
async def world(folder: Path, **settings: Any) -> AsyncIterator[World]:
    """A world of its own, on files in `folder`; `settings` are those of the console."""
    async with FakeProvider() as provider:
        values = {
            "listen": f"{HOST}:0",
            "database": folder / "memsvc.db",
            "retry_first_ms": 20,
            "retry_max_ms": 50,
            "circuit_failures": 100,
        }
        values |= {"providers": configured({"cloud": provider})}
        async with (
            daemon_app.running(DaemonSettings.model_validate(values)) as daemon,
            grpc.aio.insecure_channel(daemon.address) as channel,
        ):
            running = Running.of(daemon, channel)
            app = create_app(Settings(**({"listen": f"{HOST}:0", "daemon": daemon.address} | settings)))
            async with served(app) as url:
                yield World(running, provider, app, url)


class Server(uvicorn.Server):
    """Uvicorn, which leaves the signals to the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does not."""
        yield


@asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    """Serves an application on a free port; gives its address."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", lifespan="on", timeout_keep_alive=1)
        server = Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


def client(app: Starlette, **headers: str) -> httpx2.AsyncClient:
    """A browser without a window: it keeps cookies and follows nothing."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url="http://localhost:8080", headers=headers
    )
