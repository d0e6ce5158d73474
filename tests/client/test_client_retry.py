"""What does no harm twice is tried again, nothing else is, and a deadline holds for all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import memsvc_client as mc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memsvc_client import AsyncMemory, FinishedRun, MemsvcError
from memsvc_client.retry import Attempts, Backoff

from tests.client.both import (
    BUSY,
    CODE,
    DOWN,
    RECORDED,
    SCOPE,
    Client,
    context,
)
from tests.fakes.memory_server import Behaviour, FakeMemory, answers, hangs, refuses


def record(memory: Any) -> Any:
    return memory.record_run(FinishedRun(scope=SCOPE, input="出一份数据结构试卷"))


def create(memory: Any) -> Any:
    return memory.core.create_fact(SCOPE, "教高二")


@pytest.mark.parametrize(
    ("method", "call"),
    [("GetContext", context), ("RecordRun", record), ("ListFacts", lambda m: m.core.list_facts(SCOPE))],
)
async def test_what_does_no_harm_twice_is_tried_again(
    client: Client, server: FakeMemory, method: str, call: Callable[[Any], Any]
) -> None:
    server.behave[method] = [DOWN, refuses(CODE.UNAVAILABLE, "UNAVAILABLE"), BUSY]
    await client.ask(call)
    sent = server.sent(method)
    assert len(sent) == 4
    assert all(request == sent[0] for request in sent), "the same run id each time"


async def test_a_run_is_recorded_under_an_id_even_if_the_caller_gives_none(client: Client, server: FakeMemory) -> None:
    await client.ask(record)
    await client.ask(record)
    ids = [request.run_id for request in server.sent("RecordRun")]
    assert len(set(ids)) == 2
    assert all(each.startswith("run_") for each in ids)


@pytest.mark.parametrize("behaviour", [DOWN, BUSY])
async def test_a_write_that_could_happen_twice_is_tried_once(
    client: Client, server: FakeMemory, behaviour: Behaviour
) -> None:
    server.behave["CreateFact"] = [behaviour]
    with pytest.raises(MemsvcError):
        await client.ask(create)
    assert server.asked("CreateFact") == 1


async def test_an_attempt_that_hangs_leaves_time_for_another(client: Client, server: FakeMemory) -> None:
    server.behave["RecordRun"] = [hangs, answers(RECORDED)]
    run = FinishedRun(scope=SCOPE, input="")
    recorded = await client.ask(lambda m: m.record_run(run, timeout_s=1.2))
    assert recorded == mc.RecordedRun("run_1", "th_1", created=True, sequence=7)
    assert server.asked("RecordRun") == 2


async def test_a_deadline_holds_for_all_attempts_together(client: Client, server: FakeMemory) -> None:
    server.behave["GetContext"] = [hangs] * 9
    with pytest.raises(mc.DeadlineExceeded):
        await client.ask(lambda m: m.get_context(SCOPE, timeout_s=0.05))
    server.behave["GetContext"] = [DOWN] * 999
    with pytest.raises(mc.Unavailable):
        await client.ask(lambda m: m.get_context(SCOPE, timeout_s=1.0))


async def test_nobody_there_is_unavailable(server: FakeMemory) -> None:
    async with AsyncMemory("127.0.0.1:1") as memory:
        with pytest.raises(mc.Unavailable):
            await memory.get_context(SCOPE, timeout_s=1.0)


def error(kind: type[MemsvcError], **metadata: str) -> MemsvcError:
    return kind("told to", metadata=metadata)


@pytest.mark.parametrize(
    ("retryable", "failure", "now_s", "pause_s"),
    [
        (True, error(mc.Unavailable), 0.0, 0.1),
        (True, error(mc.DeadlineExceeded), 0.0, 0.1),
        (True, error(mc.RateLimited, retry_after_ms="1500"), 0.0, 1.6),
        (True, error(mc.RateLimited, retry_after_ms="99000"), 0.0, None),
        (True, error(mc.Unavailable), 9.95, None),
        (True, error(mc.DiskFull), 0.0, None),
        (True, error(mc.InvalidField), 0.0, None),
        (True, error(MemsvcError), 0.0, None),
        (False, error(mc.Unavailable), 0.0, None),
    ],
)
def test_whether_and_when_to_try_again(
    retryable: bool, failure: MemsvcError, now_s: float, pause_s: float | None
) -> None:
    attempts = Attempts(ends_s=10.0, retryable=retryable, backoff=Backoff())
    assert attempts.pause_s(failure, now_s, chance=1.0) == pause_s


@given(
    failures=st.integers(1, 10_000),
    chance=st.floats(0, 1),
    now_s=st.floats(0, 20, allow_nan=False),
    retryable=st.booleans(),
)
def test_no_attempt_and_no_pause_goes_beyond_its_bounds(
    failures: int, chance: float, now_s: float, retryable: bool
) -> None:
    attempts = Attempts(ends_s=10.0, retryable=retryable, backoff=Backoff(), failures=failures - 1)
    assert 0 <= attempts.timeout_s(now_s) <= max(10.0 - now_s, 0)
    pause_s = attempts.pause_s(error(mc.Unavailable), now_s, chance)
    if pause_s is not None:
        assert 0.05 <= pause_s <= 2.0
        assert now_s + pause_s < 10.0
