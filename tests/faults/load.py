"""Mixed load: callers that record, ask, delete, confirm and retry, each in a scope of its own, and write down what they
are told. What an answer must say besides is checked where it arrives.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import grpc

from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.bench.corpus import text
from tests.fakes.provider import Answer, Request
from tests.faults.ledger import MARK, Conversation, Ledger, RunEntry, State, new_mark
from tests.talk import CANCELLED, COMPLETED, FAILED, reason_of

PROVIDER = "own"
MOST_RUNS = 14
"""Of one conversation: what its summary names must fit into a summary."""
MOST_FACTS = 20
TALKS = 4
REST_S = 120.0
"""How long the background work may take to come to rest, on a busy machine."""
LEAVING_S = 0.05
"""Callers that leave do so within this long: a call on a quiet machine takes a tenth of it."""

T = TypeVar("T")


def sums_up(request: Request) -> Answer:
    """Answers as a model would that sums up by naming every mark it was shown, in order, as often as it was."""
    if "NONE" in request.text:
        return Answer(json.dumps([{"fact": f"用户喜欢{new_mark()}牌的茶", "confidence": 0.8, "run": 1}]))
    marks = MARK.findall(request.user)
    # In the language of the instructions, or it is taken for no summary.
    is_chinese = any("\u4e00" <= char <= "\u9fff" for char in request.system)
    return Answer(f"两人谈到了{'、'.join(marks)}。" if is_chinese else f"They spoke of {', '.join(marks)}.")


@dataclass
class Tally:
    """How the calls of all callers ended, how long they took in seconds, and what no daemon may answer."""

    ends: Counter[str] = field(default_factory=Counter)
    times: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Gone(Exception):  # noqa: N818  it says what the daemon is
    """The daemon died or is going down: whether the call was done, nobody knows."""


@dataclass(frozen=True)
class Shape:
    """What the load is like. Texts: most are short, one in `large_one_in` goes up to `large_bytes`.

    A caller waits up to `pause_s` between its calls, leaves `leaving` of its contexts and recordings in the middle, and
    of its conversations keeps `conversations`, the oldest being deleted: so what is kept stays as much as it is.
    """

    short_bytes: int = 400
    large_bytes: int = 20_000
    large_one_in: int = 25
    pause_s: float = 0.0
    leaving: float = 0.0
    conversations: int = 1_000_000


@cache
def _pool(size_bytes: int) -> str:
    return text(random.Random(size_bytes), size_bytes)


async def at_rest(ops: rpc.OpsServiceAsyncStub) -> list[str]:
    """Waits until the background work owes nothing; returns what it still owes after `REST_S`, a line each."""
    for _ in range(int(REST_S / 0.1)):
        now = await ops.GetWorkerStatus(svc.GetWorkerStatusRequest())
        if not now.pending_jobs:
            return [f"at rest {now.unfolded_runs} runs are not folded"] if now.unfolded_runs else []
        await asyncio.sleep(0.1)  # nothing tells when a daemon comes to rest
    failed = [f"{job.thread_id} {job.error_reason} after {job.attempts} attempts" for job in now.failed_jobs]
    return [f"{now.pending_jobs} jobs wait after {REST_S:.0f} s", *failed[:10]]


class Caller:
    """One caller with its ledger. `run` goes on until the daemon is gone; what it was told stays in the ledger."""

    def __init__(self, ledger: Ledger, rng: random.Random, tally: Tally, shape: Shape) -> None:
        self.ledger, self._rng, self._tally, self._shape = ledger, rng, tally, shape
        self._pool = _pool(2 * shape.large_bytes)
        self._scope = ledger.scope

    async def run(self, channel: grpc.aio.Channel, until: Callable[[], bool] = lambda: False) -> None:
        """Makes calls until the daemon is gone, or `until` says so after one of them."""
        self._memory: rpc.MemoryServiceAsyncStub = rpc.MemoryServiceStub(channel)
        self._threads: rpc.ThreadServiceAsyncStub = rpc.ThreadServiceStub(channel)
        self._recall: rpc.RecallServiceAsyncStub = rpc.RecallServiceStub(channel)
        self._core: rpc.CoreServiceAsyncStub = rpc.CoreServiceStub(channel)
        kinds = [
            *((self._record, 30), (self._burst, 8), (self._ask, 20), (self._retry, 8), (self._list, 5)),
            *((self._delete_run, 8), (self._delete_thread, 3), (self._write_fact, 5), (self._delete_fact, 3)),
            *((self._decide, 8), (self._rename, 2)),
        ]
        try:
            while not until():
                (kind,) = self._rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
                await kind()
                kept = [talk for talk in self.ledger.conversations if talk.state is State.KEPT and self._kept(talk)]
                if len(kept) > self._shape.conversations:
                    await self._forget(kept[0])
                if self._shape.pause_s:
                    await asyncio.sleep(self._rng.random() * self._shape.pause_s)
        except Gone:
            pass

    # -- the runner's calls

    async def _record(self) -> None:
        talk = self._talk()
        run = self._new_run(talk)
        if self._rng.random() < self._shape.leaving:
            await self._leave(self._memory.RecordRun(self._request(talk, run)))
            await self._send(talk, run, is_retry=True)
        else:
            await self._send(talk, run)

    async def _burst(self) -> None:
        """Several runs of one conversation at once: they share commits, and their order is the daemon's."""
        talk = self._talk()
        runs = [self._new_run(talk) for _ in range(min(4, MOST_RUNS - len(talk.runs)))]
        ends = await asyncio.gather(*(self._send(talk, run) for run in runs), return_exceptions=True)
        for error in ends:
            if error is not None:
                raise error

    async def _leave(self, call: Any) -> None:
        """Leaves a call at some moment of its life."""
        await asyncio.sleep(self._rng.random() * LEAVING_S)
        call.cancel()
        self._tally.ends["left"] += 1

    async def _send(self, talk: Conversation, run: RunEntry, is_retry: bool = False) -> None:
        answer = await self._call("RecordRun", lambda: self._memory.RecordRun(self._request(talk, run)))
        if answer is None:
            run.state = State.GONE
            return
        if not (answer.created or is_retry) or (talk.thread_id and answer.thread_id != talk.thread_id):
            self._tally.wrong.append(f"{run.run_id} was new and was answered as an old one, or elsewhere")
        run.state, run.sequence, talk.thread_id = State.KEPT, answer.sequence, answer.thread_id

    async def _retry(self) -> None:
        """Sends again what was sent: a run that is there is told so, one that was deleted stays deleted."""
        runs = self.ledger.runs()
        if not runs:
            return
        talk, run = self._rng.choice(runs[-60:])
        gone = State.GONE in (run.state, talk.state)
        if gone and run.sequence == 0:
            return  # it never arrived, and nothing forbids it now
        answer = await self._call(
            "RecordRun", lambda: self._memory.RecordRun(self._request(talk, run)), {"DELETED"} if gone else set()
        )
        if (answer is None) is not gone or (answer is not None and answer.created):
            self._tally.wrong.append(f"a retry of {run.run_id} ({run.state.name}, {talk.state.name}) recorded it anew")

    async def _ask(self) -> None:
        talk = self._talk()
        question = self._words(60)
        request = svc.GetContextRequest(scope=self._scope, thread_key=talk.key, input=question, locale="zh")
        if self._rng.random() < self._shape.leaving:
            await self._leave(self._memory.GetContext(request))
            return
        answer = await self._call("GetContext", lambda: self._memory.GetContext(request))
        kept = [run for run in talk.runs.values() if run.state is State.KEPT]
        if answer is not None and kept:
            newest = max(kept, key=lambda run: run.sequence)
            if newest.mark not in answer.text:
                self._tally.wrong.append(f"{newest.run_id} was acknowledged and is not in the next context")

    async def _list(self) -> None:
        if self._rng.random() < 0.5:
            request = svc.SearchRequest(scope=self._scope, query=self._words(40))
            await self._call("Search", lambda: self._recall.Search(request))
            return
        listing = svc.ListThreadsRequest(scope=self._scope)
        answer = await self._call("ListThreads", lambda: self._threads.ListThreads(listing))
        deleted = {talk.thread_id for talk in self.ledger.conversations if talk.state is State.GONE}
        if answer is not None and deleted & {thread.thread_id for thread in answer.threads}:
            self._tally.wrong.append("a deleted thread is listed")

    # -- a person's calls

    async def _delete_run(self) -> None:
        runs = [(t, r) for t, r in self.ledger.runs() if t.state is r.state is State.KEPT]
        if not runs:
            return
        _, run = self._rng.choice(runs[-40:])
        run.state = State.DELETING
        request = svc.DeleteRunRequest(scope=self._scope, run_id=run.run_id)
        done = await self._call("DeleteRun", lambda: self._threads.DeleteRun(request))
        run.state = State.KEPT if done is None else State.GONE

    async def _delete_thread(self) -> None:
        talks = [t for t in self.ledger.conversations if t.state is State.KEPT and self._kept(t)]
        if len(talks) >= TALKS:
            await self._forget(self._rng.choice(talks))

    async def _forget(self, talk: Conversation) -> None:
        talk.state = State.DELETING
        request = svc.DeleteThreadRequest(scope=self._scope, thread_id=talk.thread_id)
        done = await self._call("DeleteThread", lambda: self._threads.DeleteThread(request))
        talk.state = State.KEPT if done is None else State.GONE
        if talk.state is State.GONE:
            for run in talk.runs.values():
                run.input = run.output = ""  # nobody compares them any more

    async def _rename(self) -> None:
        talk = self._talk()
        if self._kept(talk):
            request = svc.RenameThreadRequest(scope=self._scope, thread_id=talk.thread_id, title=self._words(30))
            await self._call("RenameThread", lambda: self._threads.RenameThread(request))

    async def _write_fact(self) -> None:
        if len(self._facts()) < MOST_FACTS:
            await self._become_fact(
                fact := f"用户有一只叫{new_mark()}的猫",
                "CreateFact",
                lambda: self._core.CreateFact(svc.CreateFactRequest(scope=self._scope, text=fact)),
            )

    async def _decide(self) -> None:
        """Confirms or rejects a candidate."""
        request = svc.ListCandidatesRequest(scope=self._scope, page_size=5)
        listed = await self._call("ListCandidates", lambda: self._core.ListCandidates(request))
        if listed is None or not listed.candidates:
            return
        one = self._rng.choice(listed.candidates)
        if self._rng.random() < 0.5 and len(self._facts()) < MOST_FACTS:
            confirm = svc.ConfirmCandidateRequest(scope=self._scope, candidate_id=one.candidate_id)
            call: Callable[[], Any] = lambda: self._core.ConfirmCandidate(confirm)  # noqa: E731
            await self._become_fact(one.text, "ConfirmCandidate", call)
            return
        reject = svc.RejectCandidateRequest(scope=self._scope, candidate_id=one.candidate_id)
        # Its last run may be deleted in between, and it is gone with it.
        if await self._call("RejectCandidate", lambda: self._core.RejectCandidate(reject), {"CANDIDATE_NOT_FOUND"}):
            self.ledger.rejected.add(one.text)

    async def _become_fact(self, fact: str, name: str, call: Callable[[], Awaitable[Any]]) -> None:
        self.ledger.facts[fact] = State.SENT
        answer = await self._call(name, call, {"CANDIDATE_NOT_FOUND"})
        if answer is None:
            del self.ledger.facts[fact]
            return
        self.ledger.facts[fact] = State.KEPT
        self.ledger.fact_ids[fact] = answer.fact.fact_id

    async def _delete_fact(self) -> None:
        if not (facts := self._facts()):
            return
        fact = self._rng.choice(facts)
        self.ledger.facts[fact] = State.DELETING
        request = svc.DeleteFactRequest(scope=self._scope, fact_id=self.ledger.fact_ids[fact])
        done = await self._call("DeleteFact", lambda: self._core.DeleteFact(request))
        self.ledger.facts[fact] = State.KEPT if done is None else State.GONE

    # -- what they share

    async def _call(
        self, name: str, call: Callable[[], Awaitable[T]], expected: set[str] | frozenset[str] = frozenset()
    ) -> T | None:
        """Makes a call; None where it was refused and nothing was done. Gone where the daemon is."""
        begun = time.perf_counter()
        try:
            answer = await call()
        except grpc.aio.AioRpcError as error:
            code, reason = error.code(), reason_of(error)
            self._tally.ends[f"{code.name} {reason}".strip()] += 1
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                raise Gone from None
            if reason not in expected | {"RATE_LIMITED", "DISK_FULL"}:
                self._tally.wrong.append(f"{name}: {code.name} {reason} {error.details()}")
            return None
        self._tally.ends["OK"] += 1
        self._tally.times.setdefault(name, []).append(time.perf_counter() - begun)
        return answer

    def _talk(self) -> Conversation:
        """One of the few conversations that go on; full ones are left, and new ones begun."""
        talks = [t for t in self.ledger.conversations if t.state is State.KEPT and len(t.runs) < MOST_RUNS]
        if len(talks) < TALKS:
            number = len(self.ledger.conversations)
            talks.append(Conversation(f"话题-{number}", self._rng.choice([PROVIDER, PROVIDER, ""])))
            self.ledger.conversations.append(talks[-1])
        return self._rng.choice(talks)

    def _new_run(self, talk: Conversation) -> RunEntry:
        mark = new_mark()
        large = self._rng.randrange(self._shape.large_one_in) == 0
        size = self._rng.randrange(self._shape.large_bytes if large else self._shape.short_bytes)
        outcome = self._rng.choices([COMPLETED, FAILED, CANCELLED], [8, 1, 1])[0]
        run = RunEntry(f"run-{mark}", mark, f"{mark} {self._words(30 + size // 8)}", self._words(size), outcome)
        talk.runs[run.run_id] = run
        return run

    def _words(self, size_bytes: int) -> str:
        """A piece of this length of the caller's pool of words, Chinese and English."""
        piece = self._rng.randrange(len(self._pool) // 2)
        return self._pool[piece : piece + size_bytes].encode()[:size_bytes].decode("utf-8", "ignore")

    def _request(self, talk: Conversation, run: RunEntry) -> svc.RecordRunRequest:
        return svc.RecordRunRequest(
            scope=self._scope,
            run_id=run.run_id,
            thread_key=talk.key,
            input=run.input,
            output=run.output,
            outcome=run.outcome,
            provider=talk.provider,
        )

    def _kept(self, talk: Conversation) -> list[RunEntry]:
        return [run for run in talk.runs.values() if run.state is State.KEPT]

    def _facts(self) -> list[str]:
        return [fact for fact, state in self.ledger.facts.items() if state is State.KEPT]
