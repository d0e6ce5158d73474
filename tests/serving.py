"""A conversation that a fake provider serves: what tests of background work begin with."""

from __future__ import annotations

from typing import Any

from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Start
from tests.fakes.provider import FakeProvider
from tests.talk import Talk

SUMMARY = "用户要一份试卷，助手已经拟好。"
NEVER_MS = 3_600_000
FOLDING_ALONE = [{"extraction": False}]


def entry(provider: FakeProvider, local: bool = True, **fields: Any) -> dict[str, Any]:
    """A provider as the configuration has it."""
    return {"base_url": provider.base_url, "model": "small", "local": local} | fields


async def own(start: Start, scope: pb.Scope, provider: FakeProvider, **settings: Any) -> Talk:
    """A conversation served by the only provider there is."""
    values = {"providers": {"own": entry(provider)}, "limits": FOLDING_ALONE} | settings
    return Talk(await start(**values), scope, provider="own")
