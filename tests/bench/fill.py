"""Fills a database with runs before a daemon is started on it: by the store's own units, many of them in one commit."""

from __future__ import annotations

import os
import random
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

from memsvc.model import RECENT_RUNS, NewRun, RunOutcome, Scope
from memsvc.rules import ids
from memsvc.rules.derived import derive
from memsvc.rules.shown import Renderer, title
from memsvc.store import PreparedRun, ThreadRef
from memsvc.store.sqlite import recall, runs
from memsvc.store.sqlite.db import Database
from tests.bench.corpus import text

BATCH_RUNS = 500
"""In one commit; the index is settled behind each, as a daemon does behind a few answers."""
TURNS_A_THREAD = RECENT_RUNS
"""So that nothing is due to be folded when a daemon starts on it."""


async def fill(path: Path, scope: Scope, count: int, sizes: tuple[int, int], renderer: Renderer) -> None:
    """Records `count` runs of so many bytes of input and output in a scope, and lets its index come to rest."""
    rng = random.Random(count)
    database = await Database.open(path)
    try:
        for begun in range(0, count, BATCH_RUNS):
            numbers = range(begun, min(begun + BATCH_RUNS, count))
            prepared = [_prepared(rng, database.secret, scope, sizes, renderer) for _ in numbers]
            scope_no = await database.write(_record, database.secret, scope, numbers, prepared)
            while await database.write(recall.settle, scope_no):
                pass
    finally:
        await database.close()


def _prepared(
    rng: random.Random, secret: bytes, scope: Scope, sizes: tuple[int, int], renderer: Renderer
) -> PreparedRun:
    given, output = (text(rng, size) for size in sizes)
    run = NewRun(secrets.token_hex(8), given, output, RunOutcome.COMPLETED)
    made = derive(given, output, run.outcome, 1_700_000_000_000_000, renderer, ZoneInfo("UTC"), "en")
    return PreparedRun(
        run=run,
        fresh_thread_id=ids.mint_thread_id(secret, scope, os.urandom(ids.NAME_BYTES)),
        title=title(given),
        locale=made.locale,
        own_offset=0,
        renderer=renderer.renderer_id,
        whole=made.whole,
        shown=made.shown,
        terms=made.terms,
    )


def _record(
    db: sqlite3.Connection, secret: bytes, scope: Scope, numbers: Sequence[int], prepared: Sequence[PreparedRun]
) -> int:
    for number, each in zip(numbers, prepared, strict=True):
        ref = ThreadRef(thread_key=f"k{number // TURNS_A_THREAD}")
        runs.record_run(db, secret, scope, ref, each, 1_700_000_000_000_000 + number)
    (scope_no,) = db.execute("SELECT max(scope_no) FROM scopes").fetchone()
    return int(scope_no)


async def copy(path: Path, scope: Scope, copies: int) -> None:
    """Gives so many other users of the agent a copy of a scope's threads, runs and index, row by row but for ids."""
    database = await Database.open(path)
    try:
        for number in range(copies):
            await database.write(_copy, scope, f"copy {number}")
    finally:
        await database.close()


def _copy(db: sqlite3.Connection, scope: Scope, user: str) -> None:
    (old_no,) = db.execute(
        "SELECT scope_no FROM scopes WHERE (tenant_id, agent_id, user_id) = (?, ?, ?)", scope
    ).fetchone()
    new_no = db.execute("INSERT INTO scopes VALUES (NULL, ?, ?, ?)", (*scope[:2], user)).lastrowid
    by = {
        table: db.execute(f"SELECT max({number}) + 1 FROM {table}").fetchone()[0] - least
        for table, number in (("threads", "thread_no"), ("runs", "sequence"))
        for (least,) in [db.execute(f"SELECT min({number}) FROM {table} WHERE scope_no = ?", (old_no,)).fetchone()]
    }
    changed = {
        "scope_no": ":new_no",
        "thread_no": f"thread_no + {by['threads']}",
        "sequence": f"sequence + {by['runs']}",
        "last_sequence": f"last_sequence + {by['runs']}",
        "folded_upto": f"folded_upto + {by['runs']}",
        "extracted_upto": f"extracted_upto + {by['runs']}",
        "thread_id": ":user || thread_id",
        "page_no": "NULL",
    }
    for table in ("threads", "runs", "recall_scopes", "recall_levels", "recall_entries", "recall_pages"):
        columns = [name for (_, name, *_) in db.execute(f"PRAGMA table_info({table})")]
        values = ", ".join(changed.get(name, name) for name in columns)
        db.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE scope_no = :old_no",
            {"old_no": old_no, "new_no": new_no, "user": user},
        )
