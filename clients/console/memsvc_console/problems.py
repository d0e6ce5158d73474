"""What can go wrong, as a person is told it: a title, what to do about it, and the status of the answer."""

from __future__ import annotations

from dataclasses import dataclass

from memsvc_client import (
    DeadlineExceeded,
    Deleted,
    DiskFull,
    FieldTooLarge,
    InvalidField,
    MemsvcError,
    NotFound,
    PermissionDenied,
    RedLine,
    ResourceExhausted,
    RoleDenied,
    ThreadNotInScope,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)

from memsvc_console.i18n import Words

KINDS: tuple[tuple[type[MemsvcError], str, int], ...] = (
    (RedLine, "redline", 422),
    (FieldTooLarge, "large", 422),
    (InvalidField, "field", 422),
    (ThreadNotInScope, "gone", 404),
    (NotFound, "gone", 404),
    (Deleted, "gone", 410),
    (Unauthenticated, "unauthenticated", 502),
    (RoleDenied, "role", 403),
    (PermissionDenied, "scope", 403),
    (DiskFull, "disk", 507),
    (ResourceExhausted, "busy", 503),
    (Unavailable, "unavailable", 503),
    (DeadlineExceeded, "deadline", 504),
    (Unimplemented, "old", 501),
)
"""The first that fits; what fits none is told in the daemon's own words."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`key` names the kind, as "unavailable"; `title` and `advice` are in the reader's language."""

    key: str
    title: str
    advice: str
    status: int
    reason: str = ""


def problem_of(error: MemsvcError, words: Words, daemon: str) -> Problem:
    """What a failed call means to a person. `daemon` is the address that was asked."""
    key, status = next(((key, status) for kind, key, status in KINDS if isinstance(error, kind)), ("other", 502))
    values: dict[str, object] = {"daemon": daemon, "message": error.message, "field": error.metadata.get("field", "")}
    if isinstance(error, RedLine):
        values["category"] = words.get(f"category.{error.category}", "category.other")
    if isinstance(error, FieldTooLarge):
        values["limit"] = error.limit_bytes
    reason = error.reason or error.code.name
    advice = words.get(f"problem.{key}.{values['field']}.do", f"problem.{key}.do", **values)
    return Problem(key, words(f"problem.{key}"), advice, status, reason)


def own_problem(key: str, words: Words, status: int) -> Problem:
    """A problem that the console itself found."""
    return Problem(key, words(f"problem.{key}"), words(f"problem.{key}.do"), status)
