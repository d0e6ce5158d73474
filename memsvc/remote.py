"""The commands that carry a scope out of a running daemon and into one, as any caller of the contract could."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import grpc

from memsvc import config, files
from memsvc.errors import InvalidField, SettingWrong
from memsvc.model import Scope
from memsvc.rules import exportfile, recallfile
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

PIECE_BYTES = 1 << 20
NO_DAEMON = 69
"""The exit status where no daemon answers, after `sysexits.h`."""
STANDARD_INPUT = "recall_log.jsonl"
"""The name of a recall log that comes by standard input, as that of a file."""


def export(options: argparse.Namespace) -> int:
    """Writes a scope's export; a file has its name only when it is whole."""
    with ExitStack() as stack:
        parts = _export(options, stack)
        return _written(
            options.file, lambda file: _answered(options, lambda: [file.write(part.data) for part in parts])
        )


def bring(options: argparse.Namespace) -> int:
    """Imports a file, and prints what came of it."""
    with ExitStack() as stack:
        return _bring(options, stack, _pieces(stack.enter_context(files.opened(options.file))))


def export_recall(options: argparse.Namespace) -> int:
    """Writes the completed runs of a scope as a recall log, oldest first; a file has its name only when it is whole."""
    with ExitStack() as stack:
        parts = _export(options, stack)
        spool = stack.enter_context(_spool())
        places: list[tuple[int, int, int]] = []

        def take() -> None:
            numbered = enumerate((line for part in parts for line in part.data.splitlines(keepends=True)), 1)
            for number, data in numbered:
                run = exportfile.decode(number, data)
                if isinstance(run, exportfile.RunLine) and run.outcome == "COMPLETED":
                    at = spool.tell()
                    places.append((run.ended_us, at, spool.write(recallfile.write(run))))

        def fill(file: IO[bytes]) -> int:
            for _, at, size in sorted(places):
                spool.seek(at)
                file.write(spool.read(size))
            return 0

        return _answered(options, take) or _written(options.file, fill)


def bring_recall(options: argparse.Namespace) -> int:
    """Imports a recall log, judged to its end before the daemon hears of it, and prints what came of it."""
    with ExitStack() as stack:
        file = stack.enter_context(files.opened(options.file))
        name = STANDARD_INPUT if options.file == "-" else Path(options.file).name
        reader = recallfile.Reader(Scope(options.tenant, options.agent, options.user), name, time.time_ns() // 1000)
        spool = stack.enter_context(_spool())
        while line := file.readline(exportfile.MAX_LINE_BYTES + 1):
            spool.write(reader.read(line))
        spool.seek(0)
        return _bring(options, stack, itertools.chain((reader.head(),), _pieces(spool), (reader.end(),)))


def _export(options: argparse.Namespace, stack: ExitStack) -> Any:
    """The messages of a scope's export."""
    stub, metadata = _daemon(options, stack)
    return stub.ExportScope(svc.ExportScopeRequest(scope=_scope(options)), metadata=metadata)


def _bring(options: argparse.Namespace, stack: ExitStack, pieces: Iterable[bytes]) -> int:
    """Sends an export to the daemon, and prints what came of it."""
    stub, metadata = _daemon(options, stack)

    def told() -> None:
        done = stub.ImportScope(_requests(_scope(options), pieces), metadata=metadata)
        refused = f"; a red line kept {done.refused_count} lines out" if done.refused_count else ""
        no_room = f"; {done.no_room_count} facts found no room" if done.no_room_count else ""
        print(
            f"imported {done.thread_count} threads, {done.run_count} runs, {done.fact_count} facts and "
            f"{done.candidate_count} candidates that were not there{refused}{no_room}"
        )

    return _answered(options, told)


def _written(name: str, fill: Callable[[IO[bytes]], int]) -> int:
    """Has a file filled, or standard output; it has its name only once `fill` returned 0. Returns what `fill` did."""
    if name == "-":
        return fill(sys.stdout.buffer)
    target = Path(name)
    draft = target.with_name(f"{target.name}.part")
    try:
        with open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            status = fill(file)
            file.flush()
            os.fsync(file.fileno())
        if status == 0:
            draft.replace(target)
    except OSError as error:
        raise InvalidField("FILE", f"{target} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return status


def _answered(options: argparse.Namespace, call: Any) -> int:
    """Makes a call; 0, or 1 with the daemon's own words where it refuses, or 69 where none is there."""
    try:
        call()
    except grpc.RpcError as error:
        # What a daemon says has its reason beside it; what gRPC says for it has none.
        if error.code() is grpc.StatusCode.UNAVAILABLE and not error.trailing_metadata():
            print(
                f"memsvc: no daemon answers at {_address(options)}; see that one runs there (memsvc serve), that "
                "--address or MEMSVC_LISTEN names it, and that --ca is given where it speaks TLS, and only there",
                file=sys.stderr,
            )
            return NO_DAEMON
        print(f"memsvc: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    return 0


def _requests(scope: pb.Scope, pieces: Iterable[bytes]) -> Iterator[svc.ImportScopeRequest]:
    yield svc.ImportScopeRequest(scope=scope)
    for piece in pieces:
        yield svc.ImportScopeRequest(data=piece)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _scope(options: argparse.Namespace) -> pb.Scope:
    return pb.Scope(tenant_id=options.tenant, agent_id=options.agent, user_id=options.user)


def _may_be_plain(address: str) -> bool:
    """Says whether a token may go there without TLS: on this machine, or where somebody said so, as for the daemon."""
    if os.environ.get("MEMSVC_ALLOW_PLAINTEXT", "").lower() in ("1", "true", "yes", "on"):
        return True
    try:
        return config.is_loopback(config.host_port(address)[0])
    except ValueError:
        return False


def _address(options: argparse.Namespace) -> str:
    return str(options.address or os.environ.get("MEMSVC_LISTEN", config.Settings.model_fields["listen"].default))


def _daemon(options: argparse.Namespace, stack: ExitStack) -> tuple[Any, list[tuple[str, str]]]:
    """A stub for the daemon, and what says who calls."""
    address = _address(options)
    if options.token_file and not options.ca and not _may_be_plain(address):
        why = f"the token would go to {address} in plain text; name the authority, or set MEMSVC_ALLOW_PLAINTEXT=true"
        raise SettingWrong("--ca", why)
    channel = stack.enter_context(
        grpc.secure_channel(address, grpc.ssl_channel_credentials(files.read(options.ca)))
        if options.ca
        else grpc.insecure_channel(address)
    )
    token = files.read(options.token_file).decode("ascii", "replace").strip() if options.token_file else ""
    return rpc.OpsServiceStub(channel), [("authorization", f"Bearer {token}")] if token else []


@contextmanager
def _spool() -> Iterator[IO[bytes]]:
    """A file without a name, gone with the command."""
    try:
        with tempfile.TemporaryFile() as file:
            yield file
    except OSError as error:
        why = f"it, or the folder of temporary files, cannot be read or written: {error.strerror}"
        raise InvalidField("FILE", why) from None
