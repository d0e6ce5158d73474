"""JSON as small models write it: in fences and prose, with Chinese punctuation, trailing commas, bare words, no end.

Only the objects matter, and each stands for itself: one that cannot be read does not spoil the others. Bounded in depth
and in false starts, so that a page of brackets costs no more than a page.
"""

from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 4
MAX_FALSE_STARTS = 20
"""Braces that turn out to open no object; after so many the text is not looked through any further."""

_OPEN_OBJECT, _CLOSE_OBJECT = "{｛", "}｝"
_OPEN_LIST, _CLOSE_LIST = "[［【", "]］】"
_COMMAS, _COLONS = ",，、;；", ":："
_AFTER_VALUE = frozenset(_COMMAS + _COLONS + _CLOSE_OBJECT + _CLOSE_LIST)
# What opens a string, and what may close it. A model that begins with one kind of mark rarely ends with another.
_CLOSING = {'"': '"＂', "＂": '"＂', "“": "”“\"", "”": "”“\"", "'": "'", "‘": "’", "「": "」"}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_HEX = re.compile("[0-9a-fA-F]{4}")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "none": None, "nil": None, "": None, "无": None}


class _NotRead(Exception):  # noqa: N818  it never leaves this module
    """Here stands no value that this reader knows."""


def objects(text: str) -> list[dict[str, Any]]:
    """Returns the outermost objects of `text` in order, whatever stands around them; none where there is none.

    Values are strings, numbers, booleans, None, lists and objects. Never raises.
    """
    found: list[dict[str, Any]] = []
    at = false_starts = 0
    while at < len(text) and false_starts < MAX_FALSE_STARTS:
        if text[at] in _OPEN_OBJECT:
            try:
                value, at = _read_object(text, at, 0)
            except _NotRead:
                false_starts += 1
            else:
                found.append(value)
                continue
        at += 1
    return found


def _read_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Reads the value that begins at `at` (no blank before it); returns it and where it ends."""
    if at >= len(text) or depth > MAX_DEPTH:
        raise _NotRead
    char = text[at]
    if char in _OPEN_OBJECT:
        return _read_object(text, at, depth)
    if char in _OPEN_LIST:
        return _read_list(text, at, depth)
    if char in _CLOSING:
        return _read_string(text, at)
    return _read_word(text, at)


def _read_object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    read: dict[str, Any] = {}
    at = _skip(text, at + 1, _COMMAS)
    while at < len(text) and text[at] not in _CLOSE_OBJECT:
        name, at = (_read_string if text[at] in _CLOSING else _read_word)(text, at)
        at = _skip(text, at)
        if not isinstance(name, str) or "\n" in name or at >= len(text) or text[at] not in _COLONS:
            raise _NotRead
        read[name.strip().casefold()], at = _read_value(text, _skip(text, at + 1), depth + 1)
        at = _skip(text, at, _COMMAS)
    if at >= len(text):
        raise _NotRead
    return read, at + 1


def _read_list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    read: list[Any] = []
    at = _skip(text, at + 1, _COMMAS)
    while at < len(text) and text[at] not in _CLOSE_LIST:
        value, end = _read_value(text, at, depth + 1)
        if end == at:
            raise _NotRead
        read.append(value)
        at = _skip(text, end, _COMMAS)
    if at >= len(text):
        raise _NotRead
    return read, at + 1


def _read_string(text: str, at: int) -> tuple[str, int]:
    """A quotation mark ends the string only where something may follow a string: models forget to escape."""
    closing = _CLOSING[text[at]]
    parts: list[str] = []
    at += 1
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            part, at = _read_escape(text, at + 1)
            parts.append(part)
            continue
        if char in closing and ((end := _skip(text, at + 1)) == len(text) or text[end] in _AFTER_VALUE):
            # Two escapes may be one character; what is then still half of one is for the caller to refuse.
            joined = "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            return joined, at + 1
        parts.append(char)
        at += 1
    raise _NotRead


def _read_escape(text: str, at: int) -> tuple[str, int]:
    """A backslash before a letter that makes no escape stands for itself: models forget to double those of paths."""
    if text[at] == "u" and (found := _HEX.match(text, at + 1)):
        return chr(int(found[0], 16)), found.end()
    if text[at] in _ESCAPES:
        return _ESCAPES[text[at]], at + 1
    return ("\\" if text[at].isalnum() else "") + text[at], at + 1


def _read_word(text: str, at: int) -> tuple[Any, int]:
    """A number, true, false, null, or a word that somebody forgot to quote."""
    start = at
    while at < len(text) and text[at] not in _AFTER_VALUE and text[at] not in "{｛[［【\n":
        at += 1
    word = text[start:at].strip()
    if word.casefold() in _WORDS:
        return _WORDS[word.casefold()], at
    try:
        return (float(word) if len(word) <= 32 else word), at
    except ValueError:
        return word, at


def _skip(text: str, at: int, also: str = "") -> int:
    """Returns the first position from `at` on that is neither blank nor one of `also`."""
    while at < len(text) and (text[at].isspace() or text[at] in also):
        at += 1
    return at
