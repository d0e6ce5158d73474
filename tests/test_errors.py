"""The error tree keeps its word: reasons are the contract's, and the drawing is the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc import errors
from memsvc.errors import MemsvcError, StartError

PROTO = Path(__file__).parent.parent / "proto/memsvc/v1/memory_service.proto"
STATUSES = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
}


def tree(root: type[MemsvcError] = MemsvcError) -> Iterator[type[MemsvcError]]:
    for child in root.__subclasses__():
        yield child
        yield from tree(child)


ALL = list(tree())
WIRE = [e for e in ALL if not issubclass(e, StartError) and "reason" in vars(e)]


@pytest.mark.parametrize("error", WIRE)
def test_every_error_of_the_wire_has_a_status_and_a_reason_of_the_contract(error: type[MemsvcError]) -> None:
    assert error.status in STATUSES
    assert re.search(rf"\b{error.reason}\b", PROTO.read_text())


def test_every_reason_of_the_contract_has_an_error() -> None:
    comments = " ".join(re.findall(r"//(.*)", PROTO.read_text()))
    words = set(re.findall(r"\b(?:[A-Z]+_[A-Z_]+|DELETED)\b", comments))
    assert words - STATUSES <= {e.reason for e in WIRE}
    assert "RED_LINE" in words


def test_no_two_errors_share_a_reason() -> None:
    reasons = [e.reason for e in ALL if "reason" in vars(e)]
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("error", ALL)
def test_the_drawing_shows_every_class_with_its_own_codes(error: type[MemsvcError]) -> None:
    line = next(line for line in (errors.__doc__ or "").splitlines() if re.search(rf"── {error.__name__}\b", line))
    if error in WIRE:
        assert re.search(rf"\b{error.reason}\b", line)
    if issubclass(error, StartError):
        assert error is StartError or re.search(rf"\b{error.exit_status}\b", line)


def test_a_start_error_is_one_line_whatever_a_library_said() -> None:
    assert errors.SettingWrong("MEMSVC_LISTEN", "not\nan\r\n  address").message == "MEMSVC_LISTEN: not an address"
