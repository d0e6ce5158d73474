"""The limits that settings hold, over the wire: what is more is refused at once, with a reason, and leaves no trace."""

from __future__ import annotations

import asyncio

import grpc

from memsvc.auth import Gate
from memsvc.config import Credential, Settings
from memsvc.errors import RateLimited
from memsvc.rpc.guard import Guard
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Start
from tests.papers import CREDENTIALS, OURS, bearer
from tests.talk import COMPLETED, Talk, refusal
from tests.wire import ACK, ENHANCE_YOUR_CALM, GOAWAY, PING, frame, wire

MIB = 1 << 20


async def test_one_credentials_calls_are_counted_and_another_ones_are_its_own(start: Start) -> None:
    running = await start(credentials=CREDENTIALS, calls_per_second=1, calls_burst=3)
    scope = pb.Scope(tenant_id=OURS, agent_id="exam")

    def call(name: str) -> grpc.aio.UnaryUnaryCall[svc.GetContextRequest, svc.GetContextResponse]:
        return running.memory.GetContext(
            svc.GetContextRequest(scope=scope, input="x"), metadata=[("authorization", bearer(name))]
        )

    ends = await asyncio.gather(*(call("runner") for _ in range(20)), return_exceptions=True)
    # On a slow machine a second or two may go by meanwhile, and each lets one more in.
    assert sum(isinstance(end, svc.GetContextResponse) for end in ends) in range(3, 12)
    answer = await refusal(call("runner"))
    assert answer[:2] == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
    assert 1 <= int(answer.metadata["retry_after_ms"]) <= 1000
    await call("reviewer")


async def test_who_has_no_credential_spends_nobodys_calls(start: Start) -> None:
    running = await start(credentials=CREDENTIALS, calls_per_second=1, calls_burst=1)
    request = svc.GetContextRequest(scope=pb.Scope(tenant_id=OURS, agent_id="exam"))
    for _ in range(5):
        assert (await refusal(running.memory.GetContext(request))).code == "UNAUTHENTICATED"
    await running.memory.GetContext(request, metadata=[("authorization", bearer("runner"))])


async def test_without_credentials_or_without_a_rate_calls_are_not_counted(start: Start, scope: pb.Scope) -> None:
    running = await start(calls_per_second=1, calls_burst=1)
    for _ in range(5):
        await running.memory.GetContext(svc.GetContextRequest(scope=scope))
    await start.stop()  # type: ignore[attr-defined]
    running = await start(credentials=CREDENTIALS, calls_per_second=0, calls_burst=1)
    request = svc.GetContextRequest(scope=pb.Scope(tenant_id=OURS, agent_id="exam"))
    for _ in range(5):
        await running.memory.GetContext(request, metadata=[("authorization", bearer("runner"))])


def test_time_gives_a_credential_its_calls_back() -> None:
    now_s = [1000.0]
    settings = Settings.model_validate({"credentials": CREDENTIALS, "calls_per_second": 4, "calls_burst": 2})
    gate = Gate([Credential.model_validate(entry) for entry in CREDENTIALS])
    guard = Guard(gate, settings, lambda: now_s[0])
    refused: list[str] = []

    def calls() -> int:
        for number in range(100):
            try:
                guard._check_rate("runner")
            except RateLimited as error:
                refused.append(error.metadata["retry_after_ms"])
                return number
        return 100

    assert calls() == 2
    now_s[0] += 0.25
    assert calls() == 1
    now_s[0] += 3600
    assert calls() == 2
    assert refused == ["250"] * 3


async def test_a_message_above_the_limit_is_refused_and_one_below_is_not(start: Start, scope: pb.Scope) -> None:
    running = await start(max_receive_bytes=2 * MIB)
    record = svc.RecordRunRequest(scope=scope, run_id="r", input="x" * (MIB // 4), output="y" * MIB, outcome=COMPLETED)
    await running.memory.RecordRun(record)
    record.input, record.run_id = "x" * (2 * MIB), "s"
    assert (await refusal(running.memory.RecordRun(record))).code == "RESOURCE_EXHAUSTED"
    await running.memory.GetContext(svc.GetContextRequest(scope=scope))


async def test_metadata_above_the_limit_is_refused_and_below_is_not(start: Start, scope: pb.Scope) -> None:
    running = await start(max_metadata_bytes=8 << 10)
    request = svc.GetContextRequest(scope=scope)
    # Below the limit it is never refused: by gRPC's default it would be, at random, from half of it on.
    for _ in range(20):
        await running.memory.GetContext(request, metadata=[("x-much", "x" * 7_000)])
    refused = await refusal(running.memory.GetContext(request, metadata=[("x-much", "x" * 9_000)]))
    assert refused.code == "RESOURCE_EXHAUSTED"
    await running.memory.GetContext(request)


async def test_a_page_of_runs_ends_at_its_bytes(start: Start, scope: pb.Scope) -> None:
    talk = Talk(await start(page_bytes=64 << 10), scope)
    for size in (30_000, 30_000, 30_000, 200_000, 10):
        await talk.record("x", "y" * size)
    request = svc.ListRunsRequest(scope=scope, thread_id=talk.thread_id)
    pages = []
    while True:
        page = await talk.running.threads.ListRuns(request)
        pages.append([len(run.output) for run in page.runs])
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    assert pages == [[30_000, 30_000], [30_000], [200_000], [10]]


async def test_connections_beyond_the_limit_are_closed_and_those_within_it_go_on(start: Start, scope: pb.Scope) -> None:
    running = await start(max_connections=3)
    await running.memory.GetContext(svc.GetContextRequest(scope=scope))
    host, _, port = running.daemon.address.rpartition(":")
    others = [await asyncio.open_connection(host, int(port)) for _ in range(12)]
    # A server of HTTP/2 speaks first: SETTINGS to whom it takes, and nothing to whom it closes.
    greetings = await asyncio.gather(*(reader.read(1) for reader, _ in others))
    assert sum(bool(greeting) for greeting in greetings) == 2
    await running.memory.GetContext(svc.GetContextRequest(scope=scope))
    for _, writer in others:
        writer.close()
        await writer.wait_closed()


async def test_a_connection_that_grows_old_costs_no_call(start: Start, scope: pb.Scope) -> None:
    talk = Talk(await start(max_connection_age_ms=20), scope)
    for i in range(100):
        await talk.record(f"第{i}轮")
    assert (await talk.thread()).run_count == 100


async def test_who_pings_without_end_is_sent_away_and_who_pings_in_measure_is_not(start: Start) -> None:
    running = await start(min_ping_interval_ms=600_000)
    async with wire(running.daemon.address) as often:
        await often.send(frame(PING, payload=bytes(8)) * 50)
        goodbye = await often.until(GOAWAY)
        assert goodbye is not None
        assert int.from_bytes(goodbye.payload[4:8], "big") == ENHANCE_YOUR_CALM
        assert await often.until(PING) is None
    await start.stop()  # type: ignore[attr-defined]
    running = await start(min_ping_interval_ms=1)
    async with wire(running.daemon.address) as seldom:
        for number in range(1, 6):
            await asyncio.sleep(0.02)  # time between pings is what this is about
            await seldom.send(frame(PING, payload=number.to_bytes(8, "big")))
            while (answer := await seldom.until(PING)) and not answer.flags & ACK:
                pass
            assert answer is not None
            assert int.from_bytes(answer.payload, "big") == number
