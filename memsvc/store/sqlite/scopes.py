"""Who is asked about: scopes and threads found by what callers name them. Units here take the connection first."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from memsvc.errors import Deleted, ThreadNotInScope
from memsvc.model import Scope
from memsvc.rules import ids
from memsvc.store import Page, ThreadRef

# Tombstones are nothing that a scope holds.
_HOLDS = " OR ".join(
    f"EXISTS (SELECT 1 FROM {table} AS held WHERE held.scope_no = scopes.scope_no{condition})"
    for table, condition in (
        ("threads", " AND state > 0"),
        *((table, "") for table in ("facts", "candidates", "notices", "memory_ops", "deleted_usage")),
    )
)


_RENAME = "UPDATE scopes SET tenant_id = ?, agent_id = ?, user_id = ?"


@dataclass(frozen=True, slots=True)
class Found:
    """A thread that a reference leads to; `thread_no` is 0 while nothing has been recorded in it."""

    thread_id: str
    thread_no: int = 0


def find_scope(db: sqlite3.Connection, scope: Scope) -> int:
    """Returns the scope's number, 0 where nothing was ever kept of it."""
    row = db.execute(
        "SELECT scope_no FROM scopes WHERE tenant_id = ? AND agent_id = ? AND user_id = ?", scope
    ).fetchone()
    return row[0] if row else 0


def ensure_scope(db: sqlite3.Connection, scope: Scope) -> int:
    """Returns the scope's number, made where it is missing; one that was deleted goes on under its old number."""
    if scope_no := find_scope(db, scope):
        return scope_no
    if scope_no := find_forgotten(db, scope):
        db.execute(f"{_RENAME} WHERE scope_no = ?", (*scope, scope_no))
        return scope_no
    made = db.execute("INSERT INTO scopes (tenant_id, agent_id, user_id) VALUES (?, ?, ?)", scope).lastrowid
    assert made is not None
    return made


def find_forgotten(db: sqlite3.Connection, scope: Scope) -> int:
    """Returns the number under which the tombstones of a deleted scope stand, 0 where it is none."""
    return find_scope(db, _nameless(db, scope))


def forget_names(db: sqlite3.Connection, scope_no: int, scope: Scope) -> None:
    """Leaves a keyed hash in place of a deleted scope's names, unless anything but its tombstones refers to it."""
    references = db.execute(
        'SELECT name, "from" FROM sqlite_schema JOIN pragma_foreign_key_list(name) '
        "WHERE type = 'table' AND \"table\" = 'scopes' AND name NOT IN ('tombstones', 'tombstone_keys')"
    ).fetchall()
    unused = " AND ".join(
        f"scope_no NOT IN (SELECT {column} FROM {table} WHERE {column} = ?4)" for table, column in references
    )
    db.execute(f"{_RENAME} WHERE scope_no = ?4 AND {unused}", (*_nameless(db, scope), scope_no))


def _nameless(db: sqlite3.Connection, scope: Scope) -> Scope:
    """Returns what a scope is called once it is deleted. Nobody can call one without a tenant."""
    (secret,) = db.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone() or (b"",)
    return Scope("", "", ids.forgotten(secret, scope))


def scopes(db: sqlite3.Connection) -> list[Scope]:
    """See Store.scopes."""
    rows = db.execute("SELECT tenant_id, agent_id, user_id FROM scopes WHERE tenant_id <> '' ORDER BY scope_no")
    return [Scope(*row) for row in rows]


def list_scopes(db: sqlite3.Connection, tenants: Collection[str] | None, page: Page) -> tuple[list[Scope], int]:
    """See Store.list_scopes. The position is the scope's number."""
    some = "" if tenants is None else f"AND tenant_id IN ({', '.join('?' * len(tenants))})"
    rows = db.execute(
        f"SELECT scope_no, tenant_id, agent_id, user_id FROM scopes WHERE scope_no > ? AND tenant_id <> '' {some} "
        f"AND ({_HOLDS}) ORDER BY scope_no LIMIT ?",
        (page.after, *(tenants or ()), page.size + 1),
    ).fetchall()
    listed = [Scope(*row[1:]) for row in rows[: page.size]]
    return listed, rows[page.size - 1][0] if len(rows) > page.size else 0


def find_thread(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, ref: ThreadRef) -> Found:
    """Returns the thread that `ref` names, whether or not anything was recorded in it.

    An id is known and of this scope, or unknown and minted for it; all else is ThreadNotInScope, and a deleted one
    Deleted. A key leads to its thread, after that was deleted to the next one.
    """
    if ref.thread_key:
        return _find_keyed(db, secret, scope, scope_no, ref.thread_key)
    # Another scope's is as good as none, and goes the same way: what is done for it must not tell the two apart.
    row = db.execute(
        "SELECT thread_no FROM threads WHERE thread_id = ? AND scope_no = ? AND state > 0", (ref.thread_id, scope_no)
    ).fetchone()
    if row:
        return Found(ref.thread_id, row[0])
    if thread_is_gone(db, secret, scope, scope_no, ref.thread_id):
        raise Deleted("thread")
    if not ids.bears_scope(secret, scope, ref.thread_id):
        raise ThreadNotInScope
    return Found(ref.thread_id)


def find_recorded(db: sqlite3.Connection, scope: Scope, thread_id: str) -> tuple[int, int]:
    """Returns the numbers of the scope and of a thread of it that has a run; else ThreadNotInScope."""
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT thread_no FROM threads WHERE thread_id = ? AND scope_no = ? AND run_count > 0",
        (thread_id, scope_no),
    ).fetchone()
    if not row:
        raise ThreadNotInScope
    return scope_no, row[0]


def bury(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, kind: str, name: str) -> None:
    """Leaves a tombstone: a keyed hash of an id, none of its words."""
    keys = tombstone_keys(db, scope_no)
    if not keys:
        keys = [ids.tombstone_key(secret, scope)]
        db.execute("INSERT INTO tombstone_keys VALUES (?, 1, ?)", (scope_no, keys[0]))
    db.execute(
        "INSERT INTO tombstones (scope_no, kind, digest) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + 1",
        (scope_no, kind, ids.tombstone(keys[0], kind, name)),
    )


def buried(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, kind: str, name: str) -> int:
    """Returns how often `name` was buried; 0 where it was not."""
    scope_no = scope_no or find_forgotten(db, scope)
    digests = _digests(db, secret, scope, scope_no, kind, name)
    (count,) = db.execute(
        f"SELECT coalesce(sum(count), 0) FROM tombstones WHERE kind = ? AND digest IN ({_marks(digests)}) "
        "AND scope_no IN (SELECT ? UNION ALL "
        "SELECT hidden_no FROM doomed WHERE scope_no = ? AND hidden_no IS NOT NULL)",
        (kind, *digests, scope_no, scope_no),
    ).fetchone()
    return int(count)


def lift(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, kind: str, name: str) -> bool:
    """Takes a tombstone away, because a person brought the thing back; returns whether there was one."""
    digests = _digests(db, secret, scope, scope_no, kind, name)
    return bool(
        db.execute(
            f"DELETE FROM tombstones WHERE scope_no = ? AND kind = ? AND digest IN ({_marks(digests)})",
            (scope_no, kind, *digests),
        ).rowcount
    )


def tombstone_keys(db: sqlite3.Connection, scope_no: int) -> list[bytes]:
    """Returns what the tombstones of a scope are keyed with, first the key of those to come; none while there are none.

    Those that the first versions left are keyed with the secret, which is not among them.
    """
    rows = db.execute("SELECT key FROM tombstone_keys WHERE scope_no = ? ORDER BY key_no", (scope_no,))
    return [key for (key,) in rows]


def _digests(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, kind: str, name: str) -> list[bytes]:
    """Returns every tombstone that `name` can have."""
    keys = tombstone_keys(db, scope_no)
    return [ids.first_tombstone(secret, scope, kind, name), *(ids.tombstone(key, kind, name) for key in keys)]


def _marks(values: Sequence[bytes]) -> str:
    return ", ".join("?" * len(values))


def thread_is_gone(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, thread_id: str) -> bool:
    """Tells whether a thread of that id was deleted: buried, or with its scope hidden and not taken out yet."""
    hidden = db.execute(
        # CROSS: what is hidden comes first, so that nothing is looked up where, as nearly always, there is nothing.
        "SELECT 1 FROM doomed CROSS JOIN threads ON threads.scope_no = hidden_no AND thread_id = ? AND state > 0 "
        "WHERE doomed.scope_no = ?",
        (thread_id, scope_no),
    ).fetchone()
    return bool(hidden) or bool(buried(db, secret, scope, scope_no, "thread", thread_id))


def run_is_gone(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, run_id: str) -> bool:
    """Tells whether a run of that id was deleted: buried, or with its scope hidden and not taken out yet."""
    return bool(buried(db, secret, scope, scope_no, "run", run_id)) or any(
        db.execute("SELECT 1 FROM runs WHERE scope_no = ? AND run_id = ?", (hidden_no, run_id)).fetchone()
        for hidden_no in _hidden(db, scope_no)
    )


def _hidden(db: sqlite3.Connection, scope_no: int) -> list[int]:
    """Returns what bore the scope's names before and is being taken out (see deletion.py); nearly always nothing."""
    rows = db.execute("SELECT hidden_no FROM doomed WHERE scope_no = ? AND hidden_no IS NOT NULL", (scope_no,))
    return [hidden_no for (hidden_no,) in rows]


def _find_keyed(db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int, key: str) -> Found:
    row = db.execute(
        "SELECT thread_id, thread_no FROM threads WHERE scope_no = ? AND thread_key = ? AND thread_key <> ''",
        (scope_no, key),
    ).fetchone()
    if row:
        return Found(*row)
    generation = buried(db, secret, scope, scope_no, "key", key)
    while True:
        thread_id = ids.mint_thread_id(secret, scope, ids.keyed_name(secret, scope, key, generation))
        # The runner may have recorded with the id alone, or deleted such a thread: then no row bears the key.
        try:
            return find_thread(db, secret, scope, scope_no, ThreadRef(thread_id))
        except Deleted:
            generation += 1
