"""A scope out of this daemon and into one: the lines of rules/exportfile.py, in pieces as callers take them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from memsvc.model import Scope
from memsvc.store import ExportPosition, Store


async def export(store: Store, scope: Scope) -> AsyncIterator[bytes]:
    """Gives an export in pieces of whole lines, at most some megabytes each; one that is empty has a header and an end.

    Between two pieces nothing of the database is held. Unavailable where something is deleted meanwhile.
    """
    bounds = await store.begin_export(scope)
    position: ExportPosition | None = ExportPosition()
    while position is not None:
        data, position = await store.export_page(scope, bounds, position)
        yield data
