"""Files that a person names to a command: what cannot be read is told by its name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

from memsvc.errors import InvalidField


def opened(name: str) -> IO[bytes]:
    """Opens a file to read it, `-` for standard input. InvalidField where that cannot be done."""
    try:
        return sys.stdin.buffer if name == "-" else open(name, "rb")
    except OSError as error:
        raise _unreadable(name, error) from None


def read(name: str | Path) -> bytes:
    """Returns what a file holds, `-` for standard input. InvalidField where it cannot be read."""
    try:
        return sys.stdin.buffer.read() if str(name) == "-" else Path(name).read_bytes()
    except OSError as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str | Path, error: OSError) -> InvalidField:
    return InvalidField("FILE", f"{name} cannot be read: {error.strerror}")
