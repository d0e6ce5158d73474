"""A scope out of this daemon and into one: the lines of rules/exportfile.py, in pieces as callers take and send them.

A file that comes in is read to its end and found right before the database hears of it. Meanwhile it lies in a file
without a name beside the database, which is gone with the call; memory holds the ids in it and no text.
"""

from __future__ import annotations

import asyncio
import marshal
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import IO, Any, NamedTuple
from zoneinfo import ZoneInfo

from memsvc.config import Settings
from memsvc.errors import DiskFull, ImportInvalid
from memsvc.model import RunOutcome, Scope
from memsvc.rules.derived import derive
from memsvc.rules.exportfile import KINDS, MAX_LINE_BYTES, OUTCOMES, Line, RunLine
from memsvc.rules.importfile import Reader
from memsvc.rules.shown import Renderer
from memsvc.store import Brought, ExportPosition, ImportedRun, Store

MAX_IMPORT_BYTES = 8 << 30


class Import(NamedTuple):
    """What an import did: what it brought that was not there, and how many lines a red line kept out."""

    brought: Brought
    refused: int


async def export(store: Store, scope: Scope) -> AsyncIterator[bytes]:
    """Gives an export in pieces of whole lines, at most some megabytes each; one that is empty has a header and an end.

    Between two pieces nothing of the database is held. Unavailable where something is deleted meanwhile.
    """
    bounds = await store.begin_export(scope)
    position: ExportPosition | None = ExportPosition()
    while position is not None:
        data, position = await store.export_page(scope, bounds, position)
        yield data


async def bring(
    store: Store,
    renderer: Renderer,
    settings: Settings,
    scope: Scope,
    pieces: AsyncIterator[bytes],
    by: str,
    now_us: int,
) -> Import:
    """Brings a file into a scope, all or nothing. ImportInvalid, DiskFull."""
    with tempfile.TemporaryFile(dir=settings.database.absolute().parent, prefix="memsvc-import-") as file:
        spool = _Spool(file, Reader(settings.max_import_runs), renderer, settings)
        async for piece in pieces:
            await asyncio.to_thread(spool.add, piece)
        await asyncio.to_thread(spool.finish)
        # Whoever leaves in mid-write may leave the import behind, whole; the file must stay until it is done.
        write = asyncio.ensure_future(store.import_scope(scope, spool, by, now_us))
        try:
            brought = await asyncio.shield(write)
        except asyncio.CancelledError:
            await asyncio.wait([write])
            raise
        return Import(brought, spool.refused)


class _Spool:
    """Lines as they come, judged, prepared and put into `file`; then the same again as often as the store asks."""

    def __init__(self, file: IO[bytes], reader: Reader, renderer: Renderer, settings: Settings) -> None:
        self._file, self._reader, self._renderer = file, reader, renderer
        self._locale, self._zone = settings.locale, ZoneInfo(settings.time_zone)
        self._rest = bytearray()
        self._number = self._bytes = 0

    @property
    def run_ids(self) -> Collection[str]:
        """See Prepared."""
        return self._reader.run_ids

    @property
    def runs_of(self) -> Mapping[str, Sequence[str]]:
        """See Prepared."""
        return self._reader.runs_of

    @property
    def refused(self) -> int:
        """How many lines a red line kept out."""
        return self._reader.refused

    def add(self, piece: bytes) -> None:
        """Takes some bytes of the file. ImportInvalid, DiskFull."""
        self._bytes += len(piece)
        if self._bytes > MAX_IMPORT_BYTES:
            raise ImportInvalid(self._number + 1, f"the file is above {MAX_IMPORT_BYTES} bytes")
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._line(bytes(self._rest) + line)
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > MAX_LINE_BYTES:
            raise ImportInvalid(self._number + 1, f"is longer than {MAX_LINE_BYTES} bytes")

    def finish(self) -> None:
        """Says that this was the file. ImportInvalid, DiskFull."""
        if self._rest:
            self._line(bytes(self._rest))
        self._reader.finish()
        try:
            self._file.flush()
        except OSError:
            raise DiskFull from None

    def read(self) -> Iterator[tuple[int, Line | ImportedRun]]:
        """See Prepared."""
        self._file.seek(0)
        while head := self._file.read(4):
            number, rank, values, derived = marshal.loads(self._file.read(int.from_bytes(head, "big")))
            line: Any = KINDS[rank](*values)
            yield number, ImportedRun(line, *derived) if derived else line

    def _line(self, data: bytes) -> None:
        self._number += 1
        if len(data) > MAX_LINE_BYTES:
            raise ImportInvalid(self._number, f"is longer than {MAX_LINE_BYTES} bytes")
        line = self._reader.read(data)
        if line is None:
            return
        derived = self._derived(line) if isinstance(line, RunLine) else None
        values = [getattr(line, each.name) for each in fields(line)]
        packed = marshal.dumps((self._number, KINDS.index(type(line)), values, derived))
        try:
            self._file.write(len(packed).to_bytes(4, "big") + packed)
        except OSError:
            raise DiskFull from None

    def _derived(self, line: RunLine) -> tuple[int, int, str, dict[str, int] | None]:
        """What recording would have computed of a run."""
        own_input, outcome = line.input[line.own_offset :], RunOutcome(OUTCOMES[line.outcome])
        made = derive(own_input, line.output, outcome, line.ended_us, self._renderer, self._zone, self._locale)
        return self._renderer.renderer_id, made.whole, made.shown, made.terms
