"""The store against a model of it in Python: whatever is recorded, retried, folded, deleted and restarted in whatever
order, every run is in the summary's range, shown, or counted as omitted, and none twice.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from memsvc import exchange
from memsvc.config import Settings
from memsvc.errors import Deleted, RunConflict, RunNotFound, ThreadNotInScope
from memsvc.model import RECENT_RUNS, NewRun, OpKind, RunOutcome, Scope, ThreadState, Usage
from memsvc.rules import folding, ids
from memsvc.rules.context import Ask, render
from memsvc.rules.shown import title
from memsvc.store import Fold, FoldState, NewOp, Page, Question, Recorded, ThreadRef, verify_database
from memsvc.store.sqlite import scopes
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import LOCALE, METER, RENDERER, SCOPE, Talk, Written, all_text, prepared, words

T = TypeVar("T")

STRANGER = Scope("school-8", "exam", "wang")
OP = NewOp(OpKind.FOLD, "own", "m", Usage(10, 1, 7), "", 5)
SIZES = (1, 40, 900)
"""How often a run's word stands in its output: a line, a few, more than a small call takes."""
KEYS = st.sampled_from(["", "", "monday"])
"""Two conversations, so that much befalls each of them."""
PLACES = st.sampled_from([0, 1, -1, -2, -3])


class StoreMachine(RuleBasedStateMachine):
    """One scope of a store on a file of its own, and the model of it."""

    stale = Bundle("stale")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.numbers = itertools.count(1)
        self.model: dict[str, Talk] = {}
        self.buried_runs: list[Written] = []
        self.buried_threads: list[str] = []
        self.recorded = 0
        self.ops = 0

    @initialize()
    def open(self) -> None:
        self.db = self._do(Database.open(Path(self.folder.name) / "memsvc.db", 1))
        self.store = SqliteStore(self.db, RENDERER)

    def teardown(self) -> None:
        self._do(self._is_whole_and_carried_whole())
        self._do(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    async def _is_whole_and_carried_whole(self) -> None:
        """What any history leaves is found whole, and its export is the same in an empty database."""
        there = Path(self.folder.name) / "there"
        there.mkdir()
        other = await SqliteStore.open(there / "memsvc.db", RENDERER, 1)
        settings = Settings.model_validate({"database": there / "memsvc.db"})
        data = [part async for part in exchange.export(self.store, SCOPE)]

        async def parts() -> AsyncIterator[bytes]:
            for part in data:
                yield part

        try:
            await exchange.bring(other, RENDERER, settings, SCOPE, parts(), "test", 1)
            assert [part async for part in exchange.export(other, SCOPE)] == data
            again = await exchange.bring(self.store, RENDERER, settings, SCOPE, parts(), "test", 1)
            assert not any(again.brought)
            assert [part async for part in exchange.export(self.store, SCOPE)] == data
        finally:
            await other.close()
        assert verify_database(there / "memsvc.db").findings == []
        assert verify_database(Path(self.folder.name) / "memsvc.db").findings == []

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def _record(self, run: NewRun, ref: ThreadRef) -> Recorded:
        now_us = 1_000_000 - next(self.numbers)  # a clock that runs backwards orders nothing
        return self._do(self.store.record_run(SCOPE, ref, prepared(run, self.store.secret), now_us))

    def _new_run(self, outcome: RunOutcome, size: int) -> NewRun:
        number = next(self.numbers)
        return NewRun(f"run-{number}", f"q{number}_", f"z{number}_" * size, outcome, usage=Usage(1, 1, 1))

    def _written(self, ref: ThreadRef, outcome: RunOutcome, size: int) -> Talk:
        run = self._new_run(outcome, size)
        answer = self._record(run, ref)
        assert answer.created
        assert answer.thread_id not in self.buried_threads
        talk = self.model.setdefault(answer.thread_id, Talk(answer.thread_id))
        talk.runs.append(Written(run.run_id, answer.sequence, run.input, run.output, outcome))
        talk.archived = False
        talk.key = talk.key or ref.thread_key
        self.recorded += 1
        assert answer.fold_due == (self._uncovered(talk) > RECENT_RUNS)
        return talk

    def _uncovered(self, talk: Talk) -> int:
        return len(talk.runs) - self._do(self.store.get_thread(SCOPE, talk.thread_id)).folded_count

    def _talk(self, key: str) -> Talk:
        """The living thread of a key, with a run at least; the empty key stands for a thread that has none."""
        talk = next((t for t in self.model.values() if t.key == key), None)
        if talk is None or not talk.runs:
            ref = ThreadRef(thread_key=key) if key or talk is None else ThreadRef(talk.thread_id)
            again = self._written(ref, RunOutcome.COMPLETED, 1)
            assert talk in (None, again)
            talk = again
        return talk

    def _owing(self, key: str) -> Talk:
        """That thread, with runs to fold."""
        talk = self._talk(key)
        while self._uncovered(talk) <= RECENT_RUNS:
            self._written(ThreadRef(talk.thread_id), RunOutcome.COMPLETED, 1)
        return talk

    @rule(key=KEYS, outcomes=st.lists(st.sampled_from(RunOutcome), min_size=2, max_size=6), by_key=st.booleans())
    def record(self, key: str, outcomes: list[RunOutcome], by_key: bool) -> None:
        talk = self._talk(key)
        ref = ThreadRef(thread_key=key) if key and by_key else ThreadRef(talk.thread_id)
        for outcome in outcomes:
            assert self._written(ref, outcome, 1) is talk

    @rule(key=KEYS, size=st.sampled_from(SIZES), outcome=st.sampled_from(RunOutcome))
    def record_a_long_one(self, key: str, size: int, outcome: RunOutcome) -> None:
        self._written(ThreadRef(self._talk(key).thread_id), outcome, size)

    @rule(key=KEYS, at=PLACES, other=st.sampled_from(["", "input", "output", "outcome", "thread"]))
    def retry(self, key: str, at: int, other: str) -> None:
        talk = self._talk(key)
        run = talk.runs[at % len(talk.runs)]
        again = NewRun(run.run_id, run.input, run.output, run.outcome, provider="another", labels={"a": "b"})
        if not other:
            for ref in (ThreadRef(), ThreadRef(talk.thread_id)):
                assert self._record(again, ref) == Recorded(run.run_id, talk.thread_id, False, run.sequence, False)
            return
        elsewhere = ids.mint_thread_id(self.store.secret, SCOPE, b"elsewhere-")
        ref = ThreadRef(elsewhere if other == "thread" else talk.thread_id)
        changed: dict[str, Any] = {"input": "x", "output": "x", "outcome": RunOutcome(run.outcome % 3 + 1)}
        with pytest.raises(RunConflict):
            self._record(replace(again, **{name: changed[name] for name in changed if name == other}), ref)

    @rule(at=PLACES)
    def retry_what_was_deleted(self, at: int) -> None:
        for run in self.buried_runs[at:][:1]:
            with pytest.raises(Deleted):
                self._record(NewRun(run.run_id, run.input, run.output, run.outcome), ThreadRef())
        for thread_id in self.buried_threads[at:][:1]:
            with pytest.raises(Deleted):
                self._record(self._new_run(RunOutcome.COMPLETED, 1), ThreadRef(thread_id))
            assert not self._commit_empty(thread_id)

    @rule(key=KEYS, room=st.sampled_from([400, 700, 6000]), calls=st.sampled_from([1, 2, 50]))
    def fold(self, key: str, room: int, calls: int) -> None:
        talk = self._owing(key)
        for _ in range(calls):
            state = self._do(self.store.fold_state(SCOPE, talk.thread_id))
            if state is None:
                assert self._uncovered(talk) <= RECENT_RUNS
                return
            assert self._commit(talk.thread_id, state, self._folded(state, room))

    @rule(target=stale, key=KEYS)
    def read_what_is_due(self, key: str) -> tuple[str, FoldState]:
        thread_id = self._owing(key).thread_id
        state = self._do(self.store.fold_state(SCOPE, thread_id))
        assert state is not None
        return thread_id, state

    @rule(read=consumes(stale))
    def fold_what_was_read_then(self, read: tuple[str, FoldState]) -> None:
        thread_id, state = read
        now = self._do(self.store.fold_state(SCOPE, thread_id))
        held = self._commit(thread_id, state, self._folded(state, 700))
        # It holds on its revision alone; runs recorded meanwhile do not raise that.
        assert held == (now is not None and now.revision == state.revision)

    @rule(key=KEYS, at=PLACES)
    def delete_a_run_while_a_model_reads(self, key: str, at: int) -> None:
        thread_id, state = self.read_what_is_due(key)
        self.delete_run(key, at)
        assert not self._commit(thread_id, state, self._folded(state, 6000))

    def _folded(self, state: FoldState, room: int) -> Fold:
        turns = [folding.Turn(run.outcome, run.own_input, run.output) for run in state.runs]
        plan = folding.plan(turns, state.draft_offset, room, "en", METER)
        previous = state.draft if state.draft_offset else state.summary
        covered = state.runs[: plan.run_count]
        return Fold(
            summary=previous + words(plan.lines),
            providers=frozenset({"own"}),
            folded_upto=covered[-1].sequence if covered else 0,
            folded_count=state.folded_count + len(covered),
            draft_offset=plan.draft_offset,
        )

    def _commit(self, thread_id: str, state: FoldState, fold: Fold) -> bool:
        self.ops += 1
        return self._do(self.store.commit_fold(SCOPE, state.scope_no, thread_id, state.revision, fold, OP, None, 1))

    def _commit_empty(self, thread_id: str) -> bool:
        self.ops += 1
        fold = Fold("words of nobody", frozenset(), 1, 1)
        return self._do(self.store.commit_fold(SCOPE, self._scope_no(), thread_id, 0, fold, OP, None, 1))

    def _scope_no(self) -> int:
        return self._do(self.store._db.read(scopes.find_scope, SCOPE))

    @rule(key=KEYS)
    def fail_to_fold(self, key: str) -> None:
        self.ops += 1
        op = OP._replace(error_reason="PROVIDER_TIMEOUT")
        thread_id = self._talk(key).thread_id
        self._do(self.store.record_op(SCOPE, self._scope_no(), thread_id, op, None, 1))

    @rule(key=KEYS, at=PLACES)
    def delete_run(self, key: str, at: int) -> None:
        talk = self._talk(key)
        run = talk.runs.pop(at % len(talk.runs))
        assert self._do(self.store.delete_run(SCOPE, run.run_id)) == talk.thread_id
        self.buried_runs.append(run)
        with pytest.raises(RunNotFound):
            self._do(self.store.delete_run(SCOPE, run.run_id))

    @rule(key=KEYS, room=st.sampled_from([400, 700]), calls=st.integers(1, 3), places=st.lists(PLACES, min_size=1))
    def fold_and_delete_runs(self, key: str, room: int, calls: int, places: list[int]) -> None:
        self.fold(key, room, calls)
        for at in places[:3]:
            self.delete_run(key, at)

    @rule(key=KEYS)
    def delete_thread(self, key: str) -> None:
        talk = self._talk(key)
        assert self._do(self.store.delete_thread(SCOPE, talk.thread_id)) == len(talk.runs)
        self.buried_runs += talk.runs
        self.buried_threads.append(talk.thread_id)
        del self.model[talk.thread_id]
        with pytest.raises(ThreadNotInScope):
            self._do(self.store.delete_thread(SCOPE, talk.thread_id))

    @rule(key=KEYS, name=st.sampled_from(["Exam", "考试"]), state=st.sampled_from(ThreadState))
    def rename_and_archive(self, key: str, name: str, state: ThreadState) -> None:
        talk = self._talk(key)
        assert self._do(self.store.rename_thread(SCOPE, talk.thread_id, name)).title == name
        assert self._do(self.store.set_thread_state(SCOPE, talk.thread_id, state)).state is state
        talk.named, talk.archived = name, state is ThreadState.ARCHIVED

    @rule()
    def restart(self) -> None:
        self._do(self.store.close())
        self.open()
        due = {thread_id for scope, thread_id in self._do(self.store.due_threads())}
        assert due == {t.thread_id for t in self.model.values() if t.runs and self._is_due(t)}

    def _is_due(self, talk: Talk) -> bool:
        return self._uncovered(talk) > RECENT_RUNS

    @invariant()
    def every_run_is_covered_shown_or_omitted_and_none_twice(self) -> None:
        for talk in self.model.values():
            read = self._do(self.store.read_context(SCOPE, ThreadRef(talk.thread_id), Question()))
            block = render(read.memory, Ask(LOCALE, "abcdef", 6000), METER)
            assert read.thread_new is (not talk.runs)
            covered, upto = self._summary(talk)
            rest = [run for run in talk.runs if run.sequence > upto]
            assert [run.sequence for run in talk.runs[:covered]] == [r.sequence for r in talk.runs if r not in rest]
            shown = [source.run_id for section in block.sections for source in section.sources]
            omitted = sum(section.omitted_count for section in block.sections)
            assert len(set(shown)) == len(shown)
            assert shown == [run.run_id for run in rest if run.run_id in set(shown)]
            assert len(shown) + omitted == len(rest)
            # The last ones are always there, word for word or cut.
            assert [run.run_id for run in talk.runs[-RECENT_RUNS:]] == shown[-RECENT_RUNS:]

    def _summary(self, talk: Talk) -> tuple[int, int]:
        """Checks summary, draft and checkpoints word by word; returns how many runs are covered, and up to where."""
        summary, draft, offset, upto, covered, run_count = self._ask(
            "SELECT summary, draft, draft_offset, folded_upto, folded_count, run_count FROM threads "
            "WHERE thread_id = ?",
            talk.thread_id,
        )[0]
        assert run_count == len(talk.runs)
        assert summary == "".join(run.told for run in talk.runs[:covered])
        assert upto == (talk.runs[covered - 1].sequence if covered else 0) or upto < talk.runs[covered].sequence
        if offset:
            run = talk.runs[covered]
            assert draft == summary + (run.input + run.output)[:offset]
        else:
            assert draft == ""
        checkpoints = self._ask(
            "SELECT c.summary, c.folded_count, c.folded_upto FROM checkpoints c JOIN threads USING (thread_no) "
            "WHERE thread_id = ? ORDER BY c.folded_upto",
            talk.thread_id,
        )
        assert len(checkpoints) <= folding.MAX_CHECKPOINTS
        for kept, count, kept_upto in checkpoints:
            assert kept == "".join(run.told for run in talk.runs[:count])
            assert kept_upto <= upto
        if covered:
            assert checkpoints[-1] == (summary, covered, upto)
        return covered, upto

    @invariant()
    def lists_agree_with_the_model(self) -> None:
        alive = [talk for talk in self.model.values() if talk.runs]
        alive.sort(key=lambda talk: -talk.runs[-1].sequence)
        for states in ([ThreadState.ACTIVE], [ThreadState.ARCHIVED], list(ThreadState)):
            listed = self._do(self.store.list_threads(SCOPE, states, "", Page(0, 200)))[0]
            wanted = [t for t in alive if (ThreadState.ARCHIVED if t.archived else ThreadState.ACTIVE) in states]
            assert [(t.thread_id, t.run_count, t.title, t.thread_key) for t in listed] == [
                (t.thread_id, len(t.runs), t.named or title(t.runs[0].input), t.key) for t in wanted
            ]
        for talk in alive:
            found, after = self._do(self.store.list_runs(SCOPE, talk.thread_id, Page(0, 200), False, 0, 3 << 20))
            assert [(r.run_id, r.sequence, r.input, r.output, r.outcome) for r in found] == [
                (r.run_id, r.sequence, r.input, r.output, r.outcome) for r in talk.runs
            ]
            assert after == 0

    @invariant()
    def index_entries_exist_exactly_for_completed_runs(self) -> None:
        indexed = {sequence for (sequence,) in self._ask("SELECT sequence FROM recall_entries")}
        runs = [run for talk in self.model.values() for run in talk.runs]
        assert indexed == {run.sequence for run in runs if run.outcome is RunOutcome.COMPLETED}

    @invariant()
    def what_was_deleted_stays_deleted(self) -> None:
        kept = self._do(self.db.read(all_text))
        for run in self.buried_runs:
            assert run.input not in kept
            assert run.word not in kept
        for thread_id in self.buried_threads[-2:]:
            with pytest.raises(Deleted):
                self._do(self.store.read_context(SCOPE, ThreadRef(thread_id), Question()))

    @invariant()
    def costs_outlive_what_they_paid_for(self) -> None:
        rows = self._do(self.store.usage(SCOPE, "", None, None))
        assert sum(row.usage.cost_micros for row in rows if not row.memory) == self.recorded
        assert sum(row.usage.cost_micros for row in rows if row.memory) == self.ops * OP.usage.cost_micros

    @invariant()
    def a_stranger_sees_nothing(self) -> None:
        assert self._do(self.store.list_threads(STRANGER, list(ThreadState), "", Page(0, 200))) == ([], 0)
        for thread_id in list(self.model)[:1]:
            with pytest.raises(ThreadNotInScope):
                self._do(self.store.read_context(STRANGER, ThreadRef(thread_id), Question()))

    def _ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._do(self.db.read(lambda connection: connection.execute(query, values).fetchall()))


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
