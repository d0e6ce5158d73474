"""How tests speak to a daemon: a conversation of one scope in a few words, and how a refusal is read."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.blocks import check_block
from tests.conftest import Running

COMPLETED, FAILED, CANCELLED = pb.RUN_OUTCOME_COMPLETED, pb.RUN_OUTCOME_FAILED, pb.RUN_OUTCOME_CANCELLED
ANSWER = "好的，已经做好。"


class Refusal(NamedTuple):
    """A status, and what the daemon says of it."""

    code: str
    reason: str
    metadata: dict[str, str]
    message: str


async def refusal(call: Awaitable[Any]) -> Refusal:
    """Makes a call that must be refused, and returns why."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    error = raised.value
    info = _info(error)
    return Refusal(error.code().name, info.reason, dict(info.metadata), error.details() or "")


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """Returns the reason that an error names, empty where it names none."""
    return str(_info(error).reason)


def _info(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    details = dict(error.trailing_metadata() or ())
    info = error_details_pb2.ErrorInfo()
    if "grpc-status-details-bin" in details:
        value = details["grpc-status-details-bin"]
        status = status_pb2.Status.FromString(value if isinstance(value, bytes) else value.encode())
        assert status.details[0].Unpack(info)
        assert info.domain == "memsvc"
    return info


@dataclass
class Talk:
    """A conversation: remembers its thread, and holds every block it is given to what holds for all."""

    running: Running
    scope: pb.Scope
    thread_id: str = ""
    provider: str = ""
    run_ids: list[str] = field(default_factory=list)

    async def record(self, given: str, output: str = ANSWER, outcome: Any = COMPLETED, **fields: Any) -> str:
        """Records a run in the conversation; returns its id."""
        values = {"thread_id": self.thread_id, "provider": self.provider} | fields
        answer = await self.running.memory.RecordRun(
            svc.RecordRunRequest(scope=self.scope, input=given, output=output, outcome=outcome, **values)
        )
        self.thread_id = answer.thread_id
        self.run_ids.append(answer.run_id)
        return answer.run_id

    async def turns(self, *inputs: str, **fields: Any) -> None:
        """Records a run for each input, and lets the worker finish."""
        for given in inputs:
            await self.record(given, **fields)
        await self.running.settle()

    async def context(self, given: str = "接着说", **fields: Any) -> svc.GetContextResponse:
        """Asks for the context of an input, and checks the block."""
        values = {"thread_id": self.thread_id, "locale": "zh"} | fields
        answer = await self.running.memory.GetContext(svc.GetContextRequest(scope=self.scope, input=given, **values))
        limit = max(0, (values.get("token_budget") or 6000) - values.get("reserved_tokens", 0))
        check_block(answer, limit, values["locale"])
        return answer

    async def thread(self) -> pb.Thread:
        """The conversation as a list shows it."""
        request = svc.GetThreadRequest(scope=self.scope, thread_id=self.thread_id)
        return (await self.running.threads.GetThread(request)).thread

    async def ops(self) -> list[pb.MemoryOp]:
        """Memory's own calls for the scope, newest first."""
        request = svc.ListMemoryOpsRequest(scope=self.scope, page_size=200)
        return list((await self.running.ops.ListMemoryOps(request)).memory_ops)

    async def notices(self) -> list[pb.Notice]:
        """What the user interface should say."""
        return list((await self.running.ops.ListNotices(svc.ListNoticesRequest(scope=self.scope))).notices)

    async def status(self) -> svc.GetWorkerStatusResponse:
        """What the background work owes this scope."""
        return await self.running.ops.GetWorkerStatus(svc.GetWorkerStatusRequest(scope=self.scope))

    async def delete_run(self, run_id: str) -> None:
        """Deletes a run; does not wait for the worker."""
        await self.running.threads.DeleteRun(svc.DeleteRunRequest(scope=self.scope, run_id=run_id))

    async def delete_thread(self) -> None:
        """Deletes the conversation."""
        request = svc.DeleteThreadRequest(scope=self.scope, thread_id=self.thread_id)
        await self.running.threads.DeleteThread(request)
