"""What the recall index keeps in memory: never another answer than the file's, for whichever snapshot asks."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.rules.terms import count_terms, query_terms
from memsvc.store.sqlite import migrate
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.recall import Hit, index_run, search, settle, unsettled
from tests.test_recall_store import everything, index, opened, paged, postings, talk, unindex_runs

QUERIES = [query_terms(text) for text in ("wc wd we wf", "needle7 wg", "needle100 早报")]


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A migrated database with a log, so that snapshots stay while others write."""
    db = connect(tmp_path / "index.db")
    db.execute("PRAGMA journal_mode = WAL")
    migrate.apply(db, migrate.shipped(), now_us=0)
    yield tmp_path / "index.db"
    db.close()


def answers(db: sqlite3.Connection, cache: Cache) -> list[list[Hit]]:
    return [search(db, cache, scope, query, 5) for query in QUERIES for scope in (1, 2)]


class Snapshot:
    """A read that stays open, and what it found at its beginning without anything kept."""

    def __init__(self, path: Path) -> None:
        self.db = connect(path)
        self.db.execute("BEGIN")
        self.found = answers(self.db, Cache())


@pytest.mark.parametrize("limit_bytes", [64 << 20, 100_000])
def test_old_and_new_snapshots_find_through_one_cache_what_they_find_without(path: Path, limit_bytes: int) -> None:
    draw = random.Random(limit_bytes)
    cache = Cache(limit_bytes)
    writer = connect(path)
    writer.execute("PRAGMA synchronous = OFF")
    snapshots = [Snapshot(path)]
    kept: dict[int, list[int]] = {1: [], 2: []}
    for sequence in range(1, 121):
        scope = draw.choice((1, 1, 1, 2))
        writer.execute("BEGIN IMMEDIATE")
        index(
            writer,
            sequence,
            f"{talk(sequence, 500)} needle{sequence} 早报",
            thread=10 * scope + sequence % 4,
            scope=scope,
        )
        kept[scope].append(sequence)
        if draw.random() < 0.15:
            # The latest now and then, whose entry's place is free again.
            gone = [kept[scope].pop(draw.choice((-1, 0)))]
            unindex_runs(writer, scope, gone)
        if sequence == 70:
            unindex_runs(writer, 2, kept[2])
            kept[2] = []
        writer.execute("COMMIT")
        if draw.random() < 0.1:
            writer.execute("BEGIN IMMEDIATE")
            index(writer, 10_000, f"{talk(-sequence, 3_000)} needle7", scope=scope)
            writer.execute("ROLLBACK")
        if draw.random() < 0.15:
            snapshots.append(Snapshot(path))
        for snapshot in draw.sample(snapshots, min(2, len(snapshots))):
            assert answers(snapshot.db, cache) == snapshot.found
        if len(snapshots) > 4:
            snapshots.pop(0).db.close()
    assert writer.execute("SELECT max(level) FROM recall_levels").fetchone() == (2,), "nothing has sunk"
    for snapshot in snapshots:
        snapshot.db.close()
    writer.close()


def test_what_a_cache_keeps_stays_within_its_limit() -> None:
    cache = Cache(100_000)
    for number in range(10_000):
        cache.put(number, memoryview(bytes(1_000)), 1_000)
    kept = [number for number in range(10_000) if cache.get(number) is not None]
    assert 40 <= len(kept) <= 100
    assert kept[-1] == 9_999


def test_what_is_due_is_seen_from_the_database_and_done_in_steps() -> None:
    """Whatever step a process was killed after: the next one finds what is left to do, and does it."""
    with opened() as db:
        steps = 0
        for sequence in range(1, 260):
            due = index_run(db, 1, 1, sequence, count_terms(f"{talk(sequence, 150)} needle{sequence}"))
            assert unsettled(db) == [1] * due
            while unsettled(db):
                settle(db, 1)
                steps += 1
                assert postings(db) == paged(db)
        assert steps > 7, "nothing has sunk"
        assert not settle(db, 1)
        assert not settle(db, 2)


def test_an_index_of_the_schema_before_is_converted() -> None:
    with opened() as now, opened(upto=4) as before:
        for sequence in range(1, 315):
            index(now, sequence, f"{talk(sequence, 150)} needle{sequence} 早报", thread=sequence % 7)
        for table, columns in (
            ("recall_scopes", "scope_no, entries, paged_no, waiting"),
            ("recall_entries", "scope_no, entry_no, sequence, thread_no, postings"),
            ("recall_levels", "scope_no, level, size, sinking"),
            ("recall_pages", "page_no, scope_no, level, first, postings"),
        ):
            rows = now.execute(f"SELECT {columns} FROM {table}").fetchall()
            before.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        before.execute("INSERT INTO scopes VALUES (1, 'tenant', 'agent', 'user')")
        before.execute("COMMIT")
        migrate.apply(before, migrate.shipped()[4:], now_us=0)
        before.execute("BEGIN")
        assert everything(before) == everything(now)
        assert answers(before, Cache()) == answers(now, Cache())
        sizes = "SELECT count(*) FROM recall_pages WHERE size <> length(postings) / 8"
        assert before.execute(sizes).fetchone() == (0,)
        versions = before.execute("SELECT version FROM recall_levels UNION SELECT state FROM recall_scopes").fetchall()
        assert len(versions) == 3, "two levels and a scope, each with a mark of its own"
