"""Requests become values here, or the caller is told which field is wrong and what it should be; never its content."""

from __future__ import annotations

import re
import unicodedata
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.config import known_zone
from memsvc.errors import FieldTooLarge, InvalidField
from memsvc.model import NewRun, RunOutcome, Scope, ThreadState, Usage
from memsvc.rules.budget import MAX_BUDGET
from memsvc.store import ThreadRef
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc

MAX_INPUT_BYTES = 256 << 10
MAX_TEXT_BYTES = 1 << 20
MAX_NAME_CHARACTERS = 128
MAX_TITLE_CHARACTERS = 200
MAX_ACTOR_CHARACTERS = 64
MAX_LABELS = 16
MAX_LABEL_CHARACTERS = 64
MAX_TALLY = 10**12
"""Most tokens or millionths one run may tell of: a million such runs can still be added up in 64 bits."""

_NAME = re.compile(r"[A-Za-z0-9._:@-]{1,128}")
_LOCALE = re.compile(r"(zh|en)(-[A-Za-z0-9]{1,8})*", re.I)
_MICROSECOND = 1_000_000
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # the years 1 to 9999, as Timestamp has them

E = TypeVar("E", RunOutcome, ThreadState)


def scope(message: pb.Scope) -> Scope:
    """Returns the scope; tenant and agent are required."""
    for name, value in (("scope.tenant_id", message.tenant_id), ("scope.agent_id", message.agent_id)):
        if not _NAME.fullmatch(value):
            raise InvalidField(name, "required: 1 to 128 letters, digits or . _ - : @")
    if message.user_id and not _NAME.fullmatch(message.user_id):
        raise InvalidField("scope.user_id", "must be empty, or 1 to 128 letters, digits or . _ - : @")
    return Scope(message.tenant_id, message.agent_id, message.user_id)


def thread_ref(thread_id: str, thread_key: str) -> ThreadRef:
    """Returns how the caller names the thread; not in both ways."""
    if thread_id and thread_key:
        raise InvalidField("thread_key", "give thread_id or thread_key, not both")
    short("thread_key", thread_key)
    return ThreadRef(thread_id, thread_key)


def new_run(request: svc.RecordRunRequest) -> NewRun:
    """Returns the run to record; nothing in it is changed."""
    text("input", request.input, MAX_INPUT_BYTES)
    text("output", request.output, MAX_TEXT_BYTES)
    for name, value in (("run_id", request.run_id), ("provider", request.provider), ("model", request.model)):
        short(name, value)
    tally("context_token_count", request.context_token_count)
    _labels(dict(request.labels))
    return NewRun(
        run_id=request.run_id,
        input=request.input,
        output=request.output,
        outcome=_outcome(request.outcome),
        provider=request.provider,
        model=request.model,
        usage=_usage(request.usage),
        ended_us=time_us("end_time", request.end_time) if request.HasField("end_time") else None,
        context_token_count=request.context_token_count,
        labels=dict(request.labels),
    )


def text(field: str, value: str, limit_bytes: int) -> str:
    """Returns a text of at most `limit_bytes` of UTF-8."""
    if len(value) > limit_bytes or (len(value) * 4 > limit_bytes and len(value.encode()) > limit_bytes):
        raise FieldTooLarge(field, limit_bytes)
    return value


def short(field: str, value: str, limit: int = MAX_NAME_CHARACTERS) -> str:
    """Returns a name of at most `limit` characters."""
    if len(value) > limit:
        raise InvalidField(field, f"must be at most {limit} characters")
    return value


def required(field: str, value: str) -> str:
    """Returns an id that must not be empty; one too long to be ours is looked up and not found."""
    if not value:
        raise InvalidField(field, "is required")
    return value


def tally(field: str, value: int) -> int:
    """Returns a count that is not negative and can be added up."""
    if not 0 <= value <= MAX_TALLY:
        raise InvalidField(field, f"must be from 0 to {MAX_TALLY}")
    return value


def token_budget(budget: int, reserved: int) -> tuple[int, int]:
    """Returns the tokens to share and those that are taken already."""
    if not 0 <= budget <= MAX_BUDGET:
        raise InvalidField("token_budget", f"must be from 0 to {MAX_BUDGET}; 0 means the default")
    return budget, tally("reserved_tokens", reserved)


def capped(field: str, value: int, default: int, most: int) -> int:
    """Returns how many of something to give: 0 means `default`, and more than `most` is read as `most`."""
    if value < 0:
        raise InvalidField(field, f"must not be negative; 0 means {default}")
    return min(value or default, most)


def locale(value: str) -> str:
    """Returns 'zh', 'en', or '' where none is named."""
    if not value:
        return ""
    found = _LOCALE.fullmatch(value)
    if not found:
        raise InvalidField("locale", "must be a BCP 47 tag that starts with zh or en, or empty")
    return found[1].lower()


def time_zone(value: str) -> str:
    """Returns an IANA name, or '' for the server's."""
    if value and not known_zone(value):
        raise InvalidField("time_zone", "must be an IANA time zone, as Asia/Shanghai, or empty")
    return value


def time_us(field: str, value: Timestamp) -> int:
    """Returns a time in microseconds since the epoch."""
    if not (_FIRST_SECOND <= value.seconds <= _LAST_SECOND and 0 <= value.nanos < 10**9):
        raise InvalidField(field, "must be a time from year 1 to 9999, with nanos from 0 to 999999999")
    return value.seconds * _MICROSECOND + value.nanos // 1000


def span(start: Timestamp | None, end: Timestamp | None) -> tuple[int | None, int | None]:
    """Returns a half-open span of time; a missing end is open."""
    start_us = time_us("start_time", start) if start is not None else None
    end_us = time_us("end_time", end) if end is not None else None
    if start_us is not None and end_us is not None and end_us < start_us:
        raise InvalidField("end_time", "must not be before start_time")
    return start_us, end_us


def thread_states(state: int, include_archived: bool) -> tuple[ThreadState, ...]:
    """Returns the states to list; unspecified means active."""
    if state not in (0, *ThreadState):
        raise InvalidField("state", "is no state that this daemon knows")
    if include_archived:
        return tuple(ThreadState)
    return (ThreadState(state or ThreadState.ACTIVE),)


def run_view(view: int, default: int) -> int:
    """Returns how much of a run to show."""
    if view not in pb.RunView.values():
        raise InvalidField("view", "is no view that this daemon knows")
    return view or default


def title(value: str) -> str:
    """Returns a title a person chose, on one line."""
    line = " ".join(value.split())
    if not 1 <= len(line) <= MAX_TITLE_CHARACTERS:
        raise InvalidField("title", f"must be 1 to {MAX_TITLE_CHARACTERS} characters")
    if all(unicodedata.category(c)[0] in "CZM" for c in line):
        raise InvalidField("title", "must hold something that can be seen")
    return line


def actor(value: str) -> str:
    """Returns the name of the person behind a credential, on one line; empty where none is given."""
    name = short("actor", value.strip(), MAX_ACTOR_CHARACTERS)
    if name and not name.isprintable():
        raise InvalidField("actor", "must be a name on one line")
    return name


def _outcome(value: int) -> RunOutcome:
    if value not in tuple(RunOutcome):
        raise InvalidField("outcome", "required: COMPLETED, FAILED or CANCELLED")
    return RunOutcome(value)


def _usage(message: pb.Usage) -> Usage:
    return Usage(
        tally("usage.input_tokens", message.input_tokens),
        tally("usage.output_tokens", message.output_tokens),
        tally("usage.cost_micros", message.cost_micros),
    )


def _labels(labels: dict[str, str]) -> None:
    if len(labels) > MAX_LABELS:
        raise InvalidField("labels", f"must be at most {MAX_LABELS}")
    if any(
        not key or len(key) > MAX_LABEL_CHARACTERS or len(value) > MAX_LABEL_CHARACTERS for key, value in labels.items()
    ):
        raise InvalidField("labels", f"each must be 1 to {MAX_LABEL_CHARACTERS} characters, its value at most as many")
