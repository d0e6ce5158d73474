"""The command `memsvc`: serve, and what one needs around it. Errors are one line and an exit status."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from memsvc import transfer, upkeep
from memsvc.errors import MemsvcError, StartError

EPILOG = """\
A first conversation, with nothing configured:

  memsvc serve &
  buf curl --protocol grpc --http2-prior-knowledge -d '{
    "scope": {"tenant_id": "school-7", "agent_id": "exam"}, "thread_key": "monday",
    "input": "出一份数据结构试卷", "output": "好的。", "outcome": "RUN_OUTCOME_COMPLETED"
  }' http://127.0.0.1:50051/memsvc.v1.MemoryService/RecordRun
  buf curl --protocol grpc --http2-prior-knowledge -d '{
    "scope": {"tenant_id": "school-7", "agent_id": "exam"}, "thread_key": "monday", "input": "简答题换两道"
  }' http://127.0.0.1:50051/memsvc.v1.MemoryService/GetContext

Settings are environment variables (`memsvc serve --help` lists them all) and memsvc.toml for the rest.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    options = _parser().parse_args(arguments)
    # gRPC's core writes lines of its own to standard error, and settles at its import whether it does.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except StartError as error:
        print(f"memsvc: {error.message}", file=sys.stderr)
        return error.exit_status
    except MemsvcError as error:
        print(f"memsvc: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memsvc",
        description="A memory daemon for AI agents, behind gRPC.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    serve = commands.add_parser(
        "serve",
        help="run the daemon until SIGTERM",
        description="Runs the daemon: one process, one SQLite file, no model needed.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.set_defaults(command=_serve)
    if arguments_ask_for_help():
        serve.epilog = _settings_help()
    health = commands.add_parser(
        "healthcheck",
        help="exit 0 if the daemon serves, 1 if not",
        description="Asks the daemon at MEMSVC_LISTEN for its health; needs no credential.",
    )
    health.add_argument("--timeout", type=float, default=3.0, metavar="SECONDS", help="default: 3")
    health.set_defaults(command=_healthcheck)
    _add_token_commands(commands)
    transfer.add_commands(commands)
    upkeep.add_commands(commands)
    return parser


def _add_token_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    token = commands.add_parser("token", help="make credentials", description="Makes credentials for callers.")
    kinds = token.add_subparsers(metavar="COMMAND", required=True)
    create = kinds.add_parser(
        "create",
        help="print a new token and the entry of memsvc.toml that knows it",
        description="Prints a new token, and below it the entry of memsvc.toml that knows it by its hash. The token is "
        "shown this once and kept nowhere. Touches no file; the daemon reads its credentials anew at SIGHUP.",
    )
    create.add_argument(
        "--role",
        choices=("runner", "reviewer", "admin"),
        default="runner",
        help="runner: what an agent calls; reviewer: besides, facts, deletion and costs; admin: all (default: runner)",
    )
    create.set_defaults(command=_token_create)
    init = kinds.add_parser(
        "init",
        help="make a token of each role into files, once",
        description="Makes DIR/runner/token, DIR/reviewer/token and DIR/admin/token, each for its owner's eyes alone, "
        "and DIR/credentials.toml, which knows them by their hashes and is what MEMSVC_CREDENTIALS_FILE names. Prints "
        "where they are and never what they are. Where DIR/credentials.toml exists, it says so and does nothing.",
    )
    init.add_argument("--directory", required=True, type=Path, metavar="DIR", help="made where it does not exist")
    for parser in (create, init):
        parser.add_argument(
            "--tenants",
            nargs="+",
            type=_tenant,
            default=["*"],
            metavar="TENANT",
            help="those the token may speak for (default: all)",
        )
    init.set_defaults(command=_token_init)


def _tenant(value: str) -> str:
    if not re.fullmatch(r"\*|[A-Za-z0-9._:@-]{1,128}", value):
        raise argparse.ArgumentTypeError("must be * or 1 to 128 letters, digits or . _ - : @")
    return value


def arguments_ask_for_help() -> bool:
    """Says whether the long help may be printed: making it loads the settings' descriptions."""
    return any(argument in ("-h", "--help") for argument in sys.argv)


def _serve(_: argparse.Namespace) -> int:
    from memsvc import app, config, log  # noqa: PLC0415  each command loads what it needs: healthcheck runs often

    settings = config.load()
    log.configure(settings.log_level, settings.log_format)
    if strangers := config.strangers(os.environ):
        app.log.warning("unknown_variables", names=strangers)
    asyncio.run(app.serve(settings))
    return 0


def _healthcheck(options: argparse.Namespace) -> int:
    from memsvc import healthcheck  # noqa: PLC0415

    return healthcheck.run(options)


def _token_create(options: argparse.Namespace) -> int:
    from memsvc import auth  # noqa: PLC0415

    token, token_hash = auth.make_token()
    print(f"{token}\n\n{auth.entry(options.role, options.tenants, token_hash)}", end="")
    return 0


def _token_init(options: argparse.Namespace) -> int:
    from memsvc import auth  # noqa: PLC0415

    files = auth.make_tokens(options.directory, options.tenants)
    credentials = options.directory / auth.CREDENTIALS
    if files is None:
        print(f"{credentials} exists; nothing was made or changed")
        return 0
    print("made a token of each role:")
    for role, path in files.items():
        print(f"  {role:8}  {path}")
    print(f"the daemon knows them by {credentials}; give it MEMSVC_CREDENTIALS_FILE={credentials}")
    return 0


def _settings_help() -> str:
    from memsvc.config import Settings, variable  # noqa: PLC0415

    lines = ["settings, each as a variable or, in lower case without the prefix, as a key of memsvc.toml:"]
    for name, field in Settings.model_fields.items():
        if field.description:
            default = getattr(field.default, "value", field.default)
            lines.append(f"  {variable(name)}\n      {field.description} (default: {default!s})")
    lines += [
        "",
        "  MEMSVC_CONFIG\n      the file to read (default: memsvc.toml, where it exists); it alone has",
        "      [providers.NAME], [[credentials]] and [[limits]], which the README describes.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
