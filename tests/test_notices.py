"""Notices: raised once, acknowledged for good, and never more of them than anyone would read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.model import NoticeKind, Scope
from memsvc.store import NewNotice
from memsvc.store.sqlite import migrate, ops
from memsvc.store.sqlite.ops import MAX_UNREAD_NOTICES

SCOPE = Scope("t", "a", "u")


@pytest.fixture
def db(tmp_path: Path) -> sqlite3.Connection:
    """A migrated database, as plain as the units take it."""
    connection = sqlite3.connect(tmp_path / "notices.db", isolation_level=None)
    migrate.apply(connection, migrate.shipped(), 1)
    return connection


def _unknown(name: str) -> NewNotice:
    return NewNotice(NoticeKind.UNKNOWN_PROVIDER, "text", name, "builtin")


def test_the_same_notice_is_raised_once_even_after_it_was_said(db: sqlite3.Connection) -> None:
    with closing(db):
        ops.raise_notice(db, SCOPE, _unknown("x"), 1)
        ops.raise_notice(db, SCOPE, _unknown("x"), 2)
        (notice,) = ops.list_notices(db, SCOPE)
        ops.acknowledge_notice(db, SCOPE, notice.notice_id, 3)
        ops.acknowledge_notice(db, SCOPE, notice.notice_id, 4)
        ops.raise_notice(db, SCOPE, _unknown("x"), 5)
        assert ops.list_notices(db, SCOPE) == []


def test_a_runner_that_invents_providers_fills_nothing(db: sqlite3.Connection) -> None:
    with closing(db):
        for number in range(MAX_UNREAD_NOTICES + 50):
            ops.raise_notice(db, SCOPE, _unknown(f"p{number}"), number)
        found = ops.list_notices(db, SCOPE)
        assert len(found) == MAX_UNREAD_NOTICES
        other = Scope("t", "a", "other")
        ops.raise_notice(db, other, _unknown("p"), 1)
        assert len(ops.list_notices(db, other)) == 1
        ops.acknowledge_notice(db, SCOPE, found[0].notice_id, 1)
        ops.raise_notice(db, SCOPE, _unknown("one more"), 2)
        assert ops.list_notices(db, SCOPE)[-1].from_provider == "one more"
