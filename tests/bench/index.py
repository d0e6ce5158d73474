"""`python -m tests.bench.index`: processor time of the recall index by itself, in a file of its own, without a daemon.

What a run adds, what keeping the index in shape behind it takes, and a search whose pages are in memory or are not.
Times are of the thread's own clock, so that other work beside it counts little.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from memsvc.rules.terms import count_terms, query_terms
from memsvc.store.sqlite import migrate, recall, start
from memsvc.store.sqlite.cache import Cache
from tests.bench.corpus import text

CASES = ((10_000, 200), (10_000, 1_000), (1_000, 4_000), (100_000, 200))
"""Runs in the scope, and bytes of each."""
QUESTION_BYTES = 60
QUESTIONS = 200
TURNS_A_THREAD = 20
WANTED = 7
"""Hits of a search: what a context asks for when its thread shows a few runs."""

HEAD = "| runs in the scope | a run adds | its upkeep | search, pages in memory | pages in the file |"


def main() -> None:
    """Prints a line for each case: medians in milliseconds, of the upkeep the mean."""
    print(HEAD, "|---|---|---|---|---|", sep="\n")
    for count, size in CASES:
        with tempfile.TemporaryDirectory(prefix="memsvc-bench-") as folder:
            path = str(Path(folder) / "index.db")
            db = start.open_writer(path, migrate.shipped(), 0).connection
            cells = [f"{1000 * seconds:.2f}" for seconds in _measured(db, count, size)]
            db.close()
        print(f"| {count:,} of {size:,} bytes | {' | '.join(cells)} |", flush=True)


def _measured(db: sqlite3.Connection, count: int, size: int) -> list[float]:
    rng = random.Random(count + size)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA foreign_keys = OFF")  # the index alone: no threads and runs that it belongs to
    added, upkeep = [], []
    for number in range(1, count + 1):
        counts = count_terms(text(rng, size))
        db.execute("BEGIN")
        seconds, due = _timed(partial(recall.index_run, db, 1, number // TURNS_A_THREAD, number, counts))
        added.append(seconds)
        db.execute("COMMIT")
        more = due
        while more:
            db.execute("BEGIN")
            seconds, more = _timed(partial(recall.settle, db, 1))
            upkeep.append(seconds)
            db.execute("COMMIT")
    questions = [query_terms(text(rng, QUESTION_BYTES)) for _ in range(QUESTIONS)]
    known = Cache()
    fresh = [_timed(partial(recall.search, db, Cache(), 1, q, WANTED))[0] for q in questions]
    for question in questions:
        recall.search(db, known, 1, question, WANTED)
    again = [_timed(partial(recall.search, db, known, 1, q, WANTED))[0] for q in questions]
    return [median(added), sum(upkeep) / count, median(again), median(fresh)]


T = TypeVar("T")


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    begun = time.thread_time()
    value = call()
    return time.thread_time() - begun, value


if __name__ == "__main__":
    main()
