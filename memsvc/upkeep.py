"""The commands that look after the database file: verify it, copy it beside a daemon, put a copy back."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memsvc.errors import DatabaseCorrupt

# Each command loads what it needs: `memsvc healthcheck` runs every few seconds and needs none of it.
if TYPE_CHECKING:
    from memsvc.store import Verified


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Adds `backup`, `restore` and `verify`."""
    backup = commands.add_parser(
        "backup",
        help="copy the database, verified, beside a daemon that goes on",
        description="Copies MEMSVC_DATABASE as it is at one moment into one file of mode 0600. A daemon may be "
        "recording meanwhile. The copy is verified before it has its name. It holds what people said, as the database "
        "does; and what is deleted later stays in it.",
    )
    backup.add_argument("file", metavar="FILE", type=Path)
    backup.add_argument("--force", action="store_true", help="replace FILE where it exists")
    backup.set_defaults(command=_backup)
    restore = commands.add_parser(
        "restore",
        help="put a backup in the place of the database",
        description="Verifies FILE and puts a copy of it in the place of MEMSVC_DATABASE; what stood there is kept "
        "beside it under another name. Stop the daemon first. What was deleted after the backup comes back with it: "
        "delete that again, and the old database once it is not needed.",
    )
    restore.add_argument("file", metavar="FILE", type=Path)
    restore.set_defaults(command=_restore)
    verify = commands.add_parser(
        "verify",
        help="look whether a database is whole: the file, the index, the summaries",
        description="Reads all of a database and prints a line for each thing that is not as it must be, ids and "
        "numbers alone. Exit status 0 where there is none, 1 where there is. A daemon may be recording meanwhile; what "
        "it deletes is gone from its log only when this has ended.",
    )
    verify.add_argument("file", metavar="FILE", type=Path, nargs="?", help="default: MEMSVC_DATABASE")
    verify.set_defaults(command=_verify)


def _backup(options: argparse.Namespace) -> int:
    from memsvc.store import backup_database  # noqa: PLC0415

    verified = backup_database(_database(), options.file, force=options.force)
    print(f"{options.file}: {_held(verified)}")
    return 0


def _restore(options: argparse.Namespace) -> int:
    from memsvc.store import restore_database  # noqa: PLC0415

    database = _database()
    verified, kept = restore_database(options.file, database, time.time_ns() // 1000)
    print(f"{database}: {_held(verified)}")
    if kept is not None:
        print(f"what stood there is {kept}; delete it when it is not needed, it holds what people said")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from memsvc.store import verify_database  # noqa: PLC0415

    path = options.file or _database()
    try:
        verified = verify_database(path)
    except DatabaseCorrupt as error:
        print(error.message)
        return 1
    for finding in verified.findings:
        print(finding)
    if not verified.findings:
        print(f"{path}: {_held(verified)}")
    return 1 if verified.findings else 0


def _database() -> Path:
    from memsvc import config  # noqa: PLC0415

    return config.load().database


def _held(verified: Verified) -> str:
    held = f"{verified.scopes} scopes, {verified.threads} threads, {verified.runs} runs"
    return f"verified, {held}, schema {verified.schema}"
