"""The trail of what was known of the user: written with each change, read by `memsvc core log`, gone with its scope."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from memsvc.model import Scope
from memsvc.store.core import LogEntry
from memsvc.store.sqlite import migrate, start
from memsvc.store.sqlite.scopes import find_scope


def note(
    db: sqlite3.Connection,
    scope_no: int,
    actor: str,
    change: str,
    item_id: str,
    now_us: int,
    before: str = "",
    after: str = "",
) -> None:
    """Adds an entry; `change` is one of those that LogEntry names."""
    db.execute(
        "INSERT INTO core_log (scope_no, created_us, actor, change, item_id, text_before, text_after) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (scope_no, now_us, actor, change, item_id, before, after),
    )


def erase(db: sqlite3.Connection, scope_no: int, item_id: str) -> None:
    """Takes a deleted fact's words out of all its entries: who did what and when stays."""
    db.execute(
        "UPDATE core_log SET text_before = '', text_after = '' WHERE scope_no = ? AND item_id = ?", (scope_no, item_id)
    )


def read(path: Path, scope: Scope) -> list[LogEntry]:
    """See memsvc.store.read_core_log."""
    with closing(start.open_beside(os.path.realpath(path), migrate.shipped())) as db:
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'core_log'").fetchone():
            return []  # written by an earlier version, which kept no facts
        rows = db.execute(
            "SELECT created_us, actor, change, item_id, text_before, text_after FROM core_log "
            "WHERE scope_no = ? ORDER BY entry_no",
            (find_scope(db, scope),),
        ).fetchall()
    return [LogEntry(*row) for row in rows]
