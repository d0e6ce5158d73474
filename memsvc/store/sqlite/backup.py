"""A copy of a database, taken beside a daemon that goes on, and the way back: verified before it has its name.

A copy is read in one transaction: it is the database as it was at one moment. It waits for nobody and nobody for it;
only the log cannot be cut meanwhile. Whatever was deleted after that moment is in the copy, and comes back with it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from memsvc.errors import BackupRefused, DatabaseCorrupt
from memsvc.store.sqlite import migrate, start, verify
from memsvc.store.values import Verified


def check(path: Path) -> Verified:
    """Verifies a database; a daemon may be at work on it. StartError where it is none of ours or cannot be read."""
    real = os.path.realpath(path)
    with closing(start.open_beside(real, migrate.shipped())) as db, start.refusals(real):
        db.execute("BEGIN")
        try:
            complaints = list(verify.findings(db))
            held = (0, 0, 0) if complaints else verify.counts(db)
        except sqlite3.DatabaseError as error:
            return Verified([f"damage: {error}"], 0, 0, 0, 0)
        return Verified(complaints, *held, verify.schema(db))


def backup(database: Path, target: Path, *, force: bool) -> Verified:
    """Copies a database to `target`, mode 0600, verified before it is there. StartError."""
    source, made = os.path.realpath(database), Path(os.path.realpath(target))
    if made.exists() and not force:
        raise BackupRefused(str(target), "it exists; give another name, or --force to replace it")
    if os.path.exists(made) and os.path.samefile(made, source):
        raise BackupRefused(str(target), "it is the database itself; give another name")
    with closing(start.open_beside(source, migrate.shipped())) as db, _draft(made) as draft:
        with start.refusals(source), closing(sqlite3.connect(draft, isolation_level=None)) as copy:
            db.backup(copy)
            # One file, which tells all by itself: a daemon that opens it gives it a log again.
            copy.execute("PRAGMA journal_mode = DELETE")
        return _verified(draft, source)


def restore(source: Path, database: Path, now_us: int) -> tuple[Verified, Path | None]:
    """Puts a backup in the place of a database that no daemon holds; what stood there is kept beside it.

    Returns what was found in the backup, and where the old database is now. StartError.
    """
    backup_file, target = os.path.realpath(source), Path(os.path.realpath(database))
    if target.exists() and os.path.exists(backup_file) and os.path.samefile(backup_file, target):
        raise BackupRefused(str(source), "it is the database itself; name a backup")
    with start.refusals(str(target)), start.locked(str(target)) as lock, _draft(target) as draft:
        # A copy of our own is verified: what the name leads to may change.
        with (
            closing(start.open_beside(backup_file, migrate.shipped())) as db,
            closing(sqlite3.connect(draft)) as to,
        ):
            db.backup(to)
            to.execute("PRAGMA journal_mode = DELETE")
        verified = _verified(draft, backup_file)
        _take_log_in(target)
        kept = _put_aside(target, now_us)
    os.close(lock)
    return verified, kept


def _verified(draft: Path, source: str) -> Verified:
    verified = check(draft)
    if verified.findings:
        raise DatabaseCorrupt(source, f"{len(verified.findings)} findings; first: {verified.findings[0]}")
    return verified


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A file beside `target`, for its owner's eyes alone; it takes the name when all went well and is gone if not.

    What a command left there that was killed is taken over; one that is at work keeps it, and BackupRefused says so.
    """
    draft = target.with_name(f"{target.name}.part")
    with start.refusals(str(target)):
        held = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The other may have given it its name, or removed it, since it was opened.
            is_there = _is_at(held, draft)
        except BlockingIOError:
            is_there = False
        if not is_there:
            os.close(held)
            raise BackupRefused(str(target), "another command is writing it; wait for that one")
        os.fchmod(held, 0o600)
        os.ftruncate(held, 0)
    try:
        yield draft
        with start.refusals(str(target)):
            _sync(draft)
            os.replace(draft, target)
            _sync(target.parent)
    finally:
        # With the name given, another command may have begun a draft of its own.
        if _is_at(held, draft):
            for suffix in ("-journal", "-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    os.unlink(f"{draft}{suffix}")
        os.close(held)


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def _take_log_in(target: Path) -> None:
    """Moves what the log of a database holds into its file, where it can be read: one file is replaced in one step."""
    if target.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(target, isolation_level=None)) as db:
            # Whoever closes a database last takes its log in, and the log away.
            db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()


def _put_aside(target: Path, now_us: int) -> Path | None:
    """Keeps a database beside its place, under another name.

    It stays in its place as well, under both names, until the copy takes that: a start after a crash in between must
    not find an empty place and make a new database there. Only one that is so damaged that it kept its log is renamed
    with it, the file first: a log alone is a place where no daemon starts.
    """
    there = [suffix for suffix in ("", "-wal", "-shm", "-journal") if os.path.exists(f"{target}{suffix}")]
    if not there:
        return None
    aside = target.with_name(f"{target.name}.replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now_us / 1e6))}")
    if aside.exists():
        raise BackupRefused(str(aside), "it exists; try again in a second")
    if there == [""]:
        os.link(target, aside)
        return aside
    for suffix in there:
        os.rename(f"{target}{suffix}", f"{aside}{suffix}")
    return aside


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
