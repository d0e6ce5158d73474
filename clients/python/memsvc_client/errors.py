"""What a call can raise, as one tree. Catch a class for what you would do about it, read `reason` for what
happened; what gRPC itself raises never reaches a caller.

    MemsvcError                      code, reason, message, metadata
    ├── InvalidArgument              the request can never succeed as it is
    │   ├── InvalidField                 INVALID_FIELD           .field
    │   │   └── FieldTooLarge            FIELD_TOO_LARGE         .field, .limit_bytes
    │   ├── ThreadNotInScope             THREAD_NOT_IN_SCOPE
    │   ├── RedLine                      RED_LINE                .category
    │   └── ImportInvalid                IMPORT_INVALID          .line
    ├── NotFound                     RUN_, FACT_, CANDIDATE_ or NOTICE_NOT_FOUND
    ├── RunConflict                  RUN_CONFLICT: the run id is taken by another run
    ├── Deleted                      DELETED: a run, thread or scope that does not come back
    ├── Unauthenticated              no token, or one that the daemon does not know
    ├── PermissionDenied             the token is known and not good for this
    │   ├── ScopeDenied                  SCOPE_DENIED
    │   └── RoleDenied                   ROLE_DENIED
    ├── ResourceExhausted            right in itself, too much for now
    │   ├── RateLimited                  RATE_LIMITED            .retry_after_s
    │   └── DiskFull                     DISK_FULL: needs a person
    ├── Unavailable                  no daemon there, or it cannot use its storage now
    ├── DeadlineExceeded             no answer in time; a write may have been done
    ├── Unimplemented                the daemon is older than this client
    └── RunNotRecorded               .run: what `run()` could not record, for another try

A reason that this client does not know, as a newer daemon may send, becomes the class of its status code.
"""

# The names say what is wrong; "Error" behind each would say it again.
# ruff: noqa: N818

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from memsvc_client.values import FinishedRun

DOMAIN = "memsvc"
DETAILS_KEY = "grpc-status-details-bin"
NO_METADATA: Mapping[str, str] = MappingProxyType({})


class MemsvcError(Exception):
    """Whatever a call can raise.

    `code` is the gRPC status, `reason` the daemon's word for it in capitals (empty where the error arose on
    the way and not in the daemon), `message` a sentence for people, `metadata` what the daemon named
    besides.
    """

    def __init__(
        self,
        message: str,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata)

    def __str__(self) -> str:
        return f"{self.reason or self.code.name}: {self.message}"

    def number(self, key: str) -> int:
        """The whole number that the daemon named under `key`; 0 where it named none."""
        text = self.metadata.get(key, "")
        return int(text) if text.isdecimal() and len(text) <= 18 else 0


class InvalidArgument(MemsvcError):
    """The request can never succeed as it is."""


class InvalidField(InvalidArgument):
    """A field is missing, malformed or contradicts another one."""

    @property
    def field(self) -> str:
        """The field's name in the contract, as "thread_key"; empty where it never left this client."""
        return self.metadata.get("field", "")


class FieldTooLarge(InvalidField):
    """A text is above its limit, counted in bytes of UTF-8. Nothing was stored."""

    @property
    def limit_bytes(self) -> int:
        """Most bytes that the field may take; 0 where the daemon named no limit."""
        return self.number("limit_bytes")


class ThreadNotInScope(InvalidArgument):
    """The thread does not exist or belongs to another scope; never says which."""


class RedLine(InvalidArgument):
    """A text for core memory carries what memory must never keep: grades, health, identity documents."""

    @property
    def category(self) -> str:
        """What kind of content it was."""
        return self.metadata.get("category", "")


class ImportInvalid(InvalidArgument):
    """An import was refused; nothing of it was stored."""

    @property
    def line(self) -> int:
        """The first bad line, counted from 1."""
        return self.number("line")


class NotFound(MemsvcError):
    """The scope has no such run, fact, candidate or notice; the same where another scope has it."""


class RunConflict(MemsvcError):
    """The run id names a recorded run with another input, output, outcome or thread. Nothing changed."""


class Deleted(MemsvcError):
    """The run, the thread or the scope was deleted and does not come back; go on under a new id."""


class Unauthenticated(MemsvcError):
    """The client has no token, or one that the daemon does not know."""


class PermissionDenied(MemsvcError):
    """The token is known and not good for this call."""


class ScopeDenied(PermissionDenied):
    """The token does not cover the scope's tenant."""


class RoleDenied(PermissionDenied):
    """The call needs a token of a higher role."""


class ResourceExhausted(MemsvcError):
    """The request is right in itself and too much for now."""


class RateLimited(ResourceExhausted):
    """Too many calls at once; nothing was done."""

    @property
    def retry_after_s(self) -> float:
        """Seconds after which the daemon would like to be asked again; 0 where it does not say."""
        return self.number("retry_after_ms") / 1000


class DiskFull(ResourceExhausted):
    """The daemon has no room to write. Nothing was stored; reading goes on."""


class Unavailable(MemsvcError):
    """No daemon answers at the address, or it cannot use its storage now."""


class DeadlineExceeded(MemsvcError):
    """No answer in time. A write may or may not have been done; `FinishedRun` is safe to send again."""


class Unimplemented(MemsvcError):
    """The daemon does not know this call."""


class RunNotRecorded(MemsvcError):
    """`run()` went well and its record did not.

    Nothing is lost: `run` holds the whole of it, and `memory.record_run(error.run)` tries again, now or
    after being kept somewhere, and never records it twice. `code`, `reason` and `metadata` are those of the
    cause.
    """

    def __init__(self, run: FinishedRun, cause: MemsvcError) -> None:
        super().__init__(
            f"run {run.run_id} ended well and was not recorded: {cause.message}",
            cause.code,
            cause.reason,
            cause.metadata,
        )
        self.run = run


def unsendable(error: ValueError) -> InvalidField:
    """The error for a value that no message can carry: a lone surrogate, a number out of range, a time
    without zone.
    """
    return InvalidField(f"cannot be sent: {error}", grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


def closed() -> MemsvcError:
    """The error of a call by a client that was closed before or during it."""
    return MemsvcError("this client is closed", grpc.StatusCode.CANCELLED)


BY_REASON: Mapping[str, type[MemsvcError]] = {
    "INVALID_FIELD": InvalidField,
    "FIELD_TOO_LARGE": FieldTooLarge,
    "THREAD_NOT_IN_SCOPE": ThreadNotInScope,
    "RED_LINE": RedLine,
    "IMPORT_INVALID": ImportInvalid,
    "RUN_CONFLICT": RunConflict,
    "DELETED": Deleted,
    "SCOPE_DENIED": ScopeDenied,
    "ROLE_DENIED": RoleDenied,
    "RATE_LIMITED": RateLimited,
    "DISK_FULL": DiskFull,
}

BY_CODE: Mapping[grpc.StatusCode, type[MemsvcError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
}


def from_rpc(failure: grpc.RpcError) -> MemsvcError:
    """The error of the tree that a failed call stands for."""
    # Both kinds of channel raise errors that are calls as well, which their common base class does not say.
    if not isinstance(failure, grpc.Call | grpc.aio.AioRpcError):
        return MemsvcError(str(failure))
    code = failure.code() or grpc.StatusCode.UNKNOWN
    info = _error_info(failure)
    kind = BY_REASON.get(info.reason) or BY_CODE.get(code, MemsvcError)
    return kind(failure.details() or "no details", code, info.reason, info.metadata)


def _error_info(failure: grpc.Call | grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    """The daemon's ErrorInfo; an empty one where something on the way answered in its place.

    Read here and not by `grpc_status.from_call`, which raises when a proxy has reworded the message beside
    the details.
    """
    info = error_details_pb2.ErrorInfo()
    for key, value in failure.trailing_metadata() or ():
        if key != DETAILS_KEY or not isinstance(value, bytes):
            continue
        try:
            details = status_pb2.Status.FromString(value).details
            if any(each.Unpack(info) and info.domain == DOMAIN for each in details):
                return info
        except DecodeError:
            pass
    return error_details_pb2.ErrorInfo()
