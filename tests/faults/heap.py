"""How many bytes of the heap a cancelled call leaves behind for good, by the stage at which it was cancelled.

    python -m tests.faults.heap --calls 2000

The C library is asked what is allocated, to the byte, before and after so many calls, six times over. Whole calls
(`ok`) say what is there without any cancelling: counters, and noise.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import random
import statistics
import tempfile
from pathlib import Path

from memsvc import app, log
from memsvc.config import Settings
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.wire import CANCEL, DATA, END_STREAM, HEADERS, RST_STREAM, Wire, frame, headers, message, wire

METHOD = "/memsvc.v1.MemoryService/GetContext"
SCOPE = pb.Scope(tenant_id="school-7", agent_id="exam")
STAGES = ("ok", "begun", "half", "sent", "working", "writing")
ROUNDS = 6
EACH = 50
"""Calls of one connection: who cancels hundreds in a row is sent away by the core."""
SETTLE_S = 3.0
"""What the core takes to be done with a connection that is closed."""


class _Heap(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def allocated() -> int:
    """Bytes in use, of small blocks and large ones; glibc alone tells."""
    tell = ctypes.CDLL("libc.so.6").mallinfo2
    tell.restype = _Heap
    gc.collect()
    heap = tell()
    return int(heap.uordblks + heap.hblkhd)


async def _call(connection: Wire, stream: int, stage: str, data: bytes) -> None:
    gone = frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))
    whole = frame(DATA, END_STREAM, stream, data)
    match stage:
        case "ok":
            await connection.send(headers(stream, METHOD), whole)
            while (heard := await connection.until(HEADERS)) and not heard.flags & END_STREAM:
                pass
        case "begun":
            await connection.send(headers(stream, METHOD))
            await asyncio.sleep(0.001)
            await connection.send(gone)
        case "half":
            await connection.send(headers(stream, METHOD), frame(DATA, 0, stream, data[: len(data) // 2]))
            await asyncio.sleep(0.001)
            await connection.send(gone)
        case "sent":
            await connection.send(headers(stream, METHOD), whole, gone)
        case _:
            await connection.send(headers(stream, METHOD), whole)
            await asyncio.sleep(random.random() * 0.004)
            await connection.send(gone)


async def _round(address: str, stage: str, calls: int) -> None:
    # What a caller who widens no window lets through is spent after some replies; from then on all wait to be taken.
    size = 15_000 if stage in ("sent", "writing") else 20
    data = message(svc.GetContextRequest(scope=SCOPE, input="x", knowledge="z" * size).SerializeToString())
    for first in range(0, calls, EACH):
        async with wire(address) as connection:
            for number in range(min(EACH, calls - first)):
                await _call(connection, 2 * number + 1, stage, data)
    await asyncio.sleep(SETTLE_S)


async def main(calls: int) -> None:
    """Prints a line for each stage."""
    log.configure("error", "json")
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate({"listen": "127.0.0.1:0", "database": Path(folder) / "memsvc.db"})
        async with app.running(settings) as daemon:
            for stage in STAGES:
                await _round(daemon.address, stage, calls // 4)
                left = []
                for _ in range(ROUNDS):
                    before = allocated()
                    await _round(daemon.address, stage, calls)
                    left.append((allocated() - before) / calls)
                print(
                    f"{stage:8} {statistics.median(left):8.1f} bytes a call   {[round(each) for each in left]}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2_000, help="of each stage, in each round (default: 2000)")
    asyncio.run(main(parser.parse_args().calls))
