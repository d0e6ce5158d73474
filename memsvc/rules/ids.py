"""Ids that prove whose they are: a thread id carries a MAC over its scope, so it needs no row to be checked.

`th_` and 24 base32 characters: 80 bits that name the thread and a 40-bit MAC over the scope, keyed with the
database's secret. Whoever does not hold the secret guesses one in 2^40; whoever holds an id of another scope holds
nothing. Everything here is HMAC-SHA256 with a purpose in front, so that no digest serves two ends.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from memsvc.model import Scope

NAME_BYTES = 10
MAC_BYTES = 5
TAG_LENGTH = 6
THREAD_ID_LENGTH = 27


def mint_thread_id(secret: bytes, scope: Scope, name: bytes) -> str:
    """Returns the thread id of the 80 bits `name` (drawn at random, or by `keyed_name`) in this scope."""
    mac = _digest(secret, "thread-mac", scope, name)[:MAC_BYTES]
    return "th_" + base64.b32encode(name + mac).decode("ascii").lower()


def keyed_name(secret: bytes, scope: Scope, thread_key: str, generation: int) -> bytes:
    """Returns the 80 bits that a runner's own `thread_key` leads to; `generation` counts its deleted threads."""
    return _digest(secret, "thread-key", scope, thread_key.encode(), str(generation).encode())[:NAME_BYTES]


def bears_scope(secret: bytes, scope: Scope, thread_id: str) -> bool:
    """Says whether `thread_id` was minted for this scope with this secret; any other text is False."""
    if len(thread_id) != THREAD_ID_LENGTH or not thread_id.startswith("th_") or thread_id != thread_id.lower():
        return False
    try:
        raw = base64.b32decode(thread_id[3:].upper().encode("ascii"))
    except (ValueError, UnicodeEncodeError):
        return False
    return hmac.compare_digest(thread_id, mint_thread_id(secret, scope, raw[:NAME_BYTES]))


def tag(secret: bytes, scope: Scope) -> str:
    """Returns the scope's frame tag: stable, and unknown to whoever writes history."""
    return _digest(secret, "tag", scope).hex()[:TAG_LENGTH]


def tombstone(key: bytes, kind: str, name: str) -> bytes:
    """Returns what is kept of a deleted id (or text): enough to know it again, nothing to read.

    `key` is the scope's (see `tombstone_key`); an export tells it, so that another database can know the id again.
    """
    return hmac.digest(key, f"{kind}\0{name}".encode(), hashlib.sha256)[:16]


def tombstone_key(secret: bytes, scope: Scope) -> bytes:
    """Returns the key of a scope's tombstones in this database: the secret does not follow from it."""
    return _digest(secret, "tombstone-key", scope)


def first_tombstone(secret: bytes, scope: Scope, kind: str, name: str) -> bytes:
    """Returns a tombstone as the first versions made it, keyed with the secret itself."""
    return _digest(secret, "tombstone-" + kind, scope, name.encode())[:16]


def forgotten(secret: bytes, scope: Scope) -> str:
    """Returns what is kept of the names of a scope that was deleted: enough to know it again, nothing to read."""
    return _digest(secret, "forgotten", scope)[:16].hex()


def _digest(secret: bytes, purpose: str, scope: Scope, *parts: bytes) -> bytes:
    message = hmac.new(secret, purpose.encode(), hashlib.sha256)
    for part in (*(field.encode() for field in scope), *parts):
        # Lengths stand before the parts: ("ab", "c") and ("a", "bc") must not meet.
        message.update(len(part).to_bytes(8, "big") + part)
    return message.digest()
