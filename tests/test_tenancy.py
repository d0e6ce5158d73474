"""Nothing crosses a scope: every call of the contract, asked with everything that another scope has a name for.

What is another's and what does not exist must be one answer: in code, text, details, metadata and reply, and in the
work that the database does for it, counted in its own instructions, so that an answer's delay tells nothing either.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor

from memsvc.model import NoticeKind, Scope
from memsvc.rules import ids
from memsvc.store import ImportedFact, NewNotice
from memsvc.store.sqlite.store import SqliteStore
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.papers import CREDENTIALS, METHODS, OURS, THEIRS, bearer
from tests.review import Review
from tests.talk import COMPLETED, Talk

NEEDLE = "鸬鹚"
OTHERS_WORDS = (NEEDLE, "cormorant")

ID_FIELDS = {"thread_id", "thread_key", "run_id", "fact_id", "candidate_id", "notice_id", "page_token"}
"""Fields that name something which may be another's."""

FREE_FIELDS = {
    *("input", "output", "knowledge", "query", "text", "title", "actor"),
    *("provider", "model", "locale", "time_zone"),
}
"""Fields of text that name nothing."""

WANTED: dict[str, dict[str, Any]] = {
    "RecordRun": {"outcome": COMPLETED, "input": "问", "output": "答"},
    "GetContext": {"input": f"{NEEDLE} cormorant"},
    "Search": {"query": f"{NEEDLE} cormorant", "top_k": 100},
    "RenameThread": {"title": "新名字"},
    "CreateFact": {"text": "用户喜欢蓝色"},
    "UpdateFact": {"text": "用户喜欢蓝色"},
    "ListThreads": {"query": NEEDLE, "include_archived": True},
    "GetUsage": {"group_by": 3},
}
"""What a call wants besides its scope and ids to be a right one."""

LISTS = {
    "ListThreads": "ListThreads",
    "ListRuns": "ListRuns",
    "ListCandidates": "ListCandidates",
    "ListMemoryOps": "ListMemoryOps",
}
"""Calls whose page tokens are tried on every call that takes one."""

VICTIM = pb.Scope(tenant_id=OURS, agent_id="exam", user_id="wang")
NOBODY = pb.Scope(tenant_id="nobody", agent_id="exam", user_id="wang")
ATTACKERS = [
    pb.Scope(tenant_id=OURS, agent_id="exam", user_id="li"),
    pb.Scope(tenant_id=OURS, agent_id="exam"),
    pb.Scope(tenant_id=OURS, agent_id="chat", user_id="wang"),
    pb.Scope(tenant_id=THEIRS, agent_id="exam", user_id="wang"),
]

MORE_STEPS = 5
"""Instructions of the database that one answer may cost more than the other, of the 33 to 700 that each takes: to look
at the scope of an entry that is found, where the other finds none. A microsecond has some fifty."""


@dataclass(frozen=True)
class Outcome:
    """All that a caller can see of a call, its own ids and what is minted anew taken out."""

    code: str
    details: str
    initial: tuple[Any, ...]
    trailing: tuple[Any, ...]
    replies: tuple[str, ...]


@dataclass
class Work:
    """What the database does meanwhile: statements, and instructions of its machine."""

    statements: list[str] = field(default_factory=list)
    steps: int = 0

    def step(self) -> int:
        self.steps += 1
        return 0


@asynccontextmanager
async def counted(running: Running) -> AsyncIterator[Work]:
    """Counts what all connections do until the block ends."""
    store = running.daemon.store
    assert isinstance(store, SqliteStore)
    work = Work()

    def on(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(work.step, 1)
        connection.set_trace_callback(lambda sql: work.statements.append(re.sub(r"'[^']*'|\b\d+\b", "?", sql)))

    def off(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(None, 0)
        connection.set_trace_callback(None)

    async def everywhere(function: Callable[[sqlite3.Connection], None]) -> None:
        loop = asyncio.get_running_loop()
        for link in (store._db._writer, *store._db._readers):
            done = asyncio.Event()

            def here(connection: sqlite3.Connection, done: asyncio.Event = done) -> None:
                function(connection)
                loop.call_soon_threadsafe(done.set)

            link.submit(here)
            await done.wait()

    await everywhere(on)
    try:
        yield work
    finally:
        await everywhere(off)  # which each connection comes to behind all that it does for the call


def request(method: MethodDescriptor, scope: pb.Scope | None, **fields: Any) -> bytes:
    message: Any = message_factory.GetMessageClass(method.input_type)()
    known = method.input_type.fields_by_name
    if scope is not None and "scope" in known:
        message.scope.CopyFrom(scope)
    for name, value in (WANTED.get(method.name, {}) | fields).items():
        setattr(message, name, value)
    data: bytes = message.SerializeToString()
    return data


async def outcome(running: Running, method: MethodDescriptor, data: bytes, *own: str, token: str = "") -> Outcome:
    """Makes a call; `own` are ids that the caller brought along, which an answer may repeat."""
    kind = ("stream" if method.client_streaming else "unary") + ("_stream" if method.server_streaming else "_unary")
    path = f"/{method.containing_service.full_name}/{method.name}"
    metadata = [("authorization", token)] if token else []
    call = getattr(running.channel, kind)(path)([data] if method.client_streaming else data, metadata=metadata)
    replies: list[bytes] = []
    try:
        if method.server_streaming:
            replies += [part async for part in call]
        else:
            replies.append(await call)
    except grpc.aio.AioRpcError:
        pass
    made = message_factory.GetMessageClass(method.output_type)
    asked: Any = message_factory.GetMessageClass(method.input_type).FromString(data)
    scope = asked.scope if "scope" in method.input_type.fields_by_name else pb.Scope()
    names = [f'{name.name}: "{value}"' for name, value in scope.ListFields()]

    def masked(text: str) -> str:
        text = re.sub(r"scope \{\s*" + r"\s*".join(map(re.escape, names)) + r"\s*\}", "<own scope>", text)
        for each in own:
            text = text.replace(each, "<own>")
        text = re.sub(r"th_[a-z2-7]{24}", "<thread>", text)
        text = re.sub(r"(run|f|c)_[0-9a-f]{16,32}", "<id>", text)
        # An export is JSON in a message: it begins with whose it is, and tells times in microseconds.
        text = re.sub(r'\\"(tenant_id|agent_id|user_id)\\":\\"[^"]*\\"|(_us)\\":\d+', r"\1\2", text)
        return re.sub(r"(sequence|seconds|nanos): \d+", r"\1", text)

    return Outcome(
        (await call.code()).name,
        masked(await call.details() or ""),
        tuple(await call.initial_metadata() or ()),
        tuple((key, masked(str(value))) for key, value in await call.trailing_metadata() or ()),
        tuple(masked(str(made.FromString(reply))) for reply in replies),
    )


@pytest.fixture
async def held(running: Running) -> Running:
    """A daemon that holds much of the victim: threads, runs, facts, candidates, a notice, and what was deleted."""
    await fill(running, VICTIM)
    return running


async def fill(running: Running, scope: pb.Scope) -> None:
    talk, review = Talk(running, scope), Review(running, scope)
    await talk.turns(*(f"{NEEDLE} cormorant 第{i}轮" for i in range(5)), output=NEEDLE)
    await Talk(running, scope).record(f"{NEEDLE} 周一", thread_key="monday")
    await review.create(f"用户养了{NEEDLE}")
    here = Scope(scope.tenant_id, scope.agent_id, scope.user_id)
    drawn = [
        ImportedFact(f"c_{i:016x}", f"用户有{i}只{NEEDLE}", tuple(talk.run_ids[:1]), frozenset(), created_us=i + 1)
        for i in range(3)
    ]
    await running.daemon.store.import_core(here, [], drawn, "test", 1)
    scope_no = (await running.daemon.store.begin_export(here)).scope_no
    for kind in NoticeKind:
        await running.daemon.store.raise_notice(here, scope_no, NewNotice(kind, NEEDLE, "a", "b"), 1)
    await running.settle()


async def everything(running: Running, scope: pb.Scope) -> list[str]:
    """All that the scope's own calls tell of it."""
    threads = (
        await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope, include_archived=True, page_size=200))
    ).threads
    told: list[Any] = [*threads]
    for thread in threads:
        told += (await running.threads.ListRuns(svc.ListRunsRequest(scope=scope, thread_id=thread.thread_id))).runs
    review = Review(running, scope)
    told += await review.facts()
    told += await review.candidates()
    told += await Talk(running, scope).ops()
    told += await Talk(running, scope).notices()
    return [str(message) for message in told]


async def names(running: Running, scope: pb.Scope) -> dict[str, list[str]]:
    """For each kind of id, what the scope has of it, living and deleted; for each list, a token of its second page."""
    listed = (await running.threads.ListThreads(svc.ListThreadsRequest(scope=scope))).threads
    long = max(listed, key=lambda thread: thread.run_count)
    doomed, gone = Talk(running, scope), Talk(running, scope)
    await doomed.record(f"{NEEDLE} 删", run_id="deleted-run")
    await doomed.record(f"{NEEDLE} 留", run_id="kept-run")
    await doomed.delete_run("deleted-run")
    await gone.record(f"{NEEDLE} 删")
    await gone.delete_thread()
    review = Review(running, scope)
    await review.create("用户的会被删掉")
    dead_fact = next(fact.fact_id for fact in await review.facts() if fact.text == "用户的会被删掉")
    await review.delete(dead_fact)
    candidates = [candidate.candidate_id for candidate in await review.candidates()]
    await review.reject(candidates[-1])
    notices = [notice.notice_id for notice in await Talk(running, scope).notices()]
    await running.settle()
    tokens = []
    for method in METHODS:
        if method.name in LISTS:
            where = {"thread_id": long.thread_id} if method.name == "ListRuns" else {}
            data = request(method, scope, page_size=1, **where)
            path = f"/{method.containing_service.full_name}/{method.name}"
            reply: Any = await running.channel.unary_unary(path)(data)  # type: ignore[arg-type]
            token = message_factory.GetMessageClass(method.output_type).FromString(reply).next_page_token  # type: ignore[attr-defined]
            assert token, method.name
            tokens.append(token)
    return {
        "thread_id": [long.thread_id, gone.thread_id],
        "thread_key": ["monday"],
        "run_id": ["kept-run", "deleted-run"],
        "fact_id": [(await review.facts())[0].fact_id, dead_fact],
        "candidate_id": [candidates[0], candidates[-1]],
        "notice_id": notices[:1],
        "page_token": tokens,
    }


def missing(running: Running, kind: str, like: str) -> str:
    """An id of the same form that nobody has or had."""
    match kind:
        case "thread_id":
            return ids.mint_thread_id(running.daemon.store.secret, Scope("nobody", "at-all"), b"0123456789")
        case "fact_id" | "candidate_id":
            return like[:2] + "0" * 16
        case "notice_id":
            return "nt_999"
        case "page_token":
            return like[:-2] + ("AA" if like[-2:] != "AA" else "BB")
    return "never-" + like


def id_fields(method: MethodDescriptor) -> list[str]:
    return [name for name in method.input_type.fields_by_name if name in ID_FIELDS]


def test_every_field_of_text_is_known_to_name_something_or_nothing() -> None:
    for method in METHODS:
        for name, found in method.input_type.fields_by_name.items():
            if found.type == FieldDescriptor.TYPE_STRING:
                assert (name in ID_FIELDS) != (name in FREE_FIELDS), f"{method.name}.{name}: give it a row"


@pytest.mark.parametrize("attacker", ATTACKERS, ids=lambda s: f"{s.tenant_id}-{s.agent_id}-{s.user_id or 'nobody'}")
async def test_anothers_id_is_answered_as_one_that_does_not_exist(held: Running, attacker: pb.Scope) -> None:
    theirs = await names(held, VICTIM)
    talk = Talk(held, attacker)
    await talk.turns("问的是自己的")
    before = await everything(held, VICTIM)
    asked = 0
    # Recording comes last: from then on the attacker has runs of its own under these ids.
    for method in sorted(METHODS, key=lambda method: method.name == "RecordRun"):
        for name in id_fields(method):
            own = {"thread_id": talk.thread_id} if name == "page_token" and method.name == "ListRuns" else {}
            for foreign in theirs[name]:
                absent = missing(held, name, foreign)
                await same(held, method, attacker, own | {name: foreign}, own | {name: absent})
                asked += 1
    assert asked > 30
    await held.settle()
    assert await everything(held, VICTIM) == before


async def same(
    running: Running, method: MethodDescriptor, scope: pb.Scope, foreign: dict[str, str], absent: dict[str, str]
) -> None:
    """Asks for both, and compares what is seen and what it cost."""
    seen = []
    for fields in (foreign, absent):
        await running.settle()
        # What is kept in memory of the scope is read anew after a change: that must be neither's burden.
        await running.memory.GetContext(svc.GetContextRequest(scope=scope, **WANTED["GetContext"]))
        async with counted(running) as work:
            answer = await outcome(running, method, request(method, scope, **fields), *fields.values())
        seen.append((answer, work))
    (one, first), (other, second) = seen
    about = (method.name, foreign)
    assert one == other, about
    assert all(words not in str(one) for words in OTHERS_WORDS), about
    assert first.statements == second.statements, about
    assert abs(first.steps - second.steps) <= MORE_STEPS, (about, first.steps, second.steps)


@pytest.mark.parametrize("attacker", ATTACKERS, ids=lambda s: f"{s.tenant_id}-{s.agent_id}-{s.user_id or 'nobody'}")
async def test_what_is_told_of_an_empty_scope_is_the_same_beside_a_full_one(held: Running, attacker: pb.Scope) -> None:
    for method in METHODS:
        if "scope" in method.input_type.fields_by_name and not method.name.startswith("Import"):
            ours = await outcome(held, method, request(method, attacker))
            nobodys = await outcome(held, method, request(method, NOBODY))
            assert ours == nobodys, method.name
            assert all(words not in str(ours) for words in OTHERS_WORDS), method.name
    assert any(NEEDLE in told for told in await everything(held, VICTIM))


async def test_an_admin_of_one_tenant_hears_of_no_other(start: Start) -> None:
    running = await start(credentials=CREDENTIALS)
    keeper = bearer("keeper")
    for tenant_id in (OURS, THEIRS):
        method = next(m for m in METHODS if m.name == "RecordRun")
        await outcome(running, method, request(method, pb.Scope(tenant_id=tenant_id, agent_id="exam")), token=keeper)
    for method in METHODS:
        scope = pb.Scope(tenant_id=OURS, agent_id="exam")
        answer = await outcome(running, method, request(method, scope), token=bearer("admin"))
        assert not re.search(rf"\b{THEIRS}\b", str(answer)), method.name
