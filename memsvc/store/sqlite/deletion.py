"""Deleted means deleted: what is deleted is hidden in one short transaction, then taken out in steps (sweeping.py).

Hiding a thread or a scope writes a few rows, however many runs there are, so no other write waits long for it. A
hidden thread has lost its id, its title, its summary and its count; a hidden scope its names, and whoever asks for them
finds a new, empty one. Runs that leave a thread which stays are hidden in a thread of their own. What is hidden stands
in `doomed` and is due whatever happens meanwhile. Tombstones of runs are left as they are taken out; until then the run
itself, hidden, is the sign that it was deleted (scopes.py).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from itertools import takewhile

from memsvc.errors import RunNotFound
from memsvc.model import RECENT_RUNS, Scope
from memsvc.rules.shown import title
from memsvc.store.sqlite import core
from memsvc.store.sqlite.scopes import ensure_scope, find_recorded, find_scope
from memsvc.store.sqlite.sweeping import Grave
from memsvc.store.values import DeletedScope

HIDE_RUNS = 100
HIDE_MS = 20
"""Most runs that retention takes from a thread at once, and for how long: moving one of a mebibyte takes some ms."""


_SOURCES_IN_THREAD = " UNION ".join(
    # From the facts, which are few, and not from the runs.
    f"SELECT sequence FROM {table}s JOIN {table}_sources USING ({table}_no) JOIN runs USING (sequence) "
    f"WHERE {table}s.scope_no = (SELECT scope_no FROM threads WHERE thread_no = ?1) AND runs.thread_no = ?1"
    for table in ("fact", "candidate")
)


def delete_run(db: sqlite3.Connection, secret: bytes, scope: Scope, run_id: str) -> str:
    """See Store.delete_run. The run is hidden and doomed."""
    row = db.execute(
        "SELECT runs.scope_no, thread_no, sequence, thread_id FROM runs JOIN threads USING (thread_no) "
        "WHERE runs.scope_no = ? AND run_id = ? AND state > 0",
        (find_scope(db, scope), run_id),
    ).fetchone()
    if not row:
        raise RunNotFound
    scope_no, thread_no, sequence, thread_id = row
    _hide_runs(db, scope_no, thread_no, [sequence])
    return str(thread_id)


def delete_thread(db: sqlite3.Connection, secret: bytes, scope: Scope, thread_id: str) -> int:
    """See Store.delete_thread. The thread is hidden and doomed."""
    scope_no, thread_no = find_recorded(db, scope, thread_id)
    return _hide_thread(db, Grave(secret, scope, scope_no), thread_no)


def delete_scope(db: sqlite3.Connection, secret: bytes, scope: Scope) -> DeletedScope:
    """See Store.delete_scope. The scope is hidden and doomed."""
    hidden_no = find_scope(db, scope)
    runs = "(SELECT coalesce(sum(run_count), 0) FROM threads WHERE scope_no = :no)"
    threads = "(SELECT count(*) FROM threads WHERE scope_no = :no AND run_count > 0)"
    facts = "(SELECT count(*) FROM facts WHERE scope_no = :no)"
    deleted = DeletedScope(*db.execute(f"SELECT {threads}, {runs}, {facts}", {"no": hidden_no}).fetchone())
    if hidden_no:
        # Nobody can call a scope without a tenant; the names lead to a new row from now on.
        nameless = ("", "", str(hidden_no), hidden_no)
        db.execute("UPDATE scopes SET tenant_id = ?, agent_id = ?, user_id = ? WHERE scope_no = ?", nameless)
        scope_no = ensure_scope(db, scope)
        # A hash of words is forgotten with them; hashes of ids stay, so that no retry brings anything back.
        db.execute("DELETE FROM tombstones WHERE scope_no = ? AND kind = 'fact'", (hidden_no,))
        db.execute("UPDATE tombstone_keys SET scope_no = ? WHERE scope_no = ?", (scope_no, hidden_no))
        db.execute("UPDATE doomed SET scope_no = ? WHERE scope_no = ?", (scope_no, hidden_no))
        db.execute("INSERT INTO doomed (scope_no, hidden_no) VALUES (?, ?)", (scope_no, hidden_no))
    return deleted


def aged_threads(db: sqlite3.Connection, scope: Scope, before_us: int) -> list[str]:
    """See Store.aged_threads."""
    rows = db.execute(
        "SELECT thread_id FROM threads AS t WHERE scope_no = ? AND run_count > 0 AND (SELECT created_us FROM runs "
        "WHERE thread_no = t.thread_no ORDER BY sequence LIMIT 1) < ? ORDER BY last_sequence",
        (find_scope(db, scope), before_us),
    )
    return [thread_id for (thread_id,) in rows]


def expire(db: sqlite3.Connection, secret: bytes, scope: Scope, thread_id: str, before_us: int) -> bool:
    """See Store.expire: one batch."""
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT thread_no FROM threads WHERE scope_no = ? AND thread_id = ? AND run_count > 0", (scope_no, thread_id)
    ).fetchone()
    if not row:
        return False
    (thread_no,) = row
    # From the first on, as long as they are old: where the clock had stepped back, what was recorded before a run
    # vouches for it.
    first = db.execute(
        "SELECT sequence, created_us FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT ?",
        (thread_no, HIDE_RUNS + 1),
    ).fetchall()
    old = [sequence for sequence, _ in takewhile(lambda run: run[1] < before_us, first)]
    if len(old) == len(first) <= HIDE_RUNS:
        _hide_thread(db, Grave(secret, scope, scope_no), thread_no)
        return False
    return bool(old) and _hide_runs(db, scope_no, thread_no, old[:HIDE_RUNS]) < len(old)


def hides(db: sqlite3.Connection, scope: Scope) -> bool:
    """Tells whether anything of a scope is hidden and still to be taken out; its runs have no tombstones yet."""
    row = db.execute("SELECT 1 FROM doomed WHERE scope_no = ? LIMIT 1", (find_scope(db, scope),)).fetchone()
    return row is not None


def _hide_thread(db: sqlite3.Connection, grave: Grave, thread_no: int) -> int:
    """Takes from a thread all that it is found by and all it says of its runs; returns how many those are."""
    thread_id, key, count = db.execute(
        "SELECT thread_id, thread_key, run_count FROM threads WHERE thread_no = ?", (thread_no,)
    ).fetchone()
    grave.bury(db, "thread", thread_id)
    if key:
        grave.bury(db, "key", key)
    core.drop_sources(db, _SOURCES_IN_THREAD, thread_no)
    db.execute("DELETE FROM checkpoints WHERE thread_no = ?", (thread_no,))
    db.execute(
        "UPDATE threads SET thread_id = 'hidden ' || thread_no, thread_key = '', title = '', state = 0, run_count = 0, "
        "last_sequence = 0, revision = revision + 1, summary = '', summary_providers = '[]', folded_upto = 0, "
        "folded_count = 0, draft = '', draft_offset = 0, extracted_upto = 0 WHERE thread_no = ?",
        (thread_no,),
    )
    db.execute("INSERT INTO doomed (scope_no, thread_no) VALUES (?, ?)", (grave.scope_no, thread_no))
    return int(count)


def _hide_runs(db: sqlite3.Connection, scope_no: int, thread_no: int, sequences: Sequence[int]) -> int:
    """Takes runs, in order, from a thread that stays, and dooms them; for about `HIDE_MS`, at least one.

    Returns how many. They go to a hidden thread of their own, entries in the index and all.
    """
    until = time.monotonic() + HIDE_MS / 1000
    unnamed = "INSERT INTO threads (scope_no, thread_id, title, state, locale, created_us, updated_us)"
    hidden_no = db.execute(f"{unnamed} VALUES (?, 'hidden', '', 0, '', 0, 0)", (scope_no,)).lastrowid
    db.execute("UPDATE threads SET thread_id = 'hidden ' || thread_no WHERE thread_no = ?", (hidden_no,))
    hidden: list[int] = []
    for sequence in sequences:
        core.drop_sources(db, "?", sequence)
        for table in ("runs", "recall_entries"):
            # Entries that an import brought may wait in a scope of their own, and bear no thread.
            where = "WHERE sequence = ? AND scope_no = ?"
            db.execute(f"UPDATE {table} SET thread_no = ? {where}", (hidden_no, sequence, scope_no))
        hidden.append(sequence)
        if time.monotonic() > until:
            break
    db.execute("INSERT INTO doomed (scope_no, thread_no) VALUES (?, ?)", (scope_no, hidden_no))
    # What readers remember of the entries names the thread that they were in.
    db.execute("UPDATE recall_scopes SET state = random() WHERE scope_no = ?", (scope_no,))
    shorten(db, thread_no, hidden, len(hidden))
    return len(hidden)


def shorten(db: sqlite3.Connection, thread_no: int, changed: Sequence[int], lost: int) -> None:
    """Takes a thread's summary back to before the first run that was deleted (or came back), and out of the window.

    `lost` is how many runs fewer the thread has.

    When a run of the window goes, an older one moves into it; shown word for word, it must not be in the summary too.
    """
    (folded_upto,) = db.execute("SELECT folded_upto FROM threads WHERE thread_no = ?", (thread_no,)).fetchone()
    window = db.execute(
        "SELECT sequence FROM runs WHERE thread_no = ? ORDER BY sequence DESC LIMIT ?",
        (thread_no, RECENT_RUNS),
    ).fetchall()
    bounds = [sequence for (sequence,) in window] + [sequence for sequence in changed if sequence <= folded_upto]
    # The draft may hold words of a deleted run; whatever it holds is made again.
    db.execute(
        "UPDATE threads SET run_count = run_count - ?, revision = revision + 1, draft = '', draft_offset = 0 "
        "WHERE thread_no = ?",
        (lost, thread_no),
    )
    if not bounds or folded_upto >= min(bounds):
        db.execute(
            "DELETE FROM checkpoints WHERE thread_no = ? AND folded_upto >= ?", (thread_no, min(bounds, default=0))
        )
        kept = db.execute(
            "SELECT summary, summary_providers, folded_upto, folded_count FROM checkpoints "
            "WHERE thread_no = ? ORDER BY folded_upto DESC LIMIT 1",
            (thread_no,),
        ).fetchone()
        db.execute(
            "UPDATE threads SET summary = ?, summary_providers = ?, folded_upto = ?, folded_count = ? "
            "WHERE thread_no = ?",
            (*(kept or ("", "[]", 0, 0)), thread_no),
        )
    _redraw(db, thread_no)


def _redraw(db: sqlite3.Connection, thread_no: int) -> None:
    """Draws the title and the place in lists anew, from the runs that are left."""
    # Cut here and not by SQLite, whose substr() ends at a NUL.
    first = db.execute(
        "SELECT input, own_offset FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT 1", (thread_no,)
    ).fetchone()
    db.execute(
        """
        UPDATE threads SET title = CASE WHEN title_named THEN title ELSE :title END,
            last_sequence = coalesce((SELECT max(sequence) FROM runs WHERE thread_no = :thread_no), 0),
            updated_us = coalesce((SELECT created_us FROM runs WHERE thread_no = :thread_no
                                   ORDER BY sequence DESC LIMIT 1), updated_us)
        WHERE thread_no = :thread_no
        """,
        {"title": title(first[0][first[1] :]) if first else "", "thread_no": thread_no},
    )
