"""What an export says of the user, into a scope: facts and candidates. They are few, and so come in with the last write
(showing.py). Who brings them in is a person, so texts that were rejected or deleted here come back with them.
"""

from __future__ import annotations

import sqlite3

from memsvc.model import Scope
from memsvc.rules.exportfile import CandidateLine, FactLine
from memsvc.rules.facts import key
from memsvc.store.core import NewFact
from memsvc.store.sqlite.core import MILLION, add_sources, become, equal_candidates, insert_fact, json_names, room
from memsvc.store.sqlite.extraction import bound_candidates, sequences_of
from memsvc.store.sqlite.scopes import lift
from memsvc.store.sqlite.trail import note


class CoreImport:
    """Counts what is new."""

    def __init__(self, db: sqlite3.Connection, secret: bytes, scope: Scope, scope_no: int) -> None:
        self._db, self._secret, self._scope, self._scope_no = db, secret, scope, scope_no
        self.facts = self.candidates = self.no_room = 0
        self._brought: list[tuple[str, str]] = []

    def take(self, line: FactLine | CandidateLine) -> None:
        """Brings a line in."""
        if isinstance(line, FactLine):
            self._fact(line)
        else:
            self._candidate(line)

    def settle(self, by: str, now_us: int) -> None:
        """Bounds the candidates, and names `by` in the trail for facts that came without one."""
        bound_candidates(self._db, self._scope_no)
        for fact_id, text in self._brought:
            told = self._db.execute(
                "SELECT 1 FROM core_log WHERE scope_no = ? AND item_id = ? LIMIT 1", (self._scope_no, fact_id)
            )
            if not told.fetchone():
                note(self._db, self._scope_no, by, "imported", fact_id, now_us, "", text)

    def _fact(self, line: FactLine) -> None:
        wording = key(line.text)
        there = self._db.execute(
            "SELECT 1 FROM facts WHERE scope_no = ? AND (fact_id = ? OR wording = ?)",
            (self._scope_no, line.fact_id, wording),
        )
        if there.fetchone():
            return
        if room(self._db, self._scope_no) <= 0:
            self.no_room += 1
            return
        lift(self._db, self._secret, self._scope, self._scope_no, "fact", wording)
        new = NewFact(line.fact_id, line.text, line.confirmed_by)
        served_by = frozenset(line.served_by)
        fact_no = insert_fact(self._db, self._scope_no, new, served_by, line.created_us, line.last_used_us)
        add_sources(self._db, "fact", fact_no, sequences_of(self._db, self._scope_no, line.source_run_ids))
        for waiting in equal_candidates(self._db, self._scope_no, line.text):
            become(self._db, self._scope_no, *waiting, fact_no)
        self._db.executemany(
            "INSERT OR IGNORE INTO fact_candidates VALUES (?, ?, ?)",
            [(self._scope_no, candidate_id, fact_no) for candidate_id in line.candidate_ids],
        )
        self._brought.append((line.fact_id, line.text))
        self.facts += 1

    def _candidate(self, line: CandidateLine) -> None:
        wording = key(line.text)
        names = {"no": self._scope_no, "id": line.candidate_id, "wording": wording}
        there = self._db.execute(
            "SELECT 1 FROM candidates WHERE scope_no = :no AND (candidate_id = :id OR wording = :wording) "
            "UNION ALL SELECT 1 FROM facts WHERE scope_no = :no AND wording = :wording "
            "UNION ALL SELECT 1 FROM fact_candidates WHERE scope_no = :no AND candidate_id = :id",
            names,
        )
        if there.fetchone():
            return
        lift(self._db, self._secret, self._scope, self._scope_no, "fact", wording)
        made = self._db.execute(
            "INSERT INTO candidates (scope_no, candidate_id, wording, text, doubt, supersedes, served_by, created_us) "
            "VALUES (?, ?, ?, ?, ?, "
            "coalesce((SELECT fact_id FROM facts WHERE scope_no = ? AND fact_id = ?), ''), ?, ?)",
            (
                *(self._scope_no, line.candidate_id, wording, line.text, round((1 - line.confidence) * MILLION)),
                *(self._scope_no, line.supersedes_fact_id, json_names(frozenset(line.served_by)), line.created_us),
            ),
        ).lastrowid
        assert made is not None
        add_sources(self._db, "candidate", made, sequences_of(self._db, self._scope_no, line.source_run_ids))
        self.candidates += 1
