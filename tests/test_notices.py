"""Notices: raised once, acknowledged for good, and never more of them than anyone would read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.model import NoticeKind, Scope
from memsvc.store import NewNotice, Page
from memsvc.store.sqlite import deletion, migrate, ops, sweeping
from memsvc.store.sqlite.ops import MAX_UNREAD_NOTICES
from memsvc.store.sqlite.scopes import ensure_scope, find_scope, list_scopes

SCOPE = Scope("t", "a", "u")


@pytest.fixture
def db(tmp_path: Path) -> sqlite3.Connection:
    """A migrated database, as plain as the units take it."""
    connection = sqlite3.connect(tmp_path / "notices.db", isolation_level=None)
    migrate.apply(connection, migrate.shipped(), 1)
    assert ensure_scope(connection, SCOPE) == 1
    return connection


def _unknown(name: str) -> NewNotice:
    return NewNotice(NoticeKind.UNKNOWN_PROVIDER, "text", name, "builtin")


def test_the_same_notice_is_raised_once_even_after_it_was_said(db: sqlite3.Connection) -> None:
    with closing(db):
        ops.raise_notice(db, SCOPE, 1, _unknown("x"), 1)
        ops.raise_notice(db, SCOPE, 1, _unknown("x"), 2)
        (notice,) = ops.list_notices(db, SCOPE)
        ops.acknowledge_notice(db, SCOPE, notice.notice_id, 3)
        ops.acknowledge_notice(db, SCOPE, notice.notice_id, 4)
        ops.raise_notice(db, SCOPE, 1, _unknown("x"), 5)
        assert ops.list_notices(db, SCOPE) == []


def test_a_runner_that_invents_providers_fills_nothing(db: sqlite3.Connection) -> None:
    with closing(db):
        for number in range(MAX_UNREAD_NOTICES + 50):
            ops.raise_notice(db, SCOPE, 1, _unknown(f"p{number}"), number)
        found = ops.list_notices(db, SCOPE)
        assert len(found) == MAX_UNREAD_NOTICES
        other = Scope("t", "a", "other")
        ops.raise_notice(db, other, ensure_scope(db, other), _unknown("p"), 1)
        assert len(ops.list_notices(db, other)) == 1
        ops.acknowledge_notice(db, SCOPE, found[0].notice_id, 1)
        ops.raise_notice(db, SCOPE, 1, _unknown("one more"), 2)
        assert ops.list_notices(db, SCOPE)[-1].from_provider == "one more"


@pytest.mark.parametrize("begun_anew", [False, True], ids=["gone", "begun anew"])
@pytest.mark.parametrize("swept", [False, True], ids=["hidden", "swept"])
def test_a_notice_for_a_scope_that_was_deleted_meanwhile_makes_none_and_is_not_told_to_the_next(
    db: sqlite3.Connection, swept: bool, begun_anew: bool
) -> None:
    with closing(db):
        secret = b"s" * 32
        ops.raise_notice(db, SCOPE, 1, _unknown("before"), 1)
        deletion.delete_scope(db, secret, SCOPE)
        while swept and sweeping.sweep(db, secret, None).more:
            pass
        if begun_anew:
            assert ensure_scope(db, SCOPE) != 1
        named = find_scope(db, SCOPE)
        ops.raise_notice(db, SCOPE, 1, _unknown("late"), 2)
        assert find_scope(db, SCOPE) == named
        assert ops.list_notices(db, SCOPE) == []
        assert list_scopes(db, None, Page(0, 10))[0] == []
