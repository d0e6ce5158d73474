"""The command: `memsvc-console` serves; `init` makes a password, `hash` hashes one."""

from __future__ import annotations

import argparse
import getpass
import http.client
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType

import uvicorn

from memsvc_console.app import create_app
from memsvc_console.passwords import hash_password, make_password
from memsvc_console.settings import Settings, SettingWrong, load

MAX_CONNECTIONS = 500

SETTINGS = """settings (environment):
  MEMSVC_CONSOLE_LISTEN              host:port of the page (127.0.0.1:8080)
  MEMSVC_CONSOLE_DAEMON              host:port of the daemon (127.0.0.1:50051)
  MEMSVC_CONSOLE_DAEMON_CA_FILE      PEM of the authority behind the daemon's certificate; none means plain text
  MEMSVC_CONSOLE_TOKEN_FILE          file with a reviewer's token; none for a daemon without credentials
  MEMSVC_CONSOLE_ORIGIN              what the browser's address bar shows behind a proxy, as https://memory.example.org
  MEMSVC_CONSOLE_PASSWORD_HASH       what `memsvc-console hash` prints; needed off loopback
  MEMSVC_CONSOLE_PASSWORD_HASH_FILE  the same in a file
  MEMSVC_CONSOLE_ACTOR               the person's name, until they give one on the page
  MEMSVC_CONSOLE_SCOPES              tenant/agent/user, with commas between: what the page offers first
  MEMSVC_CONSOLE_TIME_ZONE           IANA name, for times on the pages (UTC)
  MEMSVC_CONSOLE_CHAT_BASE_URL       an OpenAI-compatible endpoint for the chat, up to /chat/completions
  MEMSVC_CONSOLE_CHAT_MODEL          its model; without these two there is no chat
  MEMSVC_CONSOLE_CHAT_API_KEY_ENV    the variable that holds its key; none means that it needs none
  MEMSVC_CONSOLE_CHAT_PROVIDER       its name in the daemon's settings, where memory's own calls go
  MEMSVC_CONSOLE_CHAT_INPUT_PRICE    millionths of the currency for a million tokens read (0), for the recorded cost
  MEMSVC_CONSOLE_CHAT_OUTPUT_PRICE   the same for tokens written
  MEMSVC_CONSOLE_RUNNER_TOKEN_FILE   file with a runner's token, for the chat; none for a daemon without credentials
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="memsvc-console", epilog=SETTINGS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("serve", help="serve the pages (what happens without a command)")
    commands.add_parser("hash", help="read a password and print its hash")
    commands.add_parser("healthcheck", help="exit with 0 when the console answers")
    init = commands.add_parser("init", help="make a password, unless there is one")
    init.add_argument("--directory", type=Path, required=True, help="where `password` and `password-hash` go")
    asked = parser.parse_args(arguments)
    try:
        match asked.command:
            case "hash":
                print(hash_password(getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")))
            case "init":
                make(asked.directory)
            case "healthcheck":
                return healthcheck(load(os.environ))
            case _:
                serve(load(os.environ))
    except SettingWrong as error:
        print(f"memsvc-console: {error}", file=sys.stderr)
        return 2
    return 0


def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; what waits to be taken back is sent before it ends."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    for name in ("memsvc_console", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").addFilter(without_trace)
    # The server raises the signal that stopped it once more when all is done; that would end the command with -15.
    signal.signal(signal.SIGTERM, stopped)
    # No access log of the server's: it would hold what people search for.
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=10,
    )


def stopped(_number: int, _frame: FrameType | None) -> None:
    """What SIGTERM means while the server does not mind it: the end, and a good one."""
    raise SystemExit(0)


def without_trace(record: logging.LogRecord) -> bool:
    """Takes the exception out of a record of the server's: its text may quote what somebody wrote.

    `app.crashed` has told the type and the place by then.
    """
    record.exc_info = record.exc_text = None
    return True


def make(folder: Path) -> None:
    """Makes a password and its hash. Where the hash exists, nothing is touched."""
    known = folder / "password-hash"
    if known.exists():
        return
    password = make_password()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, text in ((folder / "password", password), (known, hash_password(password))):
            path.unlink(missing_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(text + "\n")
    except OSError as error:
        raise SettingWrong(f"--directory: {error.filename or folder} cannot be written: {error.strerror}") from None
    print(f"The password stands in {folder / 'password'}.")


def healthcheck(settings: Settings) -> int:
    """0 when the console serves its login or first page, 1 when it does not."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    connection = http.client.HTTPConnection(host, settings.port, timeout=4)
    try:
        connection.request("GET", "/", headers={"host": f"localhost:{settings.port}"})
        return 0 if connection.getresponse().status < 500 else 1
    except OSError:
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    raise SystemExit(main())
