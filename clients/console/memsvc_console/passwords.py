"""The password that opens the console: only a salted scrypt hash of it is kept, and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

_N, _R, _P = 2**14, 8, 1
_FORM = re.compile(r"scrypt:([0-9a-f]{32}):([0-9a-f]{64})")
MAX_PASSWORD_BYTES = 1024


def make_password() -> str:
    """A new password that nobody guesses."""
    return secrets.token_urlsafe(18)


def hash_password(password: str) -> str:
    """The hash that the settings bear, as scrypt:salt:digest."""
    salt = secrets.token_bytes(16)
    return f"scrypt:{salt.hex()}:{_digest(password, salt).hex()}"


def is_hash(text: str) -> bool:
    """Says whether a text is such a hash."""
    return _FORM.fullmatch(text) is not None


def matches(password: str, known: str) -> bool:
    """Says whether a password is the one of a hash. Takes tens of milliseconds on purpose."""
    found = _FORM.fullmatch(known)
    if not found or len(password.encode()) > MAX_PASSWORD_BYTES:
        return False
    return hmac.compare_digest(_digest(password, bytes.fromhex(found[1])), bytes.fromhex(found[2]))


def _digest(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P, dklen=32)
