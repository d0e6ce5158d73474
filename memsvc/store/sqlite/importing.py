"""An export into a scope, in one unit of work: all of it or nothing, and nothing that is there already.

What is here stays as it is: a thread keeps its title, a fact its words. What is missing comes in, runs into the places
where they stood, and the tombstones of all that comes back are lifted.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator

from memsvc.errors import ImportInvalid, Unavailable
from memsvc.model import RECENT_RUNS, RunOutcome, Scope, ThreadState
from memsvc.rules.exportfile import (
    MAX_KEYS,
    NOTICE_KINDS,
    OP_KINDS,
    OUTCOMES,
    DeletedUsageLine,
    Key,
    Line,
    NoticeLine,
    OpLine,
    RunLine,
    SummaryLine,
    ThreadLine,
    Tombstone,
)
from memsvc.store.sqlite import recall
from memsvc.store.sqlite.deletion import shorten
from memsvc.store.sqlite.importing_core import CoreImport
from memsvc.store.sqlite.scopes import ensure_scope, lift, tombstone_keys
from memsvc.store.values import Brought, ImportedRun, Prepared

MAX_SCANNED = 100_000
"""Numbers looked at for free ones between two runs; where none is found, what comes back stands behind the others."""


def import_scope(
    db: sqlite3.Connection,
    secret: bytes,
    scope: Scope,
    prepared: Prepared,
    by: str,
    now_us: int,
) -> tuple[Brought, int]:
    """See Store.import_scope. Also returns the scope's number."""
    scope_no = ensure_scope(db, scope)
    coming = _Import(db, secret, scope, scope_no, prepared)
    core = CoreImport(db, secret, scope, scope_no)
    for number, item in prepared.read():
        if not core.take(item):
            coming.take(number, item)
    coming.settle()
    core.settle(by, now_us)
    return Brought(coming.threads, coming.runs, core.facts, core.candidates), scope_no


class _Import:
    """Threads, runs and what they cost. Counts what is new."""

    def __init__(
        self,
        db: sqlite3.Connection,
        secret: bytes,
        scope: Scope,
        scope_no: int,
        prepared: Prepared,
    ) -> None:
        self._db, self._secret, self._scope, self._scope_no = db, secret, scope, scope_no
        self._runs_of = prepared.runs_of
        self.threads = self.runs = 0
        self._thread_nos: dict[str, int] = {}
        self._new: dict[str, ThreadLine] = {}
        self._added: dict[str, list[int]] = {}
        self._places = places(db, scope_no, prepared.run_ids)
        self._settled = False
        self._seen: Counter[int] = Counter()
        self._ops_before = self._last("memory_ops", "op_no")
        self._usage_before = self._last("deleted_usage", "rowid")

    def take(self, number: int, item: Line | ImportedRun) -> None:
        """Brings in line `number`. ImportInvalid, Unavailable."""
        match item:
            case ImportedRun():
                self._run(number, item)
                return
            case ThreadLine():
                self._thread(number, item)
                return
        if isinstance(item, SummaryLine):
            self.settle()
            self._summary(item)
        elif isinstance(item, Key):
            self._key(number, item)
        elif isinstance(item, Tombstone):
            self._tombstone(item)
        elif isinstance(item, OpLine):
            self._op(item)
        elif isinstance(item, DeletedUsageLine):
            self._deleted_usage(item)
        elif isinstance(item, NoticeLine):
            self._notice(item)

    def settle(self) -> None:
        """Puts the threads right that got runs: counts, places in lists, cursors. Done once, behind the last run."""
        if self._settled:
            return
        self._settled = True
        for thread_id, line in self._new.items():
            thread_no = self._thread_nos[thread_id]
            extracted = self._nth(thread_no, line.extracted_run_count)
            self._db.execute(
                "UPDATE threads SET run_count = (SELECT count(*) FROM runs WHERE thread_no = :no), "
                "last_sequence = coalesce((SELECT max(sequence) FROM runs WHERE thread_no = :no), 0), "
                "extracted_upto = :upto WHERE thread_no = :no",
                {"no": thread_no, "upto": extracted},
            )
        for thread_id, added in self._added.items():
            if thread_id not in self._new:
                # As after a deletion: the summary goes back to before the first run that it does not tell of.
                shorten(self._db, self._thread_nos[thread_id], added, -len(added))

    def _last(self, table: str, number: str) -> int:
        row = self._db.execute(f"SELECT max({number}) FROM {table} WHERE scope_no = ?", (self._scope_no,)).fetchone()
        return row[0] or 0

    def _lift(self, kind: str, name: str) -> bool:
        return lift(self._db, self._secret, self._scope, self._scope_no, kind, name)

    def _nth(self, thread_no: int, count: int) -> int:
        """The sequence of a thread's run number `count`, 0 for none."""
        if not count:
            return 0
        row = self._db.execute(
            "SELECT sequence FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT 1 OFFSET ?", (thread_no, count - 1)
        ).fetchone()
        return row[0] if row else 0

    def _thread(self, number: int, line: ThreadLine) -> None:
        row = self._db.execute(
            "SELECT thread_no, scope_no, tenant_id FROM threads JOIN scopes USING (scope_no) WHERE thread_id = ?",
            (line.thread_id,),
        ).fetchone()
        if row:
            if row[2] == "":
                raise Unavailable("what was deleted is still being taken out")
            if row[1] != self._scope_no:
                raise ImportInvalid(number, "thread_id belongs to another scope; import into that one, or a new daemon")
            self._thread_nos[line.thread_id] = row[0]
            return
        self._lift("thread", line.thread_id)
        made = self._db.execute(
            "INSERT INTO threads (scope_no, thread_id, thread_key, title, title_named, state, locale, created_us, "
            "updated_us) SELECT :scope_no, :thread_id, CASE WHEN EXISTS (SELECT 1 FROM threads "
            # A key leads to one thread; where another has it by now, that one keeps it.
            "WHERE scope_no = :scope_no AND thread_key = :key AND thread_key <> '') THEN '' ELSE :key END, "
            ":title, :named, :state, :locale, :created_us, :updated_us",
            {
                "scope_no": self._scope_no,
                "thread_id": line.thread_id,
                "key": line.thread_key,
                "title": line.title,
                "named": line.title_named,
                "state": ThreadState.ARCHIVED if line.archived else ThreadState.ACTIVE,
                "locale": line.locale,
                "created_us": line.created_us,
                "updated_us": line.updated_us,
            },
        ).lastrowid
        assert made is not None
        self._thread_nos[line.thread_id] = made
        self._new[line.thread_id] = line
        self.threads += 1

    def _run(self, number: int, item: ImportedRun) -> None:
        line = item.line
        row = self._db.execute(
            "SELECT thread_id, input, output, outcome, state FROM runs JOIN threads USING (thread_no) "
            "WHERE runs.scope_no = ? AND run_id = ?",
            (self._scope_no, line.run_id),
        ).fetchone()
        if row:
            if not row[4]:
                raise Unavailable("what was deleted is still being taken out")
            if row[:4] != (line.thread_id, line.input, line.output, OUTCOMES[line.outcome]):
                raise ImportInvalid(number, "another run of this scope has this run_id; delete that one first")
            return
        thread_no = self._thread_nos[line.thread_id]
        if self._lift("run", line.run_id):
            self._forget_deleted_usage(line)
        sequence = self._insert(thread_no, self._places.get(line.run_id), item)
        if item.terms is not None:
            recall.index_run(self._db, self._scope_no, thread_no, sequence, item.terms)
        self._added.setdefault(line.thread_id, []).append(sequence)
        self.runs += 1

    def _insert(self, thread_no: int, place: int | None, item: ImportedRun) -> int:
        line = item.line
        sequence = self._db.execute(
            """
            INSERT INTO runs (sequence, scope_no, thread_no, run_id, outcome, served_by, provider, model, input_tokens,
                              output_tokens, cost_micros, context_token_count, labels, created_us, ended_us,
                              own_offset, renderer, whole, shown, input, output)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            (
                *(place, self._scope_no, thread_no, line.run_id, RunOutcome(OUTCOMES[line.outcome])),
                *(line.served_by, line.provider, line.model, line.input_tokens, line.output_tokens, line.cost_micros),
                *(line.context_token_count, json.dumps(dict(line.labels), ensure_ascii=False, sort_keys=True)),
                *(line.created_us, line.ended_us, line.own_offset, item.renderer, item.whole, item.shown),
                *(line.input, line.output),
            ),
        ).lastrowid
        assert sequence is not None
        return sequence

    def _forget_deleted_usage(self, line: RunLine) -> None:
        """What a run had cost when it was deleted, it costs itself again."""
        self._db.execute(
            "DELETE FROM deleted_usage WHERE rowid = (SELECT rowid FROM deleted_usage WHERE scope_no = ? "
            "AND created_us = ? AND provider = ? AND input_tokens = ? AND output_tokens = ? AND cost_micros = ? "
            "LIMIT 1)",
            (
                *(self._scope_no, line.created_us, line.provider),
                *(line.input_tokens, line.output_tokens, line.cost_micros),
            ),
        )

    def _summary(self, line: SummaryLine) -> None:
        """Takes a summary over where the thread has exactly the runs it covers, no better one, and a window besides."""
        thread_no = self._thread_nos[line.thread_id]
        covered = self._db.execute(
            "SELECT run_id, sequence FROM runs WHERE thread_no = ? ORDER BY sequence LIMIT ?",
            (thread_no, line.run_count),
        ).fetchall()
        folded_count, run_count = self._db.execute(
            "SELECT folded_count, run_count FROM threads WHERE thread_no = ?", (thread_no,)
        ).fetchone()
        if not folded_count < line.run_count <= run_count - RECENT_RUNS:
            return
        if [run_id for run_id, _ in covered] != list(self._runs_of[line.thread_id][: line.run_count]):
            return
        providers = json.dumps(sorted(line.providers), ensure_ascii=False)
        values = (covered[-1][1], line.run_count, line.text, providers)
        self._db.execute(
            "UPDATE threads SET folded_upto = ?, folded_count = ?, summary = ?, summary_providers = ?, "
            "revision = revision + 1, draft = '', draft_offset = 0 WHERE thread_no = ?",
            (*values, thread_no),
        )
        self._db.execute(
            "INSERT OR REPLACE INTO checkpoints (thread_no, folded_upto, folded_count, summary, summary_providers) "
            "VALUES (?, ?, ?, ?, ?)",
            (thread_no, *values),
        )

    def _key(self, number: int, line: Key) -> None:
        keys = tombstone_keys(self._db, self._scope_no)
        if bytes.fromhex(line.key) in keys:
            return
        if len(keys) == MAX_KEYS:
            raise ImportInvalid(number, f"the scope would hold tombstones under more than {MAX_KEYS} keys")
        self._db.execute(
            "INSERT INTO tombstone_keys VALUES (?, ?, ?)", (self._scope_no, len(keys) + 1, bytes.fromhex(line.key))
        )

    def _tombstone(self, line: Tombstone) -> None:
        self._db.execute(
            "INSERT INTO tombstones VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = max(count, excluded.count)",
            (self._scope_no, line.of, bytes.fromhex(line.digest), line.count),
        )

    def _op(self, line: OpLine) -> None:
        thread_no = self._thread_nos[line.thread_id] if line.thread_id else None
        told = (
            *(OP_KINDS[line.op], line.provider, line.model, line.input_tokens, line.output_tokens, line.cost_micros),
            *(line.error_reason, line.created_us, line.duration_ms),
        )
        columns = (
            "kind, provider, model, input_tokens, output_tokens, cost_micros, error_reason, created_us, duration_ms"
        )
        there = self._db.execute(
            f"SELECT op_no, thread_no FROM memory_ops WHERE scope_no = ? AND op_no <= ? "
            f"AND ({columns}) = (?, ?, ?, ?, ?, ?, ?, ?, ?) ORDER BY op_no",
            (self._scope_no, self._ops_before, *told),
        ).fetchall()
        self._seen[hash(("op", *told))] += 1
        nth = self._seen[hash(("op", *told))]
        if nth > len(there):
            self._db.execute(
                f"INSERT INTO memory_ops (scope_no, thread_no, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (self._scope_no, thread_no, *told),
            )
        elif there[nth - 1][1] is None and thread_no:
            # Its thread had been deleted, and is back.
            self._db.execute("UPDATE memory_ops SET thread_no = ? WHERE op_no = ?", (thread_no, there[nth - 1][0]))

    def _deleted_usage(self, line: DeletedUsageLine) -> None:
        told = (line.created_us, line.provider, line.input_tokens, line.output_tokens, line.cost_micros)
        (there,) = self._db.execute(
            "SELECT count(*) FROM deleted_usage WHERE scope_no = ? AND rowid <= ? "
            "AND (created_us, provider, input_tokens, output_tokens, cost_micros) = (?, ?, ?, ?, ?)",
            (self._scope_no, self._usage_before, *told),
        ).fetchone()
        self._seen[hash(("usage", *told))] += 1
        if self._seen[hash(("usage", *told))] > there:
            self._db.execute("INSERT INTO deleted_usage VALUES (?, ?, ?, ?, ?, ?)", (self._scope_no, *told))

    def _notice(self, line: NoticeLine) -> None:
        self._db.execute(
            "INSERT OR IGNORE INTO notices (scope_no, kind, from_provider, to_provider, occasion, text, created_us, "
            "acknowledged_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(self._scope_no, NOTICE_KINDS[line.notice], line.from_provider, line.to_provider, line.occasion),
                *(line.text, line.created_us, line.acknowledged_us),
            ),
        )


def places(db: sqlite3.Connection, scope_no: int, order: Collection[str]) -> dict[str, int]:
    """Returns free sequences for the runs of `order` that a scope lacks and that stand before one that it has.

    A deleted run left its own number behind, so there is room where it stood; whatever finds none goes to the end.
    """
    known = dict(db.execute("SELECT run_id, sequence FROM runs WHERE scope_no = ?", (scope_no,)).fetchall())
    found: dict[str, int] = {}
    missing: list[str] = []
    low = 0
    for run_id in order:
        at = known.get(run_id)
        if at is None:
            missing.append(run_id)
            continue
        if missing and at > low:
            free = list(_free_below(db, low, at, len(missing)))
            found.update(zip(missing, reversed(free), strict=False))
        missing = []
        low = max(low, at)
    return found


def _free_below(db: sqlite3.Connection, low: int, high: int, wanted: int) -> Iterator[int]:
    """Gives numbers that no run has, between two and downwards from the upper one."""
    expected = high - 1
    taken = db.execute(
        "SELECT sequence FROM runs WHERE sequence > ? AND sequence < ? ORDER BY sequence DESC LIMIT ?",
        (low, high, MAX_SCANNED),
    ).fetchall()
    for sequence in (*(row[0] for row in taken), low):
        while expected > sequence and wanted:
            yield expected
            expected -= 1
            wanted -= 1
        expected = sequence - 1
