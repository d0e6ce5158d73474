"""What a file brings to a scope: found out on a reader, chunk by chunk, as statements that the writer carries out.

What is here stays as it is: a thread keeps its title, a fact its words. What is missing comes in, runs into the places
where they stood, and the tombstones of all that comes back are lifted. All of it is staged (staging.py); what cannot be
said before the last write stands in the `Plan` that goes there (showing.py).
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from memsvc.errors import ImportInvalid, Unavailable
from memsvc.model import RECENT_RUNS, RunOutcome, Scope, ThreadState
from memsvc.rules import ids
from memsvc.rules.exportfile import (
    MAX_KEYS,
    OUTCOMES,
    CandidateLine,
    FactLine,
    Key,
    Line,
    RunLine,
    SummaryLine,
    ThreadLine,
    Tombstone,
)
from memsvc.store.sqlite.importing_log import LogImport
from memsvc.store.sqlite.recall import postings_of
from memsvc.store.sqlite.scopes import tombstone_keys
from memsvc.store.sqlite.staging import Group
from memsvc.store.values import ImportedRun, Prepared

MAX_MERGED_RUNS = 5_000
"""Runs of one import for threads that are here already. Each is touched by the last write, which takes 24 µs for it."""
MAX_SCANNED = 100_000
"""Numbers looked at for free ones between two runs; where none is found, what comes back stands behind the others."""

Numbered = tuple[int, Line | ImportedRun]

_THREAD = "(SELECT thread_no FROM threads WHERE thread_id = ?)"
_NEW_THREAD = """INSERT INTO threads (scope_no, thread_id, title, title_named, state, locale, created_us, updated_us)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_NEW_RUN = f"""INSERT INTO runs (sequence, scope_no, thread_no, run_id, outcome, served_by, provider, model,
        input_tokens, output_tokens, cost_micros, context_token_count, labels, created_us, ended_us, own_offset,
        renderer, whole, shown, input, output)
    VALUES (?, ?, {_THREAD}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# Bound to the run that the statement before it made.
_NEW_ENTRY = "INSERT INTO recall_entries VALUES (?, ?, last_insert_rowid(), 0, ?)"
_COUNTED = "UPDATE threads SET run_count = ?, last_sequence = ?, extracted_upto = ? WHERE thread_id = ?"
_FOLDED = """UPDATE threads SET folded_upto = ?, folded_count = ?, summary = ?, summary_providers = ?,
    revision = revision + 1 WHERE thread_id = ?"""
_KEPT = f"INSERT OR REPLACE INTO checkpoints VALUES ({_THREAD}, ?, ?, ?, ?)"
_NEW_TOMBSTONE = """INSERT INTO tombstones VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = max(count, excluded.count)"""


@dataclass
class Plan:
    """What the last write does besides showing what was staged; holds ids and numbers, and of texts only facts."""

    scope_no: int
    hidden_no: int
    threads: int = 0
    runs: int = 0
    keys: dict[str, str] = field(default_factory=dict)
    """The thread_key of each new thread that has one."""
    standins: dict[str, int] = field(default_factory=dict)
    """The threads that were here and get something, by id, with their numbers."""
    lifted: list[tuple[str, bytes]] = field(default_factory=list)
    """Tombstones of what comes back."""
    usage: set[int] = field(default_factory=set)
    """Rows of deleted_usage that are runs again."""
    reopened: list[tuple[str, int]] = field(default_factory=list)
    """Threads that come back, with memory's calls for them that had lost them."""
    placed: bool = False
    """Whether a run stands under a number that a deleted one may have had."""
    core: list[FactLine | CandidateLine] = field(default_factory=list)


class Import:
    """Reads a file against a scope. Used from one thread at a time; reads, and writes nothing."""

    def __init__(self, secret: bytes, scope: Scope, numbers: tuple[int, int], prepared: Prepared) -> None:
        self.plan = Plan(*numbers)
        self._secret, self._scope, self._prepared = secret, scope, prepared
        self._scope_no, self._hidden_no = numbers
        self._places: dict[str, int] = {}
        self._keys: list[bytes] = []
        self._buried = False
        self._new: dict[str, ThreadLine] = {}
        self._entries = self._new_keys = self._merged = 0
        self._log = LogImport(numbers, self.plan.reopened)

    def begin(self, db: sqlite3.Connection) -> None:
        """Learns what is here; before the first line."""
        self._places = places(db, self._scope_no, self._prepared.run_ids)
        self._log.begin(db)

    def groups(self, db: sqlite3.Connection, lines: Sequence[Numbered]) -> list[Group]:
        """Returns what some lines have written, of those before them all being so. ImportInvalid, Unavailable."""
        self._learn_tombstones(db)
        return [group for number, item in lines for group in self._line(db, number, item)]

    def counted(self, db: sqlite3.Connection) -> list[Group]:
        """Returns what puts the new threads right once all runs are written: counts, places in lists, cursors."""
        groups: list[Group] = []
        for thread_id, line in self._new.items():
            runs = db.execute(
                f"SELECT sequence FROM runs WHERE thread_no = {_THREAD} ORDER BY sequence", (thread_id,)
            ).fetchall()
            extracted = runs[line.extracted_run_count - 1][0] if line.extracted_run_count else 0
            # Below zero until they are shown: nobody looks after a thread that has no runs yet.
            last = -runs[-1][0] if runs else 0
            groups.append(((_COUNTED, (-len(runs), last, extracted, thread_id)),))
        return groups

    def _learn_tombstones(self, db: sqlite3.Connection) -> None:
        """Whether there are any, and under which keys: with each chunk, since others delete in between."""
        self._keys += [key for key in tombstone_keys(db, self._scope_no) if key not in self._keys]
        one = db.execute("SELECT 1 FROM tombstones WHERE scope_no = ? LIMIT 1", (self._scope_no,)).fetchone()
        self._buried = self._buried or one is not None

    def _line(self, db: sqlite3.Connection, number: int, item: Line | ImportedRun) -> Iterator[Group]:
        match item:
            case ImportedRun():
                yield from self._run(db, number, item)
            case ThreadLine():
                yield from self._thread(db, number, item)
            case SummaryLine():
                yield from self._summary(db, item)
            case Key():
                yield from self._key(number, item)
            case Tombstone():
                self._buried = True
                yield ((_NEW_TOMBSTONE, (self._hidden_no, item.of, bytes.fromhex(item.digest), item.count)),)
            case FactLine() | CandidateLine():
                self.plan.core.append(item)
            case _:
                yield from self._log.line(item)

    def _key(self, number: int, line: Key) -> Iterator[Group]:
        key = bytes.fromhex(line.key)
        if key in self._keys:
            return
        if len(self._keys) == MAX_KEYS:
            raise ImportInvalid(number, f"the scope would hold tombstones under more than {MAX_KEYS} keys")
        self._keys.append(key)
        self._new_keys += 1
        yield (("INSERT INTO tombstone_keys VALUES (?, ?, ?)", (self._hidden_no, self._new_keys, key)),)

    def _lift(self, db: sqlite3.Connection, kind: str, name: str) -> bool:
        """Notes which tombstones a thing has that comes back; returns whether there are any."""
        if not self._buried:
            return False
        digests = [ids.first_tombstone(self._secret, self._scope, kind, name)]
        digests += [ids.tombstone(key, kind, name) for key in self._keys]
        found = db.execute(
            f"SELECT DISTINCT digest FROM tombstones WHERE scope_no IN (?, ?) AND kind = ? "
            f"AND digest IN ({', '.join('?' * len(digests))})",
            (self._scope_no, self._hidden_no, kind, *digests),
        ).fetchall()
        self.plan.lifted += [(kind, digest) for (digest,) in found]
        return bool(found)

    def _thread(self, db: sqlite3.Connection, number: int, line: ThreadLine) -> Iterator[Group]:
        row = db.execute(
            "SELECT scope_no, tenant_id FROM threads JOIN scopes USING (scope_no) WHERE thread_id = ?",
            (line.thread_id,),
        ).fetchone()
        if row:
            if row[1] == "":
                raise Unavailable("what was deleted is still being taken out")
            if row[0] != self._scope_no:
                raise ImportInvalid(number, "thread_id belongs to another scope; import into that one, or a new daemon")
            return
        self._lift(db, "thread", line.thread_id)
        state = ThreadState.ARCHIVED if line.archived else ThreadState.ACTIVE
        told = (line.title, line.title_named, -state, line.locale, line.created_us, line.updated_us)
        self._new[line.thread_id] = line
        self.plan.threads += 1
        if line.thread_key:
            self.plan.keys[line.thread_id] = line.thread_key
        yield ((_NEW_THREAD, (self._hidden_no, line.thread_id, *told)),)

    def _standin(self, db: sqlite3.Connection, thread_id: str) -> Iterator[Group]:
        """Makes a stand-in for a thread that is here, unless it has one."""
        if thread_id in self.plan.standins:
            return
        row = db.execute(
            "SELECT thread_no FROM threads WHERE thread_id = ? AND scope_no = ?", (thread_id, self._scope_no)
        ).fetchone()
        if not row:
            raise Unavailable("what was deleted is still being taken out")
        self.plan.standins[thread_id] = row[0]
        yield ((_NEW_THREAD, (self._hidden_no, standin(thread_id), "", 0, -ThreadState.ACTIVE, "en", 0, 0)),)

    def _run(self, db: sqlite3.Connection, number: int, item: ImportedRun) -> Iterator[Group]:
        line = item.line
        row = db.execute(
            "SELECT thread_id, input, output, outcome, state FROM runs JOIN threads USING (thread_no) "
            "WHERE runs.scope_no = ? AND run_id = ?",
            (self._scope_no, line.run_id),
        ).fetchone()
        if row:
            if row[4] <= 0:
                raise Unavailable("what was deleted is still being taken out")
            if row[:4] != (line.thread_id, line.input, line.output, OUTCOMES[line.outcome]):
                raise ImportInvalid(number, "another run of this scope has this run_id; delete that one first")
            return
        if self._lift(db, "run", line.run_id):
            self._note_deleted_usage(db, line)
        home = line.thread_id
        if home not in self._new:
            yield from self._standin(db, home)
            home = standin(home)
            self._merged += 1
            if self._merged > MAX_MERGED_RUNS:
                raise ImportInvalid(
                    number,
                    f"more than {MAX_MERGED_RUNS} runs for threads that are here already; delete those threads first, "
                    "or import the runs in parts, each a file with their threads",
                )
        self.plan.runs += 1
        yield self._written(home, item)

    def _written(self, home: str, item: ImportedRun) -> Group:
        line = item.line
        place = self._places.get(line.run_id)
        self.plan.placed |= place is not None
        run: tuple[object, ...] = (
            *(place, self._scope_no, home, line.run_id, RunOutcome(OUTCOMES[line.outcome])),
            *(line.served_by, line.provider, line.model, line.input_tokens, line.output_tokens, line.cost_micros),
            *(line.context_token_count, json.dumps(dict(line.labels), ensure_ascii=False, sort_keys=True)),
            *(line.created_us, line.ended_us, line.own_offset, item.renderer, item.whole, item.shown),
            *(line.input, line.output),
        )
        if item.terms is None:
            return ((_NEW_RUN, run),)
        self._entries += 1
        postings = array("q", postings_of(self._entries, item.terms)).tobytes()
        return ((_NEW_RUN, run), (_NEW_ENTRY, (self._hidden_no, self._entries, postings)))

    def _note_deleted_usage(self, db: sqlite3.Connection, line: RunLine) -> None:
        """What a run had cost when it was deleted, it costs itself again."""
        rows = db.execute(
            "SELECT rowid FROM deleted_usage WHERE scope_no = ? AND created_us = ? AND provider = ? "
            "AND input_tokens = ? AND output_tokens = ? AND cost_micros = ?",
            (
                *(self._scope_no, line.created_us, line.provider),
                *(line.input_tokens, line.output_tokens, line.cost_micros),
            ),
        ).fetchall()
        self.plan.usage.update([row for (row,) in rows if row not in self.plan.usage][:1])

    def _summary(self, db: sqlite3.Connection, line: SummaryLine) -> Iterator[Group]:
        """Takes a summary over where a new thread has exactly the runs it covers, and a window besides.

        For a thread that was here the last write says so; what cannot be better than its own is left out here.
        """
        providers = json.dumps(sorted(line.providers), ensure_ascii=False)
        told = (line.run_count, line.text, providers)
        if line.thread_id not in self._new:
            (folded_count,) = db.execute(
                "SELECT coalesce(max(folded_count), 0) FROM threads WHERE thread_id = ?", (line.thread_id,)
            ).fetchone()
            if line.run_count > folded_count:
                yield from self._standin(db, line.thread_id)
                yield ((_KEPT, (standin(line.thread_id), line.run_count, *told)),)
            return
        run_ids = self._prepared.runs_of[line.thread_id]
        covered = db.execute(
            f"SELECT run_id, sequence FROM runs WHERE thread_no = {_THREAD} ORDER BY sequence LIMIT ?",
            (line.thread_id, line.run_count),
        ).fetchall()
        if line.run_count > len(run_ids) - RECENT_RUNS:
            return
        if [run_id for run_id, _ in covered] != list(run_ids[: line.run_count]):
            return
        upto = covered[-1][1]
        yield (_FOLDED, (upto, *told, line.thread_id)), (_KEPT, (line.thread_id, upto, *told))


def standin(thread_id: str) -> str:
    """What the stand-in of a thread is called; no thread has an id like it."""
    return f"for {thread_id}"


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
