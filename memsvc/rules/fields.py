"""What a field of a stranger's file may hold.

A check returns the value as it is kept, or raises ValueError with the end of a sentence that begins with the field's
name: what it must be, never what it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], Any]

_THREAD_ID = re.compile(r"th_[a-z2-7]{24}")


def text(limit_bytes: int) -> Check:
    """A string that can be stored: whole characters, at most so many bytes of UTF-8."""

    def check(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("must be a string")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError("holds half a character (a lone surrogate)") from None
        if size > limit_bytes:
            raise ValueError(f"is longer than {limit_bytes} bytes of UTF-8")
        return value

    return check


def name(limit: int, least: int = 0) -> Check:
    """A string of so many characters."""
    whole = text(4 * limit)

    def check(value: Any) -> Any:
        if not least <= len(whole(value)) <= limit:
            raise ValueError(f"must be {least} to {limit} characters")
        return value

    return check


def integer(least: int, most: int) -> Check:
    """A whole number within bounds."""

    def check(value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return check


def one_of(numbers: Mapping[str, int]) -> Check:
    """One of some words, each of which stands for a number."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or value not in numbers:
            raise ValueError(f"must be one of {', '.join(numbers)}")
        return value

    return check


def listing(each: Check, most: int) -> Check:
    """A list without repetitions."""

    def check(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) > most:
            raise ValueError(f"must be a list of at most {most}")
        checked = tuple(each(item) for item in value)
        if len(set(checked)) != len(checked):
            raise ValueError("names something twice")
        return checked

    return check


def flag(value: Any) -> Any:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def labels(value: Any) -> Any:
    """A run's own marks."""
    if not isinstance(value, dict) or len(value) > 16:
        raise ValueError("must be an object of at most 16 labels")
    key, said = name(64, 1), name(64)
    return {key(k): said(v) for k, v in value.items()}


def thread_id(value: Any) -> Any:
    """A thread's id, whoever minted it."""
    if not isinstance(value, str) or not _THREAD_ID.fullmatch(value):
        raise ValueError("must be th_ and 24 characters, as an export has it")
    return value


def hexadecimal(size: int) -> Check:
    """So many bytes in lower-case hexadecimal digits."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", value):
            raise ValueError(f"must be {size} bytes in hexadecimal digits")
        return value

    return check


def maybe(check: Check) -> Check:
    """What `check` takes, or null."""
    return lambda value: None if value is None else check(value)


def fraction(value: Any) -> Any:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return float(value)
