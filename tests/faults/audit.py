"""Holds a database that a daemon left behind against what its callers know. Reads a copy: the files stay as they were.

`audit` returns complaints, each a line. None means that every acknowledged run is there once and as it was sent, that
what was deleted is not, that no summary is without its cursor or tells of other runs than it covers, and that the index
is that of the runs.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.store.sqlite.index_view import ENTRY_MASK, GAIN_BITS
from tests.faults.ledger import MARK, UNKNOWN, Ledger, State

VISIBLE = "state > 0 AND tenant_id <> ''"
"""Threads and scopes that were deleted are hidden first and taken out later; with a state below 0, an import stages."""

PAGE_BYTES = 4096

Row = tuple[object, ...]

_MARK_BYTES = re.compile(MARK.pattern.encode())


@contextmanager
def copied(database: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy of the file and its log, as a crash left them."""
    with TemporaryDirectory(prefix="memsvc-audit-") as folder:
        for suffix in ("", "-wal"):
            if (source := Path(f"{database}{suffix}")).exists():
                shutil.copyfile(source, Path(folder) / f"copy.db{suffix}")
        connection = sqlite3.connect(Path(folder) / "copy.db", isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()


def audit(database: Path, ledgers: Sequence[Ledger]) -> list[str]:
    """Returns what is wrong; and writes into the ledgers what became of all that nobody had heard of."""
    if not database.exists():
        return []
    with copied(database) as db:
        complaints = [f"damage: {line}" for (line,) in db.execute("PRAGMA integrity_check") if line != "ok"]
        complaints += [f"foreign key: {row}" for row in db.execute("PRAGMA foreign_key_check")]
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'runs'").fetchone():
            return complaints  # killed before the first migration was durable
        complaints += structure(db)
        for ledger in ledgers:
            complaints += _runs(db, ledger)
            complaints += _summaries(db, ledger)
            complaints += _facts(db, ledger)
    return complaints


def structure(db: sqlite3.Connection) -> list[str]:
    """What must hold of every database, whatever was said."""
    return [
        f"{what}: {row}" for what, statement in _NEVER.items() for row in db.execute(statement.format(visible=VISIBLE))
    ] + _postings(db)


_THREADS = "threads AS t JOIN scopes USING (scope_no)"
_COVERED = "(SELECT count(*) FROM runs AS r WHERE r.thread_no = t.thread_no AND r.sequence <= {upto})"
_NEVER = {
    "a thread's count of runs is wrong": f"SELECT thread_id, run_count FROM {_THREADS} WHERE {{visible}} "
    "AND run_count <> (SELECT count(*) FROM runs AS r WHERE r.thread_no = t.thread_no)",
    "a thread's last run is wrong": f"SELECT thread_id, last_sequence FROM {_THREADS} WHERE {{visible}} "
    "AND last_sequence <> coalesce((SELECT max(sequence) FROM runs AS r WHERE r.thread_no = t.thread_no), 0)",
    "a summary's cursor does not cover what it counts": f"SELECT thread_id, folded_upto, folded_count FROM {_THREADS} "
    f"WHERE {{visible}} AND folded_count <> {_COVERED.format(upto='folded_upto')}",
    "a summary without its cursor, or the other way round": f"SELECT thread_id, folded_count FROM {_THREADS} "
    "WHERE {visible} AND ((summary = '') <> (folded_count = 0) OR (folded_count = 0) <> (folded_upto = 0))",
    "a draft without its place, or the other way round": f"SELECT thread_id, draft_offset FROM {_THREADS} "
    "WHERE (draft = '') <> (draft_offset = 0)",
    "a checkpoint ahead of its thread": "SELECT thread_no, c.folded_upto FROM checkpoints AS c "
    "JOIN threads AS t USING (thread_no) WHERE state >= 0 AND c.folded_upto > t.folded_upto",
    "a checkpoint that does not cover what it counts": "SELECT thread_no, c.folded_upto FROM checkpoints AS c "
    "JOIN threads AS t USING (thread_no) WHERE state >= 0 "
    f"AND c.folded_count <> {_COVERED.format(upto='c.folded_upto')}",
    "a completed run that is not in the index": "SELECT run_id FROM runs JOIN scopes USING (scope_no) "
    "WHERE outcome = 1 AND tenant_id <> '' AND sequence NOT IN (SELECT sequence FROM recall_entries)",
    "an entry of the index without its run": "SELECT sequence FROM recall_entries "
    "WHERE sequence NOT IN (SELECT sequence FROM runs WHERE outcome = 1)",
    "a scope's count of entries is wrong": "SELECT scope_no, entries FROM recall_scopes AS s "
    "JOIN scopes USING (scope_no) WHERE tenant_id <> '' "
    "AND entries <> (SELECT count(*) FROM recall_entries AS e WHERE e.scope_no = s.scope_no)",
    "a source of a fact that is not there": "SELECT fact_no FROM fact_sources "
    "WHERE sequence NOT IN (SELECT sequence FROM runs)",
    "a candidate of no run": "SELECT candidate_id FROM candidates JOIN scopes USING (scope_no) WHERE tenant_id <> '' "
    "AND candidate_no NOT IN (SELECT candidate_no FROM candidate_sources)",
}


def _postings(db: sqlite3.Connection) -> list[str]:
    """Each posting of an entry that has left the waiting ones stands on one page, and nothing else does.

    Those of a hidden thread leave page by page, their entries when all have.
    """
    complaints = []
    scopes = "SELECT scope_no, paged_no FROM recall_scopes JOIN scopes USING (scope_no) WHERE tenant_id <> ''"
    for scope_no, paged_no in db.execute(scopes).fetchall():
        due = "SELECT postings FROM recall_entries WHERE scope_no = ? AND entry_no <= ?"
        leaving = "SELECT entry_no FROM recall_entries AS e JOIN doomed USING (thread_no) WHERE e.scope_no = ?"
        hidden = {no for (no,) in db.execute(leaving, (scope_no,))}
        wanted, paged = (
            sorted(p for p in _integers(rows) if p >> GAIN_BITS & ENTRY_MASK not in hidden)
            for rows in (
                db.execute(due, (scope_no, paged_no)),
                db.execute("SELECT postings FROM recall_pages WHERE scope_no = ?", (scope_no,)),
            )
        )
        if wanted != paged:
            complaints.append(f"scope {scope_no}: {len(paged)} postings stand on pages, {len(wanted)} should")
    return complaints


def _integers(rows: Iterable[Row]) -> Iterator[int]:
    for (blob,) in rows:
        assert isinstance(blob, bytes)
        yield from memoryview(blob).cast("q")


def _runs(db: sqlite3.Connection, ledger: Ledger) -> Iterator[str]:
    rows = db.execute(
        "SELECT run_id, sequence, runs.outcome, input, output, thread_key, thread_id FROM runs "
        f"JOIN threads USING (thread_no) JOIN scopes ON scopes.scope_no = runs.scope_no WHERE {VISIBLE} "
        "AND (tenant_id, agent_id, user_id) = (?, ?, ?)",
        ledger.names,
    ).fetchall()
    found = {row[0]: row for row in rows}
    if len(found) < len(rows):
        yield f"{len(rows) - len(found)} runs of {ledger.names} are there twice"
    for talk, run in ledger.runs():
        row = found.pop(run.run_id, None)
        states = {talk.state, run.state}
        if row is None:
            if State.GONE not in states and not states & set(UNKNOWN):
                yield f"{run.run_id} of {ledger.names} was acknowledged and is lost"
            run.state = State.GONE
            continue
        if State.GONE in states:
            yield f"{run.run_id} of {ledger.names} was deleted and is there"
        if row[2:6] != (run.outcome, run.input, run.output, talk.key) or run.sequence not in (0, row[1]):
            yield f"{run.run_id} of {ledger.names} is not as it was sent"
        run.state, run.sequence, talk.thread_id = State.KEPT, row[1], row[6]
    for run_id in found:
        yield f"{run_id} of {ledger.names} was never sent"
    for talk in ledger.conversations:
        # All of a thread goes at once: where its deletion was asked for, what is left tells whether it was done.
        left = [run for run in talk.runs.values() if run.state is State.KEPT]
        if talk.state is State.DELETING:
            talk.state = State.KEPT if left else State.GONE


def _summaries(db: sqlite3.Connection, ledger: Ledger) -> Iterator[str]:
    """The provider of these conversations sums up by naming the marks that it was shown."""
    for talk in ledger.conversations:
        if not talk.provider or talk.state is not State.KEPT:
            continue
        row = db.execute("SELECT thread_no, summary, folded_upto FROM threads WHERE thread_id = ?", (talk.thread_id,))
        thread_no, summary, upto = row.fetchone() or (0, "", 0)
        marks = {run.sequence: run.mark for run in talk.runs.values() if run.state is State.KEPT}
        kept = db.execute("SELECT summary, folded_upto FROM checkpoints WHERE thread_no = ?", (thread_no,)).fetchall()
        for text, cursor in [(summary, upto), *kept]:
            covered = [mark for sequence, mark in sorted(marks.items()) if sequence <= cursor]
            if MARK.findall(text) != covered:
                yield f"a summary of {talk.key} covers {covered} and tells of {MARK.findall(text)}"


def _facts(db: sqlite3.Connection, ledger: Ledger) -> Iterator[str]:
    of_scope = "JOIN scopes USING (scope_no) WHERE (tenant_id, agent_id, user_id) = (?, ?, ?)"
    ledger.fact_ids = dict(db.execute(f"SELECT text, fact_id FROM facts {of_scope}", ledger.names).fetchall())
    for text, state in list(ledger.facts.items()):
        there = text in ledger.fact_ids
        if state is State.KEPT and not there:
            yield f"a fact of {ledger.names} was acknowledged and is lost"
        if state is State.GONE and there:
            yield f"a fact of {ledger.names} was deleted and is there"
        ledger.facts[text] = State.KEPT if there else State.GONE
        if state is State.SENT and not there:
            del ledger.facts[text]  # it never was; its candidate may be there yet
    candidates = {text for (text,) in db.execute(f"SELECT text FROM candidates {of_scope}", ledger.names)}
    for _ in candidates & (ledger.facts.keys() | ledger.rejected):
        yield f"a candidate of {ledger.names} was decided on and is there"


def deleted_words(database: Path, ledgers: Sequence[Ledger]) -> list[str]:
    """Says of which deleted texts the bytes of the file or its log still have a word, in a row or beside one."""
    deleted = set().union(*(ledger.deleted_marks() for ledger in ledgers))
    content, remains = database.read_bytes(), []
    for found in _MARK_BYTES.finditer(content):
        if (mark := found[0].decode()) in deleted:
            page = content[found.start() // PAGE_BYTES * PAGE_BYTES :][:PAGE_BYTES]
            where = "unused bytes" if found.start() % PAGE_BYTES in _gap(page) else "a row"
            remains.append(f"{mark} was deleted and is in {where} of the file")
    log = Path(f"{database}-wal")
    if log.exists():
        marks = {mark.decode() for mark in _MARK_BYTES.findall(log.read_bytes())}
        remains += [f"{mark} was deleted and is in the log" for mark in sorted(marks & deleted)]
    return remains


def _gap(page: bytes) -> range:
    """The bytes of a page of a tree that are between its pointers and its cells; empty for other pages."""
    if page[0] not in (2, 5, 10, 13):
        return range(0)
    pointers = 8 if page[0] > 5 else 12
    return range(pointers + 2 * int.from_bytes(page[3:5], "big"), int.from_bytes(page[5:7], "big") or 65_536)
