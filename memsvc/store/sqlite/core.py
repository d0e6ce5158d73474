"""Facts and candidates as people see and change them. Each change is in the trail, in the transaction that makes it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence

from memsvc.errors import CandidateNotFound, FactNotFound, InvalidField, RedLine
from memsvc.model import Candidate, Fact, Scope
from memsvc.rules import redline
from memsvc.rules.facts import MAX_FACTS, MAX_SOURCES, key, to_evict
from memsvc.store.core import FactChange, NewFact
from memsvc.store.sqlite.scopes import bury, ensure_scope, find_scope, lift
from memsvc.store.sqlite.trail import erase, note
from memsvc.store.values import Page

MILLION = 1_000_000
_POSITION_BITS = 43
"""A position in the list of candidates is its sort key in one number: doubt above, candidate_no below."""
_FACT = "SELECT fact_no, fact_id, text, confirmed_by, created_us, last_used_us FROM facts "
_SOURCES = "SELECT run_id FROM {table}_sources JOIN runs USING (sequence) WHERE {table}_no = ? ORDER BY sequence"


def facts_of(db: sqlite3.Connection, scope_no: int) -> list[Fact]:
    """Returns the facts of a scope without their sources, in the order of confirmation: what a context block needs."""
    rows = db.execute(_FACT + "WHERE scope_no = ? ORDER BY fact_no", (scope_no,))
    return [Fact(fact_id, text, (), *rest) for _, fact_id, text, *rest in rows]


def list_facts(db: sqlite3.Connection, scope: Scope) -> list[Fact]:
    """See Store.list_facts."""
    rows = db.execute(
        _FACT + "WHERE scope_no = ? ORDER BY last_used_us DESC, fact_no DESC", (find_scope(db, scope),)
    ).fetchall()
    return [_to_fact(db, row) for row in rows]


def create_fact(db: sqlite3.Connection, secret: bytes, scope: Scope, new: NewFact, now_us: int) -> FactChange:
    """See Store.create_fact."""
    scope_no = ensure_scope(db, scope)
    fact_no, evicted = _keep(db, secret, scope, scope_no, new, frozenset(), "created", now_us)
    for candidate in equal_candidates(db, scope_no, new.text):
        become(db, scope_no, *candidate, fact_no)
    return FactChange(_fact(db, fact_no), None, evicted)


def update_fact(
    db: sqlite3.Connection, secret: bytes, scope: Scope, fact_id: str, text: str, by: str, now_us: int
) -> Fact:
    """See Store.update_fact. The fact keeps its place, its sources and its last use."""
    scope_no, fact_no, before = _find_fact(db, scope, fact_id)
    if before == text:
        return _fact(db, fact_no)
    twin = db.execute(
        "SELECT fact_no FROM facts WHERE scope_no = ? AND wording = ? AND fact_no <> ?", (scope_no, key(text), fact_no)
    ).fetchone()
    if twin:
        raise InvalidField("text", "another fact of this scope says the same; delete one of the two")
    if key(before) != key(text):
        bury(db, secret, scope, scope_no, "fact", key(before))
    lift(db, secret, scope, scope_no, "fact", key(text))
    for candidate in equal_candidates(db, scope_no, text):
        become(db, scope_no, *candidate, fact_no)
    db.execute(
        "UPDATE facts SET text = ?, wording = ?, confirmed_by = ? WHERE fact_no = ?", (text, key(text), by, fact_no)
    )
    note(db, scope_no, by, "updated", fact_id, now_us, before, text)
    return _fact(db, fact_no)


def delete_fact(db: sqlite3.Connection, secret: bytes, scope: Scope, fact_id: str, by: str, now_us: int) -> None:
    """See Store.delete_fact."""
    scope_no, fact_no, text = _find_fact(db, scope, fact_id)
    bury(db, secret, scope, scope_no, "fact", key(text))
    _drop_fact(db, fact_no)
    note(db, scope_no, by, "deleted", fact_id, now_us)
    erase(db, scope_no, fact_id)


def list_candidates(db: sqlite3.Connection, scope: Scope, page: Page) -> tuple[list[Candidate], int]:
    """See Store.list_candidates."""
    position = f"(doubt << {_POSITION_BITS} | candidate_no)"
    rows = db.execute(
        f"SELECT candidate_no, candidate_id, text, doubt, supersedes, created_us, {position} FROM candidates "
        f"WHERE scope_no = ? AND {position} > ? ORDER BY doubt, candidate_no LIMIT ?",
        (find_scope(db, scope), page.after, page.size + 1),
    ).fetchall()
    listed = [
        Candidate(candidate_id, text, 1 - doubt / MILLION, _run_ids(db, "candidate", number), supersedes, created_us)
        for number, candidate_id, text, doubt, supersedes, created_us, _ in rows[: page.size]
    ]
    return listed, rows[page.size - 1][-1] if len(rows) > page.size else 0


def confirm_candidate(
    db: sqlite3.Connection, secret: bytes, scope: Scope, candidate_id: str, new: NewFact, now_us: int
) -> FactChange:
    """See Store.confirm_candidate."""
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT candidate_no, text, supersedes, served_by FROM candidates WHERE scope_no = ? AND candidate_id = ?",
        (scope_no, candidate_id),
    ).fetchone()
    if not row:
        return FactChange(_confirmed_before(db, scope_no, candidate_id))
    candidate_no, proposed, supersedes, served_by = row
    text = new.text or proposed
    if category := redline.category(text):
        raise RedLine(category)
    superseded = _supersede(db, scope_no, supersedes, text, new.confirmed_by, now_us)
    if key(text) != key(proposed):
        # The person decided on this text too: with another wording in its place it is not to come back.
        bury(db, secret, scope, scope_no, "fact", key(proposed))
    kept = NewFact(new.fact_id, text, new.confirmed_by)
    drawn_from = frozenset(json.loads(served_by))
    fact_no, evicted = _keep(db, secret, scope, scope_no, kept, drawn_from, "confirmed", now_us)
    sources = db.execute("SELECT sequence FROM candidate_sources WHERE candidate_no = ?", (candidate_no,)).fetchall()
    add_sources(db, "fact", fact_no, [sequence for (sequence,) in sources])
    become(db, scope_no, candidate_no, candidate_id, fact_no)
    return FactChange(_fact(db, fact_no), superseded, evicted)


def reject_candidate(
    db: sqlite3.Connection, secret: bytes, scope: Scope, candidate_id: str, by: str, now_us: int
) -> None:
    """See Store.reject_candidate."""
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT candidate_no, wording FROM candidates WHERE scope_no = ? AND candidate_id = ?", (scope_no, candidate_id)
    ).fetchone()
    if not row:
        raise CandidateNotFound
    bury(db, secret, scope, scope_no, "fact", row[1])
    drop_candidates(db, [row[0]])
    note(db, scope_no, by, "rejected", candidate_id, now_us)


def touch_facts(db: sqlite3.Connection, scope: Scope, fact_ids: Sequence[str], now_us: int) -> None:
    """See Store.touch_facts. A clock that steps back takes no use away."""
    scope_no = find_scope(db, scope)
    db.executemany(
        "UPDATE facts SET last_used_us = max(last_used_us, ?) WHERE scope_no = ? AND fact_id = ?",
        [(now_us, scope_no, fact_id) for fact_id in fact_ids],
    )


def drop_sources(db: sqlite3.Connection, runs: str, value: int | str) -> None:
    """Takes the runs that `runs` (a query for their sequences) chooses out of all sources, before they are deleted.

    Candidates that have no source left go; facts stay.
    """
    db.execute(f"DELETE FROM fact_sources WHERE sequence IN ({runs})", (value,))
    losing = db.execute(
        f"DELETE FROM candidate_sources WHERE sequence IN ({runs}) RETURNING candidate_no", (value,)
    ).fetchall()
    drop_candidates(
        db,
        [
            number
            for number in sorted({row[0] for row in losing})
            if not db.execute("SELECT 1 FROM candidate_sources WHERE candidate_no = ? LIMIT 1", (number,)).fetchone()
        ],
    )


def drop_candidates(db: sqlite3.Connection, numbers: Collection[int]) -> None:
    """Deletes candidates and what hangs on them."""
    for table in ("candidate_sources", "candidates"):
        db.executemany(f"DELETE FROM {table} WHERE candidate_no = ?", [(number,) for number in numbers])


def room(db: sqlite3.Connection, scope_no: int) -> int:
    """Returns how many facts still fit into a scope."""
    (count,) = db.execute("SELECT count(*) FROM facts WHERE scope_no = ?", (scope_no,)).fetchone()
    return MAX_FACTS - int(count)


def insert_fact(
    db: sqlite3.Connection, scope_no: int, new: NewFact, served_by: frozenset[str], created_us: int, used_us: int
) -> int:
    """Adds a fact behind all others, and returns its number."""
    made = db.execute(
        "INSERT INTO facts (scope_no, fact_id, wording, text, served_by, confirmed_by, created_us, last_used_us) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (scope_no, new.fact_id, key(new.text), new.text, json_names(served_by), new.confirmed_by, created_us, used_us),
    ).lastrowid
    assert made is not None
    return made


def add_sources(db: sqlite3.Connection, table: str, number: int, sequences: Collection[int]) -> None:
    """Adds runs to the sources of a fact or candidate, while there are not a hundred."""
    (count,) = db.execute(f"SELECT count(*) FROM {table}_sources WHERE {table}_no = ?", (number,)).fetchone()
    db.executemany(
        f"INSERT OR IGNORE INTO {table}_sources VALUES (?, ?)",
        [(number, sequence) for sequence in sorted(sequences)[: MAX_SOURCES - count]],
    )


def equal_candidates(db: sqlite3.Connection, scope_no: int, text: str) -> list[tuple[int, str]]:
    """Returns the candidates that say what `text` does: none or one."""
    return db.execute(
        "SELECT candidate_no, candidate_id FROM candidates WHERE scope_no = ? AND wording = ?", (scope_no, key(text))
    ).fetchall()


def become(db: sqlite3.Connection, scope_no: int, candidate_no: int, candidate_id: str, fact_no: int) -> None:
    """Takes a candidate for confirmed by a fact: confirming it again answers with that."""
    db.execute("INSERT OR REPLACE INTO fact_candidates VALUES (?, ?, ?)", (scope_no, candidate_id, fact_no))
    drop_candidates(db, [candidate_no])


def _keep(
    db: sqlite3.Connection,
    secret: bytes,
    scope: Scope,
    scope_no: int,
    new: NewFact,
    served_by: frozenset[str],
    change: str,
    now_us: int,
) -> tuple[int, Fact | None]:
    """Adds a fact that a person stands for; returns its number (its twin's where there is one) and who gave way."""
    lift(db, secret, scope, scope_no, "fact", key(new.text))
    twin = db.execute(
        "SELECT fact_no FROM facts WHERE scope_no = ? AND wording = ?", (scope_no, key(new.text))
    ).fetchone()
    if twin:
        return twin[0], None
    evicted = None
    if room(db, scope_no) <= 0:
        facts = db.execute(_FACT + "WHERE scope_no = ? ORDER BY fact_no", (scope_no,)).fetchall()
        last = facts[to_evict([_to_fact(db, row) for row in facts])]
        evicted = _to_fact(db, last)
        _drop_fact(db, last[0])
        note(db, scope_no, new.confirmed_by, "evicted", evicted.fact_id, now_us, evicted.text)
    fact_no = insert_fact(db, scope_no, new, served_by, now_us, now_us)
    note(db, scope_no, new.confirmed_by, change, new.fact_id, now_us, "", new.text)
    return fact_no, evicted


def _supersede(db: sqlite3.Connection, scope_no: int, fact_id: str, text: str, by: str, now_us: int) -> Fact | None:
    """Takes away the fact that a candidate contradicts, unless it is gone or says the same as the new text."""
    row = db.execute(
        _FACT + "WHERE scope_no = ? AND fact_id = ? AND wording <> ?", (scope_no, fact_id, key(text))
    ).fetchone()
    if not row:
        return None
    fact = _to_fact(db, row)
    _drop_fact(db, row[0])
    note(db, scope_no, by, "superseded", fact_id, now_us, fact.text)
    return fact


def _confirmed_before(db: sqlite3.Connection, scope_no: int, candidate_id: str) -> Fact:
    row = db.execute(
        "SELECT fact_no FROM fact_candidates WHERE scope_no = ? AND candidate_id = ?", (scope_no, candidate_id)
    ).fetchone()
    if not row:
        raise CandidateNotFound
    return _fact(db, row[0])


def _drop_fact(db: sqlite3.Connection, fact_no: int) -> None:
    db.execute(
        "UPDATE candidates SET supersedes = '' WHERE (scope_no, supersedes) = "
        "(SELECT scope_no, fact_id FROM facts WHERE fact_no = ?)",
        (fact_no,),
    )
    for table in ("fact_sources", "fact_candidates", "facts"):
        db.execute(f"DELETE FROM {table} WHERE fact_no = ?", (fact_no,))


def _find_fact(db: sqlite3.Connection, scope: Scope, fact_id: str) -> tuple[int, int, str]:
    scope_no = find_scope(db, scope)
    row = db.execute(
        "SELECT fact_no, text FROM facts WHERE scope_no = ? AND fact_id = ?", (scope_no, fact_id)
    ).fetchone()
    if not row:
        raise FactNotFound
    return scope_no, row[0], row[1]


def _fact(db: sqlite3.Connection, fact_no: int) -> Fact:
    return _to_fact(db, db.execute(_FACT + "WHERE fact_no = ?", (fact_no,)).fetchone())


def _to_fact(db: sqlite3.Connection, row: tuple[int, str, str, str, int, int]) -> Fact:
    fact_no, fact_id, text, confirmed_by, created_us, last_used_us = row
    return Fact(fact_id, text, _run_ids(db, "fact", fact_no), confirmed_by, created_us, last_used_us)


def _run_ids(db: sqlite3.Connection, table: str, number: int) -> tuple[str, ...]:
    return tuple(run_id for (run_id,) in db.execute(_SOURCES.format(table=table), (number,)))


def json_names(names: frozenset[str]) -> str:
    """Returns the names of providers as a column keeps them."""
    return json.dumps(sorted(names), ensure_ascii=False)
