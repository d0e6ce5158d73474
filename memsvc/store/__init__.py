"""What the daemon asks of its memory: one Protocol of coarse, intention-named methods, each one unit of work.

Every method is all or nothing and durable when it returns; every one takes the scope first and sees no other. A unit
may be run again when a batch of writes was rolled back under it, so it depends on its arguments and the database
alone. SQL stands below, in a folder per engine; `open_store` is the only place that knows their names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from memsvc.model import MemoryOp, Notice, Run, Scope, Thread, ThreadState
from memsvc.rules.seentime import SeenTime
from memsvc.rules.shown import Renderer
from memsvc.rules.terms import QueryTerm
from memsvc.store.core import (
    CoreStore,
    ExtractState,
    FactChange,
    Imported,
    ImportedFact,
    KnownFact,
    LogEntry,
    NewCandidate,
    NewFact,
)
from memsvc.store.values import (
    Brought,
    ContextRead,
    DeletedScope,
    DueRun,
    ExportBounds,
    ExportPage,
    ExportPosition,
    Fold,
    FoldState,
    Found,
    ImportedRun,
    NewNotice,
    NewOp,
    Page,
    Prepared,
    PreparedRun,
    Question,
    Recorded,
    ThreadRef,
    UsageRow,
    Verified,
)

__all__ = [
    "Brought",
    "ContextRead",
    "CoreStore",
    "DeletedScope",
    "DueRun",
    "ExportBounds",
    "ExportPage",
    "ExportPosition",
    "ExtractState",
    "FactChange",
    "Fold",
    "FoldState",
    "Found",
    "Imported",
    "ImportedFact",
    "ImportedRun",
    "KnownFact",
    "LogEntry",
    "NewCandidate",
    "NewFact",
    "NewNotice",
    "NewOp",
    "Page",
    "Prepared",
    "PreparedRun",
    "Question",
    "Recorded",
    "Store",
    "ThreadRef",
    "UsageRow",
    "Verified",
    "backup_database",
    "open_store",
    "read_core_log",
    "restore_database",
    "verify_database",
]


class Store(CoreStore, Protocol):
    """The memory of all scopes. Errors are those of memsvc.errors; a full disk is DiskFull, and loses nothing."""

    @property
    def secret(self) -> bytes:
        """The database's secret, made with it: keys thread ids, tags and tombstones."""

    async def close(self) -> None:
        """Finishes what was begun and closes the file."""

    # -- the runner's two calls

    async def read_context(self, scope: Scope, ref: ThreadRef, question: Question) -> ContextRead:
        """Reads all that a context block needs, in one snapshot; writes nothing, mints ids by arithmetic.

        An empty `ref` reads no thread. ThreadNotInScope, Deleted.
        """

    async def record_run(self, scope: Scope, ref: ThreadRef, prepared: PreparedRun, now_us: int) -> Recorded:
        """Records a run and its index entry; opens its thread; the same run again changes nothing.

        ThreadNotInScope, RunConflict, Deleted.
        """

    async def search(
        self, scope: Scope, terms: Sequence[QueryTerm], top_k: int, min_score: float, text_limit: int
    ) -> list[Found]:
        """Returns completed runs that bear on the terms, best first, their texts cut to `text_limit` bytes."""

    # -- threads

    async def get_thread(self, scope: Scope, thread_id: str) -> Thread:
        """Returns a thread that has a run. ThreadNotInScope."""

    async def list_threads(
        self, scope: Scope, states: Collection[ThreadState], query: str, page: Page
    ) -> tuple[list[Thread], int]:
        """Returns threads by latest recorded run, and the position behind the last (0: no more).

        With a `query`, only those whose title or runs hold it, whatever the case of ASCII letters.
        """

    async def list_runs(
        self, scope: Scope, thread_id: str, page: Page, newest_first: bool, text_limit: int, byte_limit: int
    ) -> tuple[list[Run], int]:
        """Returns runs of a thread, texts cut to `text_limit` bytes (0: whole), and the position behind the last.

        A page ends early, with at least one run, before its texts pass `byte_limit`. ThreadNotInScope.
        """

    async def get_run(self, scope: Scope, run_id: str) -> Run:
        """Returns a run whole. RunNotFound."""

    async def rename_thread(self, scope: Scope, thread_id: str, title: str) -> Thread:
        """Gives a thread the title that a person chose. ThreadNotInScope."""

    async def set_thread_state(self, scope: Scope, thread_id: str, state: ThreadState) -> Thread:
        """Hides a thread from lists or shows it again. ThreadNotInScope."""

    # -- deletion: hidden from everybody at once; a call returns when nothing is left in the rows and the files, or
    # after some time, when a large deletion or a long read is in the way: `erasure_owed` tells of that

    async def delete_thread(self, scope: Scope, thread_id: str) -> int:
        """Deletes a thread, its runs, entries and summaries; leaves tombstones. Returns the number of runs.

        ThreadNotInScope.
        """

    async def delete_run(self, scope: Scope, run_id: str) -> str:
        """Deletes a run likewise; a summary that covered it falls back to a checkpoint. Returns the thread's id.

        RunNotFound.
        """

    async def delete_scope(self, scope: Scope) -> DeletedScope:
        """Deletes all of a scope but the tombstones of its runs and threads; one that holds nothing is no error."""

    async def scopes(self) -> list[Scope]:
        """Returns every scope that anything was ever kept of."""

    async def look_at_clock(self, clock_us: int, awake_us: int) -> SeenTime:
        """Keeps what the clock shows now, and returns what is known of it from all looks so far.

        `awake_us` is how long this process ran since its last look, 0 at the first one.
        """

    async def aged_threads(self, scope: Scope, before_us: int) -> list[str]:
        """Returns the threads whose first run was recorded before that time."""

    async def expire(self, scope: Scope, thread_id: str, before_us: int) -> bool:
        """Deletes a batch of a thread's first runs, those recorded before that time; returns whether more are left.

        A thread of which nothing is left is deleted; one that is gone is no error.
        """

    def erasure_owed(self) -> bool:
        """Tells whether words of something deleted may still be in the files, because a read keeps them there."""

    # -- folding

    async def due_threads(self) -> list[tuple[Scope, str]]:
        """Returns every thread that owes its summary runs: after a start, the work is found again."""

    async def fold_state(self, scope: Scope, thread_id: str) -> FoldState | None:
        """Returns what is due in a thread; None where nothing is, or the thread is gone."""

    async def commit_fold(
        self,
        scope: Scope,
        scope_no: int,
        thread_id: str,
        revision: int,
        fold: Fold,
        op: NewOp,
        notice: NewNotice | None,
        now_us: int,
    ) -> bool:
        """Writes summary, cursor and cost in one; False, with the cost alone written, where `revision` has moved.

        `scope_no` is the scope's number as the work was read: a scope that is begun anew after its deletion has
        another, and what was asked for the deleted one leaves nothing in it.
        """

    async def record_op(
        self, scope: Scope, scope_no: int, thread_id: str, op: NewOp, notice: NewNotice | None, now_us: int
    ) -> None:
        """Writes down a call that came to nothing, `scope_no` as for commit_fold."""

    async def raise_notice(self, scope: Scope, scope_no: int, notice: NewNotice, now_us: int) -> None:
        """Raises a notice unless the same one has been, or the scope of that number is gone."""

    # -- operations

    async def debts(self, scope: Scope | None) -> tuple[int, set[str]]:
        """Returns what memory owes a scope, or with None all of them.

        That is the number of recorded runs that neither a summary covers nor the recent window shows, and the providers
        that the scope's latest conversations were served by (of all scopes together: none are named).
        """

    async def backlog(self) -> tuple[int, int]:
        """Returns how many runs of all scopes wait to be folded, and since when the first has (0: none does)."""

    async def day_tokens(self, since_us: int) -> list[tuple[str, str, int]]:
        """Returns memory's own tokens since a time, as (tenant, agent, tokens)."""

    async def usage(self, scope: Scope, thread_id: str, start_us: int | None, end_us: int | None) -> list[UsageRow]:
        """Returns what runs and memory used in a half-open span, of a thread or all. ThreadNotInScope."""

    async def list_ops(
        self, scope: Scope, thread_id: str, page: Page, start_us: int | None, end_us: int | None
    ) -> tuple[list[MemoryOp], int]:
        """Returns memory's own calls, newest first, and the position behind the last. ThreadNotInScope."""

    async def list_notices(self, scope: Scope) -> list[Notice]:
        """Returns the notices that nobody has acknowledged, oldest first."""

    async def list_scopes(self, tenants: Collection[str] | None, page: Page) -> tuple[list[Scope], int]:
        """Returns the scopes of these tenants (None: of all) that hold anything, and the position behind the last."""

    async def begin_export(self, scope: Scope) -> ExportBounds:
        """Returns up to where an export that begins now goes; waits for what is being taken out, but not for ever."""

    async def export_page(self, scope: Scope, bounds: ExportBounds, position: ExportPosition) -> ExportPage:
        """Returns the next lines of an export, some hundred kilobytes.

        Unavailable where anything of the scope was deleted since `bounds` was made: it is in no page from then on.
        """

    async def import_scope(self, scope: Scope, prepared: Prepared, by: str, now_us: int) -> Brought:
        """Brings in what is not there yet, all or nothing, and lifts the tombstones of it; see docs/export.md.

        Imports wait for one another; other writes go on between their steps. `by` stands in the trail for facts that
        came without one. ImportInvalid; Unavailable where something deleted is still being taken out, or something that
        the file goes with was deleted, or recorded, before all of it was there.
        """

    async def acknowledge_notice(self, scope: Scope, notice_id: str, now_us: int) -> None:
        """Marks a notice as said; saying so twice is no error. NoticeNotFound."""


async def open_store(path: Path, renderer: Renderer, readers: int) -> Store:
    """Opens (or makes) the store at `path`. StartError where it is not ours, corrupt, newer, locked or unwritable."""
    from memsvc.store.sqlite.store import SqliteStore  # noqa: PLC0415  an engine is loaded when it is chosen

    return await SqliteStore.open(path, renderer, readers)


def read_core_log(path: Path, scope: Scope) -> list[LogEntry]:
    """Reads the trail of what was known of a scope, oldest first; a daemon may be at work on the file. StartError."""
    from memsvc.store.sqlite import trail  # noqa: PLC0415

    return trail.read(path, scope)


def verify_database(path: Path) -> Verified:
    """Looks whether all holds of a database that must; a daemon may be at work on it. StartError."""
    from memsvc.store.sqlite import backup  # noqa: PLC0415

    return backup.check(path)


def backup_database(path: Path, target: Path, *, force: bool) -> Verified:
    """Copies a database as it is at one moment, verifies the copy and gives it its name; a daemon may be at work on it.

    `force` takes the place of what stands there. StartError.
    """
    from memsvc.store.sqlite import backup  # noqa: PLC0415

    return backup.backup(path, target, force=force)


def restore_database(source: Path, path: Path, now_us: int) -> tuple[Verified, Path | None]:
    """Puts a backup, verified, in the place of a database that no daemon holds.

    Returns what the backup holds, and where the database is now that stood there. StartError.
    """
    from memsvc.store.sqlite import backup  # noqa: PLC0415

    return backup.restore(source, path, now_us)
