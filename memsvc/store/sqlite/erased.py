"""A row that says: of what was deleted, no word is left in the files. So a start need not read them to be sure.

Whatever deletes takes the row away in its own transaction, and the janitor puts it back when it has erased all. A crash
in between leaves none, and then all is owed, as in a file that never had one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def note(db: sqlite3.Connection) -> None:
    """Says that all is erased."""
    db.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('erased', x'')")


def forget(db: sqlite3.Connection) -> None:
    """Says that something is to be erased."""
    db.execute("DELETE FROM meta WHERE name = 'erased'")


def forgetting(
    db: sqlite3.Connection,
    unit: Callable[Concatenate[sqlite3.Connection, P], T],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Does a unit that deletes, and says so."""
    forget(db)
    return unit(db, *args, **kwargs)


def is_noted(db: sqlite3.Connection) -> bool:
    """Tells whether all was erased, and nothing is doomed."""
    return not db.execute(
        "SELECT NOT EXISTS (SELECT 1 FROM meta WHERE name = 'erased') OR EXISTS (SELECT 1 FROM doomed)"
    ).fetchone()[0]
