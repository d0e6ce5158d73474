"""HTTP/2 as bytes, for callers that no library would let us be: they stop halfway, ping too much, talk nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL = 8
ENHANCE_YOUR_CALM = 11


class Frame(NamedTuple):
    """One frame of HTTP/2."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame as bytes; nothing checks whether it makes sense."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def headers(stream: int, method: str, metadata: Iterable[tuple[str, str]] = ()) -> bytes:
    """The HEADERS with which a call of gRPC begins."""
    fields = [
        *((":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "test")),
        *(("te", "trailers"), ("content-type", "application/grpc"), *metadata),
    ]
    # Literals without indexing and without Huffman: the form of HPACK that needs no state.
    block = b"".join(b"\x00" + _string(name) + _string(value) for name, value in fields)
    return frame(HEADERS, END_HEADERS, stream, block)


def message(data: bytes) -> bytes:
    """A message of gRPC: its length and its bytes."""
    return b"\x00" + len(data).to_bytes(4, "big") + data


def _string(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 127, "longer ones have another form"
    return bytes((len(data),)) + data


class Wire:
    """A connection that has greeted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, *data: bytes) -> None:
        """Sends bytes; a connection that is gone already takes them as well."""
        with suppress(ConnectionError):
            self._writer.write(b"".join(data))
            await self._writer.drain()

    async def frames(self) -> AsyncIterator[Frame]:
        """What the other side says, until it closes the connection."""
        try:
            while True:
                head = await self._reader.readexactly(9)
                length = int.from_bytes(head[:3], "big")
                stream = int.from_bytes(head[5:9], "big")
                yield Frame(head[3], head[4], stream, await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    async def until(self, kind: int) -> Frame | None:
        """The next frame of a kind; None where the connection is closed without one."""
        async for heard in self.frames():
            if heard.kind == kind:
                return heard
        return None


@asynccontextmanager
async def wire(address: str) -> AsyncIterator[Wire]:
    """Connects to `host:port` and greets."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = Wire(reader, writer)
    try:
        await connection.send(PREFACE, frame(SETTINGS))
        yield connection
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
