"""Everything that can go wrong on purpose, as one tree. A message is an answer: what happened, which field,
what to do; it may carry an id, a size, a name of ours, and never a word of what anyone said. What is not in
this tree is a bug.

    MemsvcError                      reason → ErrorInfo, status → gRPC
    ├── InvalidArgument              INVALID_ARGUMENT
    │   ├── InvalidField                 INVALID_FIELD           field
    │   ├── FieldTooLarge                FIELD_TOO_LARGE         field, limit_bytes
    │   ├── ThreadNotInScope             THREAD_NOT_IN_SCOPE     field
    │   ├── RedLine                      RED_LINE                category
    │   └── ImportInvalid                IMPORT_INVALID          line
    ├── NotFound                     NOT_FOUND
    │   ├── RunNotFound                  RUN_NOT_FOUND
    │   ├── FactNotFound                 FACT_NOT_FOUND
    │   ├── CandidateNotFound            CANDIDATE_NOT_FOUND
    │   └── NoticeNotFound               NOTICE_NOT_FOUND
    ├── RunConflict                  ALREADY_EXISTS          RUN_CONFLICT
    ├── Deleted                      FAILED_PRECONDITION     DELETED      what
    ├── Unauthenticated              UNAUTHENTICATED         UNAUTHENTICATED
    ├── PermissionDenied             PERMISSION_DENIED
    │   ├── ScopeDenied                  SCOPE_DENIED
    │   └── RoleDenied                   ROLE_DENIED             role
    ├── ResourceExhausted            RESOURCE_EXHAUSTED
    │   ├── RateLimited                  RATE_LIMITED            retry_after_ms
    │   └── DiskFull                     DISK_FULL
    ├── Unavailable                  UNAVAILABLE             UNAVAILABLE
    └── StartError                   never on the wire: exit_status and one line
        ├── SettingWrong                 78   as sysexits.h has it: 78, 69, 66 and 65 need a person,
        ├── TokenizerMissing             69   75 may pass by itself, so that a supervisor
        ├── AddressTaken                 75   knows whether starting again can help
        ├── DatabaseForeign              65
        ├── DatabaseCorrupt              65
        ├── DatabaseTooNew               65
        ├── MigrationChanged             65
        ├── DatabaseLocked               75
        ├── DatabaseUnwritable           73
        └── BackupRefused                73

The classes without a reason of their own group the others and are never raised.
"""

# A class is named as its reason is in the contract, so that one word finds both.
# ruff: noqa: N818

from __future__ import annotations

from typing import ClassVar


class MemsvcError(Exception):
    """An error that has an answer; `metadata` goes beside `reason` into google.rpc.ErrorInfo."""

    reason: ClassVar[str] = "INTERNAL"
    status: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, metadata: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = metadata or {}


class InvalidArgument(MemsvcError):
    """The request can never succeed as it is."""

    status = "INVALID_ARGUMENT"


class InvalidField(InvalidArgument):
    """A field is missing, malformed or contradicts another one. `what_to_do` completes the sentence."""

    reason = "INVALID_FIELD"

    def __init__(self, field: str, what_to_do: str) -> None:
        super().__init__(f"{field}: {what_to_do}", {"field": field})


class FieldTooLarge(InvalidArgument):
    """A text is above its limit, counted in bytes of UTF-8. Nothing was stored."""

    reason = "FIELD_TOO_LARGE"

    def __init__(self, field: str, limit_bytes: int) -> None:
        super().__init__(
            f"{field}: longer than {limit_bytes} bytes of UTF-8, nothing was stored; send less",
            {"field": field, "limit_bytes": str(limit_bytes)},
        )


class ThreadNotInScope(InvalidArgument):
    """The thread does not exist or is another scope's: one answer, so that nobody can probe for ids."""

    reason = "THREAD_NOT_IN_SCOPE"

    def __init__(self) -> None:
        super().__init__(
            "thread_id: not a thread of this scope; take the id that GetContext or RecordRun gave for it",
            {"field": "thread_id"},
        )


class RedLine(InvalidArgument):
    """A text for core memory carries what may never be kept. Names the category, never the text."""

    reason = "RED_LINE"

    def __init__(self, category: str) -> None:
        super().__init__(
            f"the text carries what memory must never keep ({category}); leave that out and send it again",
            {"category": category},
        )


class ImportInvalid(InvalidArgument):
    """An import was refused whole. `line` counts from 1; `why` says what is wrong without quoting it."""

    reason = "IMPORT_INVALID"

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}; nothing was imported", {"line": str(line)})


class NotFound(MemsvcError):
    """The scope has no such thing; the same answer when another scope has it."""

    status = "NOT_FOUND"
    thing: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(f"{self.thing}_id: no such {self.thing} in this scope", {"field": f"{self.thing}_id"})


class RunNotFound(NotFound):
    """No such run in this scope."""

    reason = "RUN_NOT_FOUND"
    thing = "run"


class FactNotFound(NotFound):
    """No such fact in this scope, or it has given way to another."""

    reason = "FACT_NOT_FOUND"
    thing = "fact"


class CandidateNotFound(NotFound):
    """No such candidate in this scope, or it has been decided upon."""

    reason = "CANDIDATE_NOT_FOUND"
    thing = "candidate"


class NoticeNotFound(NotFound):
    """No such notice in this scope."""

    reason = "NOTICE_NOT_FOUND"
    thing = "notice"


class RunConflict(MemsvcError):
    """The run id is taken by a run with another input, output, outcome or thread. Nothing was changed."""

    reason = "RUN_CONFLICT"
    status = "ALREADY_EXISTS"

    def __init__(self) -> None:
        super().__init__(
            "run_id: names a recorded run with another input, output, outcome or thread, which stays; "
            "choose a new run_id",
            {"field": "run_id"},
        )


class Deleted(MemsvcError):
    """A late word about something deleted. `what` is `run` or `thread`."""

    reason = "DELETED"
    status = "FAILED_PRECONDITION"

    def __init__(self, what: str) -> None:
        super().__init__(f"this {what} was deleted and does not come back; go on under a new id", {"what": what})


class Unauthenticated(MemsvcError):
    """No credential, or one that the daemon does not know; never says which."""

    reason = "UNAUTHENTICATED"
    status = "UNAUTHENTICATED"

    def __init__(self) -> None:
        super().__init__("no known credential; send the metadata `authorization: Bearer <token>`")


class PermissionDenied(MemsvcError):
    """The credential is known and not good for this."""

    status = "PERMISSION_DENIED"


class ScopeDenied(PermissionDenied):
    """The credential does not cover the tenant. Never says whether the tenant exists."""

    reason = "SCOPE_DENIED"

    def __init__(self) -> None:
        super().__init__("the credential does not cover this tenant; its `tenants` setting lists those it covers")


class RoleDenied(PermissionDenied):
    """The call needs another role; `role` is the least one that may make it."""

    reason = "ROLE_DENIED"

    def __init__(self, role: str) -> None:
        super().__init__(f"this call needs a credential of role {role}", {"role": role})


class ResourceExhausted(MemsvcError):
    """Right in itself, too much for now."""

    status = "RESOURCE_EXHAUSTED"


class RateLimited(ResourceExhausted):
    """Too many calls, or more waiting than the daemon holds. Nothing was done."""

    reason = "RATE_LIMITED"

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__(
            f"too many calls, nothing was done; try again after {retry_after_ms} ms",
            {"retry_after_ms": str(retry_after_ms)},
        )


class DiskFull(ResourceExhausted):
    """There is no room to write. Nothing was stored; reading goes on."""

    reason = "DISK_FULL"

    def __init__(self) -> None:
        super().__init__("the database's disk is full, nothing was stored; make room and try again")


class Unavailable(MemsvcError):
    """The storage cannot be used now, or the daemon is going down. `why` is a clause of ours."""

    reason = "UNAVAILABLE"
    status = "UNAVAILABLE"

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; try again later")


class StartError(MemsvcError):
    """The daemon does not start: `message` is one line for a person, `exit_status` for a supervisor.

    Its status is what it would be on the wire, where it never belongs: a bug of ours.
    """

    exit_status: ClassVar[int] = 70

    def __init__(self, message: str) -> None:
        # What libraries and paths say may hold line feeds; the promise of one line is kept here for all.
        super().__init__(" ".join(message.split()))


class SettingWrong(StartError):
    """A setting is missing or makes no sense. `name` is the variable or the key in the file."""

    reason = "SETTING_WRONG"
    exit_status = 78

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")


class TokenizerMissing(StartError):
    """The configured tokenizer is not on this machine, and the daemon downloads none."""

    reason = "TOKENIZER_MISSING"
    exit_status = 69

    def __init__(self, name: str, why: str = "is not installed here, and none is downloaded") -> None:
        super().__init__(f"tokenizer {name} {why}; set MEMSVC_TOKENIZER")


class AddressTaken(StartError):
    """Another process listens there."""

    reason = "ADDRESS_TAKEN"
    exit_status = 75

    def __init__(self, address: str) -> None:
        super().__init__(f"cannot listen on {address}: another process does, or it is not this machine's")


class DatabaseForeign(StartError):
    """The file is somebody else's. Not one byte of it was touched."""

    reason = "DATABASE_FOREIGN"
    exit_status = 65

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is not a memsvc database ({why}) and was left alone; set MEMSVC_DATABASE")


class DatabaseCorrupt(StartError):
    """The file is ours and damaged. Not one byte of it was touched."""

    reason = "DATABASE_CORRUPT"
    exit_status = 65

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is damaged ({why}) and was left alone; restore it from a backup")


class DatabaseTooNew(StartError):
    """A later memsvc has written the file. Not one byte of it was touched."""

    reason = "DATABASE_TOO_NEW"
    exit_status = 65

    def __init__(self, path: str, migration: str) -> None:
        super().__init__(
            f"{path} was written by a newer memsvc (migration {migration}) and was left alone; run that one"
        )


class MigrationChanged(StartError):
    """The file was made by other migrations than this build carries. Not one byte of it was touched."""

    reason = "MIGRATION_CHANGED"
    exit_status = 65

    def __init__(self, path: str, migration: str, why: str) -> None:
        super().__init__(
            f"{path}: migration {migration} {why}; the database was left alone, run the memsvc that made it"
        )


class DatabaseLocked(StartError):
    """Another process holds the database; two daemons on one file would each believe to be alone."""

    reason = "DATABASE_LOCKED"
    exit_status = 75

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is in use by another memsvc; stop that one, or set MEMSVC_DATABASE")


class DatabaseUnwritable(StartError):
    """The database cannot be created or written where it should be."""

    reason = "DATABASE_UNWRITABLE"
    exit_status = 73

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} cannot be written ({why}); check the folder, or set MEMSVC_DATABASE")


class BackupRefused(StartError):
    """A backup would take the place of something that stands there."""

    reason = "BACKUP_REFUSED"
    exit_status = 73

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} was left alone: {why}")
