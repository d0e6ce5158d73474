"""The Python client of memsvc: what an agent should remember before a run, and what came of it after.

    from memsvc_client import AsyncMemory, Scope

    async with AsyncMemory("127.0.0.1:50051") as memory:
        async with memory.run(Scope("school-7", "exam", "wang"), input="出一份数据结构试卷") as run:
            run.output = await agent(run.prompt)

`Memory` is the same without `await`. Both try again what does no harm twice (reads, and recording a run),
within the deadline of the call, and raise nothing but the errors of `memsvc_client.errors`.
"""

from memsvc_client.errors import (
    DeadlineExceeded,
    Deleted,
    DiskFull,
    FieldTooLarge,
    ImportInvalid,
    InvalidArgument,
    InvalidField,
    MemsvcError,
    NotFound,
    PermissionDenied,
    RateLimited,
    RedLine,
    ResourceExhausted,
    RoleDenied,
    RunConflict,
    RunNotRecorded,
    ScopeDenied,
    ThreadNotInScope,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from memsvc_client.memory import AsyncMemory, Memory
from memsvc_client.retry import Backoff, Deadlines
from memsvc_client.runs import ActiveRun
from memsvc_client.senders import ConnectionOptions
from memsvc_client.values import (
    Context,
    ContextOptions,
    FinishedRun,
    Outcome,
    RecordedRun,
    Scope,
    Section,
    SectionKind,
    Source,
    Usage,
)

__all__ = [
    "ActiveRun",
    "AsyncMemory",
    "Backoff",
    "ConnectionOptions",
    "Context",
    "ContextOptions",
    "DeadlineExceeded",
    "Deadlines",
    "Deleted",
    "DiskFull",
    "FieldTooLarge",
    "FinishedRun",
    "ImportInvalid",
    "InvalidArgument",
    "InvalidField",
    "Memory",
    "MemsvcError",
    "NotFound",
    "Outcome",
    "PermissionDenied",
    "RateLimited",
    "RecordedRun",
    "RedLine",
    "ResourceExhausted",
    "RoleDenied",
    "RunConflict",
    "RunNotRecorded",
    "Scope",
    "ScopeDenied",
    "Section",
    "SectionKind",
    "Source",
    "ThreadNotInScope",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Usage",
]
