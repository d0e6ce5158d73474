"""The lines of an export: what each says, how it is written, and what of a stranger's file may be believed.

A file is JSON lines in UTF-8: a header, then the kinds of lines below in the order of `KINDS`, then an end that counts
them. docs/export.md is the same for people. Nothing here knows a database: numbers of rows do not leave it, a place in
an order is a line's place, and how far a summary reaches is a number of runs.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from memsvc.errors import ImportInvalid
from memsvc.rules.facts import MAX_CHARACTERS, MAX_SOURCES
from memsvc.rules.fields import (
    Check,
    flag,
    fraction,
    hexadecimal,
    integer,
    labels,
    listing,
    maybe,
    name,
    one_of,
    text,
    thread_id,
)

VERSION = 1
MAX_LINE_BYTES = 8 << 20
"""A run of a megabyte and a quarter takes less in any spelling of JSON."""
MAX_INPUT_BYTES = 256 << 10
MAX_OUTPUT_BYTES = 1 << 20
MAX_SUMMARY_BYTES = 1 << 20
MAX_TITLE_CHARACTERS = 4_000
MAX_NAMES = 10_000
MAX_KEYS = 16
"""Databases whose tombstones one scope may hold: its own, and those it was imported from."""
MAX_TALLY = 10**12

FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999

OUTCOMES = {"COMPLETED": 1, "FAILED": 2, "CANCELLED": 3}
OP_KINDS = {"FOLD": 1, "EXTRACT": 2}
NOTICE_KINDS = {"PROVIDER_CHANGE": 1, "UNKNOWN_PROVIDER": 2, "ALLOWANCE_SPENT": 3}


_NAME = name(128)
_ID = name(128, 1)
_TALLY = integer(0, MAX_TALLY)
_TIME = integer(FIRST_US, LAST_US)
_PROVIDERS = listing(_NAME, MAX_NAMES)
_SOURCES = listing(_ID, MAX_SOURCES)
_THREAD, _LABELS = thread_id, labels
_INPUT, _OUTPUT, _SUMMARY = text(MAX_INPUT_BYTES), text(MAX_OUTPUT_BYTES), text(MAX_SUMMARY_BYTES)
_FACT = name(MAX_CHARACTERS, 1)
_REQUIRED: Any = object()
_UNLABELLED: Any = {}


def _is(check: Check, default: Any = _REQUIRED) -> Any:
    """A field of a line; one with a default may be missing."""
    return field(metadata={"check": check, "default": default})


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; its `kind` is the value of "type"."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Header(Line):
    """The first line. The scope is whose export it is, and says nothing of where it may be imported."""

    kind: ClassVar[str] = "memsvc-export"
    version: int = _is(integer(1, 10**9))
    tenant_id: str = _is(_NAME, "")
    agent_id: str = _is(_NAME, "")
    user_id: str = _is(_NAME, "")


@dataclass(frozen=True, slots=True)
class Key(Line):
    """What the digests of tombstones are keyed with."""

    kind: ClassVar[str] = "tombstone_key"
    key: str = _is(hexadecimal(32))


@dataclass(frozen=True, slots=True)
class Tombstone(Line):
    """Something that was deleted or rejected, by the keyed hash of its id or words, and how often it was."""

    kind: ClassVar[str] = "tombstone"
    of: str = _is(one_of(dict.fromkeys(("thread", "run", "key", "fact"), 0)))
    digest: str = _is(hexadecimal(16))
    count: int = _is(integer(1, 10**9), 1)


@dataclass(frozen=True, slots=True)
class ThreadLine(Line):
    """A thread; its runs follow. `extracted_run_count` is how many of them were looked at for facts."""

    kind: ClassVar[str] = "thread"
    thread_id: str = _is(_THREAD)
    thread_key: str = _is(_NAME, "")
    title: str = _is(name(MAX_TITLE_CHARACTERS), "")
    title_named: bool = _is(flag, False)
    archived: bool = _is(flag, False)
    locale: str = _is(one_of({"zh": 0, "en": 0}))
    created_us: int = _is(_TIME)
    updated_us: int = _is(_TIME)
    extracted_run_count: int = _is(_TALLY, 0)


@dataclass(frozen=True, slots=True)
class RunLine(Line):
    """A run, in the order of recording. The first `own_offset` characters of its input are a context block of ours."""

    kind: ClassVar[str] = "run"
    run_id: str = _is(_ID)
    thread_id: str = _is(_THREAD)
    outcome: str = _is(one_of(OUTCOMES))
    input: str = _is(_INPUT)
    output: str = _is(_OUTPUT)
    own_offset: int = _is(_TALLY, 0)
    provider: str = _is(_NAME, "")
    served_by: str = _is(_NAME, "")
    model: str = _is(_NAME, "")
    input_tokens: int = _is(_TALLY, 0)
    output_tokens: int = _is(_TALLY, 0)
    cost_micros: int = _is(_TALLY, 0)
    context_token_count: int = _is(_TALLY, 0)
    labels: Mapping[str, str] = _is(_LABELS, _UNLABELLED)
    created_us: int = _is(_TIME)
    ended_us: int = _is(_TIME)


@dataclass(frozen=True, slots=True)
class SummaryLine(Line):
    """A summary of a thread's first runs. The last one of a thread is current, it falls back to those before."""

    kind: ClassVar[str] = "summary"
    thread_id: str = _is(_THREAD)
    run_count: int = _is(integer(1, MAX_TALLY))
    text: str = _is(_SUMMARY)
    providers: tuple[str, ...] = _is(_PROVIDERS, ())


@dataclass(frozen=True, slots=True)
class FactLine(Line):
    """A confirmed fact, in the order of confirmation; `candidate_ids` are those that became it."""

    kind: ClassVar[str] = "fact"
    fact_id: str = _is(_ID)
    text: str = _is(_FACT)
    served_by: tuple[str, ...] = _is(_PROVIDERS, ())
    confirmed_by: str = _is(name(256), "")
    created_us: int = _is(_TIME)
    last_used_us: int = _is(_TIME)
    source_run_ids: tuple[str, ...] = _is(_SOURCES, ())
    candidate_ids: tuple[str, ...] = _is(listing(_ID, MAX_NAMES), ())


@dataclass(frozen=True, slots=True)
class CandidateLine(Line):
    """A proposed fact, in the order of proposal."""

    kind: ClassVar[str] = "candidate"
    candidate_id: str = _is(_ID)
    text: str = _is(_FACT)
    confidence: float = _is(fraction)
    supersedes_fact_id: str = _is(_NAME, "")
    served_by: tuple[str, ...] = _is(_PROVIDERS, ())
    created_us: int = _is(_TIME)
    source_run_ids: tuple[str, ...] = _is(_SOURCES, ())


@dataclass(frozen=True, slots=True)
class OpLine(Line):
    """A call of a model that memory made for itself; `thread_id` is null where the thread was deleted."""

    kind: ClassVar[str] = "memory_op"
    thread_id: str | None = _is(maybe(_THREAD), None)
    op: str = _is(one_of(OP_KINDS))
    provider: str = _is(_NAME, "")
    model: str = _is(_NAME, "")
    input_tokens: int = _is(_TALLY, 0)
    output_tokens: int = _is(_TALLY, 0)
    cost_micros: int = _is(_TALLY, 0)
    error_reason: str = _is(_NAME, "")
    created_us: int = _is(_TIME)
    duration_ms: int = _is(_TALLY, 0)


@dataclass(frozen=True, slots=True)
class DeletedUsageLine(Line):
    """What a deleted run had cost."""

    kind: ClassVar[str] = "deleted_usage"
    created_us: int = _is(_TIME)
    provider: str = _is(_NAME, "")
    input_tokens: int = _is(_TALLY, 0)
    output_tokens: int = _is(_TALLY, 0)
    cost_micros: int = _is(_TALLY, 0)


@dataclass(frozen=True, slots=True)
class NoticeLine(Line):
    """A notice; `acknowledged_us` is null until somebody acknowledged it."""

    kind: ClassVar[str] = "notice"
    notice: str = _is(one_of(NOTICE_KINDS))
    from_provider: str = _is(_NAME, "")
    to_provider: str = _is(_NAME, "")
    occasion: str = _is(_NAME, "")
    text: str = _is(_SUMMARY, "")
    created_us: int = _is(_TIME)
    acknowledged_us: int | None = _is(maybe(_TIME), None)


@dataclass(frozen=True, slots=True)
class ChangeLine(Line):
    """An entry of the trail of what was known."""

    kind: ClassVar[str] = "change"
    created_us: int = _is(_TIME)
    actor: str = _is(name(256), "")
    change: str = _is(name(32, 1))
    item_id: str = _is(_NAME, "")
    text_before: str = _is(name(MAX_CHARACTERS), "")
    text_after: str = _is(name(MAX_CHARACTERS), "")


@dataclass(frozen=True, slots=True)
class End(Line):
    """The last line: how many stand before it. A file without it was cut off."""

    kind: ClassVar[str] = "end"
    line_count: int = _is(_TALLY)


KINDS: tuple[type[Line], ...] = (
    *(Header, Key, Tombstone, ThreadLine, RunLine, SummaryLine, FactLine, CandidateLine),
    *(OpLine, DeletedUsageLine, NoticeLine, ChangeLine, End),
)
"""The kinds of lines in the order in which they stand in a file."""

_RANKS = {kind.kind: rank for rank, kind in enumerate(KINDS)}
_IN_BASE64 = ("input", "output")


def encode(line: Line) -> bytes:
    """Returns a line with its line feed. The same values give the same bytes.

    A text that JSON would blow up (control characters, six bytes each) is written in base64, so that no line is above
    2 MiB and a reader with the usual limits can take it.
    """
    content: dict[str, Any] = {"type": line.kind}
    for name_of, _, _ in _specification(type(line)):
        content[name_of] = getattr(line, name_of)
    encoded = _json(content)
    if isinstance(line, RunLine) and len(encoded) > (len(line.input) + len(line.output)) * 3 // 2 + 4_096:
        for name_of in _IN_BASE64:
            said = content.pop(name_of)
            content[f"{name_of}_base64"] = base64.b64encode(said.encode()).decode()
        encoded = _json(content)
    return encoded.encode() + b"\n"


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def decode(number: int, data: bytes) -> Line:
    """Reads line `number` of a file; ImportInvalid says what is wrong with it. Fields nobody knows are passed over."""
    content = read_object(number, data)
    kind = content.get("type")
    rank = _RANKS.get(kind) if isinstance(kind, str) else None
    if rank is None:
        raise ImportInvalid(number, "is of no type that this version knows; export with this version, or a newer one")
    made = KINDS[rank]
    if made is RunLine:
        _from_base64(number, content)
    return _made(number, made, content)


def read_object(number: int, data: bytes) -> dict[str, Any]:
    """Reads line `number` of JSON lines as the object that it must be. ImportInvalid."""
    try:
        content = json.loads(data.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, a number of a million digits; a thousand brackets
        raise ImportInvalid(number, "is not a line of JSON in UTF-8") from None
    if not isinstance(content, dict):
        raise ImportInvalid(number, "is not an object; each line is one")
    return content


def _no_constant(word: str) -> Any:
    raise ValueError(word)


def _from_base64(number: int, content: dict[str, Any]) -> None:
    for name_of in _IN_BASE64:
        said = content.get(f"{name_of}_base64")
        if said is None or name_of in content:
            continue
        try:
            content[name_of] = base64.b64decode(said, validate=True).decode()
        except (TypeError, ValueError, binascii.Error):
            raise ImportInvalid(number, f"{name_of}_base64 is not UTF-8 in base64") from None


def _made(number: int, kind: type[Line], content: Mapping[str, Any]) -> Line:
    values = {}
    for name_of, check, default in _specification(kind):
        value = content.get(name_of, default)
        if value is _REQUIRED:
            raise ImportInvalid(number, f"{name_of} is missing; a line of type {kind.kind} needs it")
        try:
            values[name_of] = check(value)
        except ValueError as why:
            raise ImportInvalid(number, f"{name_of} {why}") from None
    return kind(**values)


def _specification(kind: type[Line]) -> list[tuple[str, Check, Any]]:
    return _SPECIFICATIONS[kind.kind]


_SPECIFICATIONS: dict[str, list[tuple[str, Check, Any]]] = {
    kind.kind: [(each.name, each.metadata["check"], each.metadata["default"]) for each in fields(kind)]
    for kind in KINDS
}
