"""The commands that carry a scope: what is known of a user as core_memory.json, who changed what, all of it as lines.

Those of core memory take the database file for themselves, so that no daemon works on it at the same time; the trail is
read beside one, and the whole of a scope comes out of a running one and goes into one.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import re
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memsvc import files
from memsvc.errors import InvalidField, SettingWrong
from memsvc.model import Scope

# Each command loads what it needs: `memsvc healthcheck` runs every few seconds and needs none of it.
if TYPE_CHECKING:
    from memsvc.store import Store

ACTOR = "import-core"
"""Who stands in the trail for what a file brought."""

_NAME = re.compile(r"[A-Za-z0-9._:@-]{1,128}")


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Adds `export`, `import`, `export-recall`, `import-recall`, `import-core`, `export-core` and `core log`."""
    _add_whole(commands)
    bring = commands.add_parser(
        "import-core",
        help="bring facts and candidates of a core_memory.json into a scope",
        description="Brings in what is not there yet, while there is room; repeating it adds nothing. What a red line "
        "forbids is left out and counted. Stop the daemon first: it holds the database.",
    )
    _scope_options(bring)
    bring.add_argument("file", metavar="FILE", help="a core_memory.json, or - for standard input")
    bring.set_defaults(command=_import)
    take = commands.add_parser(
        "export-core",
        help="write the facts and candidates of a scope as core_memory.json",
        description="Writes what import-core reads. Stop the daemon first: it holds the database.",
    )
    _scope_options(take)
    take.add_argument("file", metavar="FILE", nargs="?", default="-", help="where to (default: standard output)")
    take.set_defaults(command=_export)
    core = commands.add_parser("core", help="tell of what is known of a user: `core log` prints who changed what")
    log = core.add_subparsers(metavar="COMMAND", required=True).add_parser(
        "log",
        help="print every change of the facts of a scope, oldest first",
        description="Prints when, who, what kind of change, which fact, and its words before and after. A daemon may "
        "run meanwhile.",
    )
    _scope_options(log)
    log.set_defaults(command=_log)


def _add_whole(commands: argparse._SubParsersAction[Any]) -> None:
    take = commands.add_parser(
        "export",
        help="write everything of a scope of a running daemon to a file",
        description="Writes all of a scope as JSON lines (docs/export.md), which import reads. Needs an admin's token "
        "where the daemon has credentials. FILE has its name only when it is whole; its mode is 0600.",
    )
    bring = commands.add_parser(
        "import",
        help="bring such a file into a scope of a running daemon",
        description="Brings in what is not there yet, all of it or nothing; repeating it adds nothing. What a red line "
        "forbids is left out and counted. Needs an admin's token where the daemon has credentials.",
    )
    take_log = commands.add_parser(
        "export-recall",
        help="write the completed runs of a scope of a running daemon as a recall_log.jsonl",
        description="Writes when, what was asked and what was answered, a line of JSON for each completed run, oldest "
        "first (docs/recall.md); import-recall reads it. Needs an admin's token where the daemon has credentials. FILE "
        "has its name only when it is whole; its mode is 0600.",
    )
    bring_log = commands.add_parser(
        "import-recall",
        help="bring a recall_log.jsonl into a scope of a running daemon, as an archived thread",
        description="Brings in what is not there yet, all of it or nothing, as one archived thread with the file's "
        "name; repeating it adds nothing, and of a file that has grown what is new. docs/recall.md says which fields "
        "are read. Needs an admin's token where the daemon has credentials.",
    )
    _remote(take, "export").add_argument("file", metavar="FILE", help="where to, or - for standard output")
    _remote(bring, "bring").add_argument("file", metavar="FILE", help="a file, or - for standard input")
    _remote(take_log, "export_recall").add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="where to (default: standard output)"
    )
    _remote(bring_log, "bring_recall").add_argument("file", metavar="FILE", help="a file, or - for standard input")


def _remote(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    """Has a command done by `memsvc.remote`, with the options that say which scope of which daemon."""
    _scope_options(parser)
    parser.add_argument("--address", default="", metavar="HOST:PORT", help="default: MEMSVC_LISTEN")
    parser.add_argument("--token-file", type=Path, metavar="PATH", help="a file with the token, as `token init` made")
    parser.add_argument("--ca", type=Path, metavar="PATH", help="TLS: the certificates to trust, as PEM")

    def run(options: argparse.Namespace) -> int:
        from memsvc import remote  # noqa: PLC0415

        done: int = getattr(remote, command)(options)
        return done

    parser.set_defaults(command=run)
    return parser


def _scope_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", required=True, type=_name, metavar="ID")
    parser.add_argument("--agent", required=True, type=_name, metavar="ID")
    parser.add_argument("--user", default="", type=_name, metavar="ID", help="default: the scope without a user")


def _name(value: str) -> str:
    if value and not _NAME.fullmatch(value):
        raise argparse.ArgumentTypeError("must be 1 to 128 letters, digits or . _ - : @")
    return value


def _import(options: argparse.Namespace) -> int:
    data = files.read(options.file)
    print(asyncio.run(_bring(_scope(options), data)))
    return 0


def _export(options: argparse.Namespace) -> int:
    data = asyncio.run(_take(_scope(options)))
    if options.file == "-":
        sys.stdout.buffer.write(data)
        return 0
    try:
        with open(options.file, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(data)
    except OSError as error:
        raise InvalidField("FILE", f"{options.file} cannot be written: {error.strerror}") from None
    return 0


def _log(options: argparse.Namespace) -> int:
    from memsvc import config  # noqa: PLC0415
    from memsvc.store import read_core_log  # noqa: PLC0415

    for entry in read_core_log(config.load().database, _scope(options)):
        words = " → ".join(text for text in (entry.text_before, entry.text_after) if text)
        print(f"{_when(entry.created_us)}  {entry.actor or '-'}  {entry.change}  {entry.item_id}  {words}".rstrip())
    return 0


async def _bring(scope: Scope, data: bytes) -> str:
    """Imports a file; returns what to tell of it."""
    from memsvc.rules import corefile  # noqa: PLC0415
    from memsvc.store import ImportedFact  # noqa: PLC0415

    now_us = time.time_ns() // 1000
    file = corefile.read(data)

    def made(entry: corefile.Entry, kind: str) -> ImportedFact:
        created_us = min(entry.created_us or now_us, now_us)
        return ImportedFact(
            fresh_id=f"{kind}_{secrets.token_hex(8)}",
            text=entry.text,
            source_run_ids=entry.source_run_ids,
            served_by=entry.served_by,
            created_us=created_us,
            named_id=entry.named_id,
            last_used_us=min(entry.last_used_us or created_us, now_us),
            confirmed_by=entry.confirmed_by,
            confidence=entry.confidence,
            supersedes_fact_id=entry.supersedes_fact_id,
        )

    facts = [made(entry, "f") for entry in file.facts]
    candidates = [made(entry, "c") for entry in file.candidates]
    async with _store() as store:
        added = await store.import_core(scope, facts, candidates, ACTOR, now_us)
    there = len(facts) + len(candidates) - added.facts - added.candidates - added.no_room
    told = [f"imported {added.facts} facts and {added.candidates} candidates"]
    for count, why in (
        (there, "were there, or had been decided upon"),
        (added.no_room, "found no room"),
        (file.refused.get("RED_LINE", 0), "were refused by a red line"),
        (file.refused.get("FORM", 0), "were refused as no text of a fact"),
    ):
        if count:
            told.append(f"{count} {why}")
    return "; ".join(told)


async def _take(scope: Scope) -> bytes:
    """Returns the file of a scope."""
    from memsvc.rules import corefile  # noqa: PLC0415
    from memsvc.rules.facts import MAX_CANDIDATES  # noqa: PLC0415
    from memsvc.store import Page  # noqa: PLC0415

    async with _store(must_exist=True) as store:
        facts = sorted(await store.list_facts(scope), key=lambda fact: fact.created_us)
        candidates, _ = await store.list_candidates(scope, Page(0, MAX_CANDIDATES))
        return corefile.write(facts, candidates, await store.fact_origins(scope))


@asynccontextmanager
async def _store(*, must_exist: bool = False) -> AsyncIterator[Store]:
    from memsvc import config  # noqa: PLC0415
    from memsvc.rules.shown import Renderer  # noqa: PLC0415
    from memsvc.store import open_store  # noqa: PLC0415
    from memsvc.tokens import Tokenizer  # noqa: PLC0415

    settings = config.load()
    if must_exist and not settings.database.exists():
        raise SettingWrong("MEMSVC_DATABASE", f"there is no database at {settings.database}")
    store = await open_store(settings.database, Renderer.of(Tokenizer(settings.tokenizer)), readers=1)
    try:
        yield store
    finally:
        await store.close()


def _scope(options: argparse.Namespace) -> Scope:
    return Scope(options.tenant, options.agent, options.user)


def _when(time_us: int) -> str:
    return datetime.datetime.fromtimestamp(time_us / 1e6, datetime.UTC).isoformat(timespec="seconds")
