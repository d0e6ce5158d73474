"""The commands that carry a scope out of a running daemon and into one, as any caller of the contract could."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import grpc

from memsvc import config
from memsvc.errors import InvalidField
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc

PIECE_BYTES = 1 << 20


def export(options: argparse.Namespace) -> int:
    """Writes a scope's export; a file has its name only when it is whole."""
    with ExitStack() as stack:
        stub, metadata = _daemon(options, stack)
        parts = stub.ExportScope(svc.ExportScopeRequest(scope=_scope(options)), metadata=metadata)
        if options.file == "-":
            return _answered(lambda: [sys.stdout.buffer.write(part.data) for part in parts])
        target = Path(options.file)
        draft = target.with_name(f"{target.name}.part")
        try:
            with open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                status = _answered(lambda: [file.write(part.data) for part in parts])
                file.flush()
                os.fsync(file.fileno())
            if status == 0:
                draft.replace(target)
        except OSError as error:
            raise InvalidField("FILE", f"{target} cannot be written: {error.strerror}") from None
        finally:
            draft.unlink(missing_ok=True)
        return status


def bring(options: argparse.Namespace) -> int:
    """Imports a file, and prints what came of it."""
    with ExitStack() as stack:
        stub, metadata = _daemon(options, stack)
        file = stack.enter_context(_opened(options.file))

        def told() -> None:
            done = stub.ImportScope(_requests(_scope(options), file), metadata=metadata)
            refused = f"; a red line kept {done.refused_count} lines out" if done.refused_count else ""
            print(
                f"imported {done.thread_count} threads, {done.run_count} runs, {done.fact_count} facts and "
                f"{done.candidate_count} candidates that were not there{refused}"
            )

        return _answered(told)


def _answered(call: Any) -> int:
    """Makes a call; 0, or 1 with the daemon's own words where it refuses."""
    try:
        call()
    except grpc.RpcError as error:
        print(f"memsvc: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    return 0


def _requests(scope: pb.Scope, file: IO[bytes]) -> Iterator[svc.ImportScopeRequest]:
    yield svc.ImportScopeRequest(scope=scope, data=file.read(PIECE_BYTES))
    while piece := file.read(PIECE_BYTES):
        yield svc.ImportScopeRequest(data=piece)


def _scope(options: argparse.Namespace) -> pb.Scope:
    return pb.Scope(tenant_id=options.tenant, agent_id=options.agent, user_id=options.user)


def _daemon(options: argparse.Namespace, stack: ExitStack) -> tuple[Any, list[tuple[str, str]]]:
    """A stub for the daemon, and what says who calls."""
    address = options.address or os.environ.get("MEMSVC_LISTEN", config.Settings.model_fields["listen"].default)
    channel = stack.enter_context(
        grpc.secure_channel(address, grpc.ssl_channel_credentials(_read(options.ca)))
        if options.ca
        else grpc.insecure_channel(address)
    )
    token = _read(options.token_file).decode("ascii", "replace").strip() if options.token_file else ""
    return rpc.OpsServiceStub(channel), [("authorization", f"Bearer {token}")] if token else []


def _opened(name: str) -> IO[bytes]:
    try:
        return sys.stdin.buffer if name == "-" else open(name, "rb")
    except OSError as error:
        raise InvalidField("FILE", f"{name} cannot be read: {error.strerror}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidField("FILE", f"{path} cannot be read: {error.strerror}") from None
