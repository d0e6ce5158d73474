"""The way to the daemon: one client for the whole console, and lists a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from memsvc_client import AsyncMemory, Deadlines
from memsvc_client.calls import Download, Pages

from memsvc_console.settings import Settings

T = TypeVar("T")

DEADLINES = Deadlines(context=5.0, read=4.0, write=8.0)
"""A person waits: sooner a page that says what is wrong than a blank one."""


def connect(settings: Settings, token: str) -> AsyncMemory:
    """A client with a credential; it connects at its first call."""
    return AsyncMemory(settings.daemon, token=token, root_certificates=settings.daemon_ca, deadlines=DEADLINES)


async def one_page(memory: AsyncMemory, described: Pages[T] | Download[T], token: str = "") -> tuple[Sequence[T], str]:
    """One page of a list and the token of the next, empty after the last.

    The list is described as the client does: `ThreadCalls.list.describe(None, scope, page_size=20)`.
    """
    assert isinstance(described, Pages)
    return await memory.sender.send(described.page(token))
