"""A daemon as people run it: a process of its own, to be asked, signalled and killed, whose every word is kept."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from memsvc.v1 import memory_service_pb2_grpc as rpc

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Child:
    """The process, where it listens, and what it has said so far."""

    process: asyncio.subprocess.Process
    address: str = ""
    pid: int = 0
    """The daemon's own, where another command started it."""
    said: list[str] = field(default_factory=list)
    _killed: bool = False

    async def serving(self) -> None:
        """Returns when it says that it serves."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.said.append(line.decode())
            if '"serving"' in self.said[-1]:
                told = json.loads(self.said[-1])
                self.address, self.pid = told["address"], told["pid"]
                return
        raise AssertionError("".join(self.said))

    def kill(self) -> None:
        """Kills it, once: asyncio's own `kill` looks first whether it has ended, and then nobody learns how it did."""
        if not self._killed:
            self._killed = True
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)

    async def ended(self) -> int:
        """Returns its exit status when it has ended and said its last word."""
        assert self.process.stderr is not None
        self.said.append((await self.process.stderr.read()).decode())
        return await self.process.wait()

    @asynccontextmanager
    async def memory(self) -> AsyncIterator[rpc.MemoryServiceAsyncStub]:
        """A stub of its own channel."""
        async with grpc.aio.insecure_channel(self.address) as channel:
            yield rpc.MemoryServiceStub(channel)


async def spawn(folder: Path, *under: str, **environ: str) -> Child:
    """Starts `memsvc serve` on a free port and a file in `folder`; of this process's settings it gets none.

    `under` is a command that starts it and watches it.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    settings = {"MEMSVC_LISTEN": "127.0.0.1:0", "MEMSVC_DATABASE": str(folder / "memsvc.db"), "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        *(*under, sys.executable, "-m", "memsvc", "serve"),
        cwd=folder,
        env=inherited | settings | environ,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    return Child(process)


@asynccontextmanager
async def child(folder: Path, **environ: str) -> AsyncIterator[Child]:
    """A daemon that serves; killed at the end, where it still runs."""
    started = await spawn(folder, **environ)
    try:
        await started.serving()
        yield started
    finally:
        if started.process.returncode is None:
            started.kill()
            await started.ended()
