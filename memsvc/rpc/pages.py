"""Page tokens: opaque, and good only for the list they came from. A forged or foreign one is INVALID_FIELD."""

from __future__ import annotations

import base64
import hashlib
import hmac

from memsvc.errors import InvalidField
from memsvc.rpc.checks import capped
from memsvc.store import Page

MAC_BYTES = 8


class Pager:
    """Reads and writes the tokens of one list: a call with its scope and filters, named by `parts`."""

    def __init__(self, secret: bytes, *parts: object) -> None:
        self._key = hmac.digest(secret, repr(parts).encode(), hashlib.sha256)

    def page(self, token: str, size: int, default: int, most: int) -> Page:
        """Returns where to go on and how far. InvalidField."""
        return Page(self._position(token), capped("page_size", size, default, most))

    def token(self, position: int) -> str:
        """Returns the token of the next page, empty where there is none."""
        if not position:
            return ""
        raw = position.to_bytes(8, "big")
        return base64.urlsafe_b64encode(raw + self._mac(raw)).decode().rstrip("=")

    def _position(self, token: str) -> int:
        if not token:
            return 0
        try:
            data = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:  # not ASCII, or not base64
            data = b""
        position = int.from_bytes(data[:8], "big")
        # Compared as it was given: base64 has several spellings of the same bytes.
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token(position).encode()):
            raise InvalidField("page_token", "is not one that this list gave; leave it empty to start over")
        return position

    def _mac(self, raw: bytes) -> bytes:
        return hmac.digest(self._key, raw, hashlib.sha256)[:MAC_BYTES]
