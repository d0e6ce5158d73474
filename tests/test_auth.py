"""Who may call what, over the wire: every call of the contract, every role, every way to come with the wrong papers.

What is granted is written out here from what is promised, and not taken from the daemon's own table. A denial comes
before anything is read: a daemon whose store is shut tells it as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from memsvc.auth import Gate
from memsvc.config import Credential
from memsvc.errors import Unauthenticated
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.conftest import Running, Start
from tests.papers import CREDENTIALS, METHODS, OURS, ROLES, THEIRS, TOKENS, Answer, ask, bearer, request
from tests.talk import Talk, refusal

LEAST_ROLE = {
    "MemoryService": {"runner": ["GetContext", "RecordRun"]},
    "RecallService": {"runner": ["Search"]},
    "ThreadService": {
        "runner": [
            *("GetThread", "ListThreads", "ListRuns", "GetRun"),
            *("RenameThread", "ArchiveThread", "UnarchiveThread"),
        ],
        "reviewer": ["DeleteThread", "DeleteRun"],
    },
    "CoreService": {
        "reviewer": [
            *("ListFacts", "CreateFact", "UpdateFact", "DeleteFact"),
            *("ListCandidates", "ConfirmCandidate", "RejectCandidate"),
        ]
    },
    "OpsService": {
        "reviewer": ["GetUsage", "ListMemoryOps", "GetWorkerStatus", "ListNotices", "AcknowledgeNotice"],
        "admin": ["ListScopes", "ExportScope", "ImportScope", "DeleteScope"],
    },
}
"""The least role that a call is granted to; each role may do what those before it may."""

WITHOUT_A_SCOPE = {"GetWorkerStatus", "ListScopes"}
"""Calls that can be about more than one scope."""


def least(method: MethodDescriptor) -> str:
    (role,) = (
        role for role, names in LEAST_ROLE[method.containing_service.name].items() if method.name in names
    )  # exactly one, or the table is wrong
    return role


def test_the_table_of_roles_tells_of_every_call_of_the_contract_once() -> None:
    told = [(service, name) for service, roles in LEAST_ROLE.items() for names in roles.values() for name in names]
    assert sorted(told) == sorted((m.containing_service.name, m.name) for m in METHODS)


@pytest.fixture
async def guarded(start: Start) -> Running:
    """A daemon with a credential of each role for one tenant, and two for all; both tenants hold something."""
    return await start(credentials=CREDENTIALS)


@pytest.fixture
async def shut(guarded: Running) -> Running:
    """The same with its store closed: whatever reads or writes, fails."""
    await guarded.daemon.store.close()
    return guarded


STRANGERS = {
    "no header": [],
    "an empty header": [""],
    "an unknown token": ["Bearer msv_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
    "a token and a letter": [bearer("admin") + "x"],
    "a token without its last letter": [bearer("admin")[:-1]],
    "a token in capitals": [bearer("admin").upper()],
    "a token without a scheme": [TOKENS["admin"][0]],
    "the scheme alone": ["Bearer"],
    "the scheme and a space": ["Bearer "],
    "another scheme": [f"Basic {TOKENS['admin'][0]}"],
    "a colon behind the scheme": [f"Bearer: {TOKENS['admin'][0]}"],
    "two tokens in one": [f"{bearer('admin')} {TOKENS['admin'][0]}"],
    "a known token in second place": ["Bearer nobody", bearer("admin")],
    "the hash of a token": [f"Bearer {TOKENS['admin'][1]}"],
    "the hash without its name": [f"Bearer {TOKENS['admin'][1].removeprefix('sha256:')}"],
    "a star": ["Bearer *"],
}


@pytest.mark.parametrize("authorization", STRANGERS.values(), ids=STRANGERS.keys())
async def test_a_stranger_is_told_so_at_every_call_before_the_request_is_looked_at(
    shut: Running, authorization: list[str]
) -> None:
    for method in METHODS:
        for data in (request(method, OURS), request(method, None), b"\xff malformed"):
            answer = await ask(shut.channel, method, data, *authorization)
            assert answer == Answer("UNAUTHENTICATED", "UNAUTHENTICATED"), method.name


@pytest.mark.parametrize("role", ROLES)
async def test_a_call_above_the_role_is_denied_before_the_request_is_looked_at(shut: Running, role: str) -> None:
    above = [m for m in METHODS if ROLES.index(least(m)) > ROLES.index(role)]
    assert bool(above) is (role != "admin")
    for method in above:
        for data in (request(method, OURS), request(method, THEIRS), request(method, None), b"\xff malformed"):
            answer = await ask(shut.channel, method, data, bearer(role))
            assert answer == Answer("PERMISSION_DENIED", "ROLE_DENIED", least(method)), method.name


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("tenant_id", [THEIRS, "school-", OURS.upper(), "*", "", "no tenant of anybody's"])
async def test_another_tenant_is_denied_to_every_role_before_the_request_is_checked(
    shut: Running, role: str, tenant_id: str
) -> None:
    within = [m for m in METHODS if least(m) in ROLES[: ROLES.index(role) + 1] and m.name != "ListScopes"]
    for method in within:
        wrong = {"thread_id": "none of ours", "page_token": "none of ours", "text": "x" * 9_000}
        for data in (request(method, tenant_id), request(method, tenant_id, **wrong)):
            answer = await ask(shut.channel, method, data, bearer(role))
            assert answer == Answer("PERMISSION_DENIED", "SCOPE_DENIED"), method.name


async def test_the_shut_store_would_have_told_of_a_look_into_it(shut: Running) -> None:
    for method in METHODS:
        if method.name in ("ListThreads", "ListFacts", "ListNotices", "GetUsage"):
            answer = await ask(shut.channel, method, request(method, OURS), bearer("admin"))
            assert answer.code in ("UNAVAILABLE", "INTERNAL"), method.name


@pytest.mark.parametrize("name", [*ROLES, "keeper"])
async def test_what_the_role_and_the_tenants_grant_is_answered(guarded: Running, name: str) -> None:
    role = "admin" if name == "keeper" else name
    for method in METHODS:
        if ROLES.index(least(method)) <= ROLES.index(role):
            for tenant_id in (OURS, THEIRS) if name == "keeper" else (OURS,):
                answer = await ask(guarded.channel, method, request(method, tenant_id), bearer(name))
                assert answer.code in ("OK", "INVALID_ARGUMENT"), (method.name, answer)
                assert answer.about not in ("scope.tenant_id", "request"), method.name


@pytest.mark.parametrize("name", [*ROLES, "keeper"])
async def test_a_request_without_a_scope_is_no_way_around_the_tenants(guarded: Running, name: str) -> None:
    role = "admin" if name == "keeper" else name
    for method in METHODS:
        if ROLES.index(least(method)) <= ROLES.index(role) and method.name not in WITHOUT_A_SCOPE:
            answer = await ask(guarded.channel, method, request(method, None), bearer(name))
            assert answer == Answer("INVALID_ARGUMENT", "INVALID_FIELD", "scope.tenant_id"), method.name


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("runner", "PERMISSION_DENIED"),
        ("reviewer", "PERMISSION_DENIED"),
        ("admin", "PERMISSION_DENIED"),
        ("watcher", "PERMISSION_DENIED"),
        ("keeper", "OK"),
    ],
)
async def test_the_status_of_the_whole_daemon_is_for_an_admin_of_all_tenants(
    guarded: Running, name: str, code: str
) -> None:
    method = svc.DESCRIPTOR.services_by_name["OpsService"].methods_by_name["GetWorkerStatus"]
    assert (await ask(guarded.channel, method, b"", bearer(name))).code == code


async def test_the_later_messages_of_an_import_are_held_to_the_tenants_as_well(guarded: Running) -> None:
    stub = rpc.OpsServiceStub(guarded.channel)
    ours, theirs = (pb.Scope(tenant_id=tenant, agent_id="exam") for tenant in (OURS, THEIRS))
    for parts in ([theirs], [theirs, ours]):
        requests = iter([svc.ImportScopeRequest(scope=scope) for scope in parts])
        call = stub.ImportScope(requests, metadata=[("authorization", bearer("admin"))])
        assert (await refusal(call)).reason == "SCOPE_DENIED"


async def test_denied_calls_change_nothing_and_show_nothing(guarded: Running) -> None:
    ids = {}
    for tenant_id in (OURS, THEIRS):
        signed = Signed(guarded, "keeper", tenant_id)
        recorded = await signed.record()
        fact = await signed.write("教高二数据结构")
        ids[tenant_id] = {"thread_id": recorded.thread_id, "run_id": recorded.run_id, "fact_id": fact.fact_id}
    before = [await Signed(guarded, "keeper", tenant_id).everything() for tenant_id in (OURS, THEIRS)]
    denied = 0
    for method in METHODS:
        words = {"title": "anders", "text": "教高一", "input": "x", "output": "y"}
        for name in ("", *ROLES):
            for tenant_id in (OURS, THEIRS):
                role_is_enough = name and ROLES.index(least(method)) <= ROLES.index(name)
                if role_is_enough and (tenant_id == OURS or method.name == "ListScopes"):
                    continue
                data = request(method, tenant_id, **(ids[tenant_id] | words))
                answer = await ask(guarded.channel, method, data, *([bearer(name)] if name else []))
                assert answer.code in ("UNAUTHENTICATED", "PERMISSION_DENIED"), (method.name, name, tenant_id)
                denied += 1
    assert denied > 3 * len(METHODS)
    await guarded.settle()
    assert [await Signed(guarded, "keeper", tenant_id).everything() for tenant_id in (OURS, THEIRS)] == before


class Signed(NamedTuple):
    """A tenant's scope, called with a credential."""

    running: Running
    name: str
    tenant_id: str

    @property
    def scope(self) -> pb.Scope:
        return pb.Scope(tenant_id=self.tenant_id, agent_id="exam")

    @property
    def papers(self) -> dict[str, Any]:
        return {"metadata": [("authorization", bearer(self.name))]}

    async def record(self) -> svc.RecordRunResponse:
        run = svc.RecordRunRequest(scope=self.scope, input="出题", output="好", outcome=pb.RUN_OUTCOME_COMPLETED)
        return await self.running.memory.RecordRun(run, **self.papers)

    async def write(self, text: str) -> pb.Fact:
        return (
            await self.running.core.CreateFact(svc.CreateFactRequest(scope=self.scope, text=text), **self.papers)
        ).fact

    async def everything(self) -> list[str]:
        """What the scope holds, as text."""
        threads = await self.running.threads.ListThreads(
            svc.ListThreadsRequest(scope=self.scope, include_archived=True), **self.papers
        )
        answers: list[Message] = [
            threads,
            await self.running.core.ListFacts(svc.ListFactsRequest(scope=self.scope), **self.papers),
            await self.running.core.ListCandidates(svc.ListCandidatesRequest(scope=self.scope), **self.papers),
            await self.running.ops.GetUsage(svc.GetUsageRequest(scope=self.scope), **self.papers),
        ]
        answers += [
            await self.running.threads.ListRuns(
                svc.ListRunsRequest(scope=self.scope, thread_id=thread.thread_id), **self.papers
            )
            for thread in threads.threads
        ]
        return [str(answer) for answer in answers]


@pytest.mark.parametrize("name", [*ROLES, "keeper"])
async def test_bytes_that_are_no_message_are_told_to_those_who_may_call(guarded: Running, name: str) -> None:
    role = "admin" if name == "keeper" else name
    for method in METHODS:
        if ROLES.index(least(method)) <= ROLES.index(role):
            answer = await ask(guarded.channel, method, b"\xff malformed", bearer(name))
            assert answer == Answer("INVALID_ARGUMENT", "INVALID_FIELD", "request"), method.name


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_name_of_the_scheme_is_read_in_any_case(guarded: Running, scheme: str) -> None:
    method = METHODS[0]
    answer = await ask(guarded.channel, method, request(method, OURS), f"{scheme} {TOKENS['runner'][0]}")
    assert answer.code == "OK"


@pytest.mark.parametrize(
    "path", ["/memsvc.v1.MemoryService/Forget", "/memsvc.v1.Nobody/GetContext", "/memsvc.v2.MemoryService/GetContext"]
)
@pytest.mark.parametrize("authorization", [[], [bearer("keeper")]])
async def test_a_call_that_is_not_there_is_unimplemented(guarded: Running, path: str, authorization: list[str]) -> None:
    metadata = [("authorization", value) for value in authorization]
    call: Any = guarded.channel.unary_unary(path)
    answer = await refusal(call(b"", metadata=metadata))
    assert answer.code == "UNIMPLEMENTED"


async def test_health_and_the_contract_itself_need_no_credential(guarded: Running) -> None:
    health = health_pb2_grpc.HealthStub(guarded.channel)
    assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
    watch = health.Watch(health_pb2.HealthCheckRequest())
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()
    reflection = reflection_pb2_grpc.ServerReflectionStub(guarded.channel)
    asked = reflection.ServerReflectionInfo([reflection_pb2.ServerReflectionRequest(list_services="")])
    (answer,) = [part async for part in asked]
    assert "memsvc.v1.CoreService" in {service.name for service in answer.list_services_response.service}


async def test_without_credentials_everybody_may_do_everything(running: Running, scope: pb.Scope) -> None:
    talk = Talk(running, scope)
    await talk.record("出题")
    for method in METHODS:
        for authorization in ([], ["Bearer nobody"]):
            answer = await ask(running.channel, method, request(method, scope.tenant_id), *authorization)
            assert answer.code in ("OK", "INVALID_ARGUMENT"), method.name


@given(st.one_of(st.none(), st.text(), st.text().map(lambda t: f"Bearer {t}"), st.text().map(lambda t: f"bearer {t}")))
def test_no_header_but_a_known_one_opens_the_gate_or_breaks_it(header: str | None) -> None:
    gate = Gate([Credential.model_validate(fields) for fields in CREDENTIALS])
    with pytest.raises(Unauthenticated):
        gate.caller(header)


def test_of_many_credentials_each_is_found_whatever_its_place() -> None:
    gate = Gate([Credential.model_validate(fields) for fields in CREDENTIALS])
    for name in TOKENS:
        assert gate.caller(bearer(name)).name == name
