"""When what looks like a forgery is ordinary text after all: code, a configuration, a placeholder, a list.

An excuse reads a bounded stretch around the match and rests on nothing that disarming would change, so that it holds
as well for the text that is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memsvc.rules.markers import BREAKS, CLOSERS

Excuse = Callable[[str, "re.Match[str]"], bool]
_REACH = 200

_CALLOUT = "[!IMPORTANT]"  # How Markdown marks a note.
_QUOTES = "\"'`"
# A call, an assignment, an output command, a sum: what stands right before a string in code, and hardly in prose.
_BEFORE_STRING = re.compile(r"(?:\w[(\[]|=|\b(?:return|echo|print|printf|puts)|\+)\s{0,2}[rbfu$@]{0,2}$", re.A)
_AFTER_STRING = re.compile(rf"\s{{0,2}}(?:[)\],;}}+.%]|[{BREAKS}]|$)")
_CLOSED = re.compile(rf"[^{CLOSERS}{BREAKS}]{{0,40}}[{CLOSERS}]+")
_AFTER_INDEX = re.compile(r"\s?(?:=|\.\w|\[|\(|[);])", re.A)
_LINK_TARGET = re.compile(r"\((?:#|/|\.|https?:|[\w-]+\.(?:md|html)\b)", re.A)
_LINE_END = re.compile(rf"[^\S{BREAKS}]*(?:[{BREAKS}]|$)")
_SETTING = re.compile(rf"[{BREAKS}\s]{{0,8}}[;#]?\s?[\w.-]{{1,60}}\s{{0,8}}=", re.A)
_BEFORE_LIST = re.compile(r"(?:[(=,+]|\breturn)\s?$")
_AFTER_GENERIC = re.compile(r"\s?(?:[(),;:&?*{=]|\w{1,40}\s?[=;,(){])", re.A)
_ELEMENT = re.compile(r"\s{0,40}<(?!/?(?:system|user|assistant|human|bot))|[^\s<>]{1,40}</", re.A | re.I)
_GLUED = re.compile(r"[@/._-]|[:：]\S", re.A)
_BULLET = re.compile(r"(?:^|\s)[-*+•]\s")
_VALUE = re.compile(
    rf"[^\S{BREAKS}]+(?:[\"']?[\w./@$-]{{1,40}}[\"']?|\{{)(?:\s=\s[\w\"'.]{{1,40}})?[,;]?"
    rf"[^\S{BREAKS}]*(?:[{BREAKS}]|$)",
    re.A,
)
_JSON_VALUE = re.compile(r"\s{0,4}(?:[\"'\[{]|-?\d|[\w.()]{1,40}\s?[,})])", re.A)
_GROUP = re.compile(rf":[\w./:*!-]{{1,60}}\s?[{{,]?(?:[{BREAKS}]|$)", re.A)
_ENTRY = re.compile(r"\s{0,40}[\"']?([^\W\d][\w.-]{0,40})[\"']?\s{0,4}[:：=](?!//)")
_ROLE = re.compile(r"(?:system|user|assistant|human|ai|bot|developer|instruction|系统|用户|助手|人类)", re.I)


def _code(shown: str, found: re.Match[str]) -> bool:
    """A string of a program, an index, a link, an attribute, the head of a section of settings, a type's parameter."""
    at = found.start("open")
    if _in_string(shown, at) or shown.startswith(_CALLOUT, at):
        return True
    before, closed = shown[at - 1], _CLOSED.match(shown, at + 1)
    glued = before.isascii() and (before.isalnum() or before in "_])")
    if closed is None:
        return False
    after = closed.end()
    if shown[at] == "[":
        if _LINK_TARGET.match(shown, after):
            return True
        if glued and (_AFTER_INDEX.match(shown, after) or shown.startswith("override]", at + 1)):
            return True
        return _starts_line(shown, at, "[#!") and _ends_line(shown, after, at)
    return glued and bool(_AFTER_GENERIC.match(shown, after))


def _in_string(shown: str, at: int) -> bool:
    """Whether the nearest quote before `at` opens a string of code that closes on the same line."""
    line = shown[max(0, at - _REACH) : at].rpartition("\n")[2]
    quote = max(map(line.rfind, _QUOTES))
    if quote < 0 or not _BEFORE_STRING.search(line[max(0, quote - 12) : quote]):
        return False
    rest = shown[at : at + _REACH].partition("\n")[0]
    end = rest.find(line[quote])
    return end >= 0 and bool(_AFTER_STRING.match(rest, end + 1))


def _starts_line(shown: str, at: int, allowed: str) -> bool:
    """Whether only blanks and the allowed signs stand between the line's start and `at`."""
    lead = shown[max(0, at - 16) : at].rstrip(" \t" + allowed)
    return bool(lead) and lead[-1] in BREAKS


def _ends_line(shown: str, after: int, at: int) -> bool:
    """Whether the line ends at `after` and is an attribute (`#[…]`) or heads a setting (`name = …`)."""
    end = _LINE_END.match(shown, after)
    if end is None:
        return False
    if shown[at - 1] in "#!":
        return shown[at - 2] != "#"
    return bool(_SETTING.match(shown, end.end()))


def _generic(shown: str, found: re.Match[str]) -> bool:
    """A type's parameter (`List<S>`), or a list that holds a variable (`return [inst]`)."""
    at = found.start("open")
    if shown[at] == "<":
        return shown[at + 1].isupper() and shown[at - 1].isascii() and shown[at - 1].isalnum()
    listed = shown.startswith("inst]", at + 1) and _BEFORE_LIST.search(shown[max(0, at - 8) : at])
    return bool(listed and _AFTER_STRING.match(shown, found.end("close")))


def _record(shown: str, found: re.Match[str]) -> bool:
    """A placeholder (`<user>@<host>`), an element of a record, the head of a section of settings, an item of a list."""
    if _BULLET.search(found["lead"]):
        return True
    after = found.end("close")
    if found["open"] == "<":
        return bool(_GLUED.match(shown, after) or _ELEMENT.match(shown, after))
    return bool(_GLUED.match(shown, after)) or _code(shown, found)


def _entry(shown: str, found: re.Match[str]) -> bool:
    """An item of a list, a key of JSON, a name in its space (`<sys:x>`), `user:group`, a setting among others."""
    lead, colon = found["lead"], found.start("colon")
    if lead and _leads_entry(lead, shown, colon):
        return True
    who = shown[found.start("who") : found.end("who")]
    if who in ("user", "sys") and _GROUP.match(shown, colon):
        return True
    account = who.lower() == "user"
    if lead.strip() or not (who.islower() or account or not who.isascii()):
        return False
    if _VALUE.match(shown, colon + 1):
        return _among_entries(shown, found)
    return account and bool(_LINE_END.match(shown, colon + 1)) and _among_entries(shown, found, above=False)


def _leads_entry(lead: str, shown: str, colon: int) -> bool:
    """Whether what stands before the word makes it an item, a key of JSON or a name in its space."""
    if lead.endswith(('"', "'")) and shown[colon - 1] == lead[-1] and _JSON_VALUE.match(shown, colon + 1):
        return True
    if lead.endswith("<") and shown[colon + 1 : colon + 2].isalnum():
        return True
    return _BULLET.search(lead) is not None


def _among_entries(shown: str, found: re.Match[str], above: bool = True) -> bool:
    """Whether the line below, or that above as well, is an entry, and none is a role's."""
    start, end = found.start(), found.end()
    after = shown.find("\n", end, end + _REACH) + 1
    below = _ENTRY.match(shown, after) if after else None
    if below and _ROLE.match(below[1]):
        return False
    before = shown.rfind("\n", max(0, start - _REACH), start) + 1 if start and above else 0
    over = _ENTRY.match(shown, before) if before else None
    return (below or over) is not None and not (over and _ROLE.match(over[1]))


EXCUSES: dict[str, Excuse] = {"code": _code, "generic": _generic, "record": _record, "entry": _entry}
