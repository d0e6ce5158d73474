"""The store against a model of it in Python: whatever is recorded, retried, folded, deleted and restarted in whatever
order, every run is in the summary's range, shown, or counted as omitted, and none twice.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from memsvc.errors import Deleted, RunConflict, RunNotFound, ThreadNotInScope
from memsvc.model import RECENT_RUNS, NewRun, OpKind, RunOutcome, Scope, ThreadState, Usage
from memsvc.rules import folding, ids
from memsvc.rules.context import Ask, render
from memsvc.rules.shown import title
from memsvc.store import Fold, FoldState, NewOp, Page, Question, Recorded, ThreadRef
from memsvc.store.sqlite.db import Database
from memsvc.store.sqlite.store import SqliteStore
from tests.model_of_threads import LOCALE, METER, RENDERER, SCOPE, Talk, Written, all_text, prepared, words

T = TypeVar("T")

STRANGER = Scope("school-8", "exam", "wang")
OP = NewOp(OpKind.FOLD, "own", "m", Usage(10, 1, 7), "", 5)
SIZES = (1, 40, 900)
"""How often a run's word stands in its output: a line, a few, more than a small call takes."""


class StoreMachine(RuleBasedStateMachine):
    """One scope of a store on a file of its own, and the model of it."""

    talks = Bundle("talks")
    runs = Bundle("runs")
    stale = Bundle("stale")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.numbers = itertools.count(1)
        self.model: dict[str, Talk] = {}
        self.buried_runs: list[Written] = []
        self.buried_threads: list[str] = []
        self.keys: dict[str, str] = {}
        self.recorded = 0
        self.ops = 0

    @initialize()
    def open(self) -> None:
        self.db = self._do(Database.open(Path(self.folder.name) / "memsvc.db", 1))
        self.store = SqliteStore(self.db, RENDERER)

    def teardown(self) -> None:
        self._do(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def _record(self, run: NewRun, ref: ThreadRef) -> Recorded:
        now_us = 1_000_000 - next(self.numbers)  # a clock that runs backwards orders nothing
        return self._do(self.store.record_run(SCOPE, ref, prepared(run, self.store.secret), now_us))

    def _new_run(self, outcome: RunOutcome, size: int) -> NewRun:
        number = next(self.numbers)
        return NewRun(f"run-{number}", f"q{number}_", f"z{number}_" * size, outcome, usage=Usage(1, 1, 1))

    def _written(self, ref: ThreadRef, outcome: RunOutcome, size: int) -> tuple[str, str]:
        run = self._new_run(outcome, size)
        answer = self._record(run, ref)
        assert answer.created
        talk = self.model.setdefault(answer.thread_id, Talk(answer.thread_id))
        talk.runs.append(Written(run.run_id, answer.sequence, run.input, run.output, outcome))
        talk.archived = False
        talk.key = talk.key or ref.thread_key
        self.recorded += 1
        assert answer.fold_due == (self._uncovered(talk) > RECENT_RUNS)
        return answer.thread_id, run.run_id

    def _uncovered(self, talk: Talk) -> int:
        return len(talk.runs) - self._do(self.store.get_thread(SCOPE, talk.thread_id)).folded_count

    @rule(target=talks, outcome=st.sampled_from(RunOutcome), size=st.sampled_from(SIZES))
    def open_a_thread(self, outcome: RunOutcome, size: int) -> str:
        return self._written(ThreadRef(), outcome, size)[0]

    @rule(target=talks, key=st.sampled_from(["monday", "tuesday"]))
    def record_by_key(self, key: str) -> str:
        thread_id, _ = self._written(ThreadRef(thread_key=key), RunOutcome.COMPLETED, 1)
        if self.keys.get(key) in self.model:
            assert thread_id == self.keys[key]
        else:
            assert thread_id not in self.keys.values()
        self.keys[key] = thread_id
        return thread_id

    @rule(target=runs, thread_id=talks, outcomes=st.lists(st.sampled_from(RunOutcome), min_size=1, max_size=4))
    def record(self, thread_id: str, outcomes: list[RunOutcome]) -> Any:
        if thread_id not in self.model:
            with pytest.raises(Deleted):
                self._record(self._new_run(RunOutcome.COMPLETED, 1), ThreadRef(thread_id))
            return multiple()
        return multiple(*(self._written(ThreadRef(thread_id), outcome, 1)[1] for outcome in outcomes))

    @rule(target=runs, thread_id=talks, size=st.sampled_from(SIZES))
    def record_one_of_size(self, thread_id: str, size: int) -> Any:
        if thread_id not in self.model:
            return multiple()
        return self._written(ThreadRef(thread_id), RunOutcome.COMPLETED, size)[1]

    @rule(run_id=runs, other=st.sampled_from(["", "input", "output", "outcome", "thread"]))
    def retry(self, run_id: str, other: str) -> None:
        found = self._find(run_id)
        if found is None:
            with pytest.raises(Deleted):
                self._record(NewRun(run_id, "anything", "", RunOutcome.COMPLETED), ThreadRef())
            return
        talk, run = found
        again = NewRun(run_id, run.input, run.output, run.outcome, provider="another", labels={"a": "b"})
        if not other:
            for ref in (ThreadRef(), ThreadRef(talk.thread_id)):
                answer = self._record(again, ref)
                assert answer == Recorded(run_id, talk.thread_id, False, run.sequence, False)
            return
        elsewhere = ids.mint_thread_id(self.store.secret, SCOPE, b"elsewhere-")
        ref = ThreadRef(elsewhere if other == "thread" else talk.thread_id)
        changed: dict[str, Any] = {"input": "x", "output": "x", "outcome": RunOutcome(run.outcome % 3 + 1)}
        with pytest.raises(RunConflict):
            self._record(replace(again, **{name: changed[name] for name in changed if name == other}), ref)

    @rule(thread_id=talks, room=st.sampled_from([400, 700, 6000]), calls=st.sampled_from([1, 2, 50]))
    def fold(self, thread_id: str, room: int, calls: int) -> None:
        for _ in range(calls):
            state = self._do(self.store.fold_state(SCOPE, thread_id))
            if state is None:
                assert thread_id not in self.model or self._uncovered(self.model[thread_id]) <= RECENT_RUNS
                return
            assert self._commit(thread_id, state, self._folded(state, room))

    @rule(target=stale, thread_id=talks)
    def read_what_is_due(self, thread_id: str) -> Any:
        state = self._do(self.store.fold_state(SCOPE, thread_id))
        return multiple() if state is None else (thread_id, state)

    @rule(read=consumes(stale))
    def fold_what_was_read_then(self, read: tuple[str, FoldState]) -> None:
        thread_id, state = read
        now = self._do(self.store.fold_state(SCOPE, thread_id))
        held = self._commit(thread_id, state, self._folded(state, 700))
        # It holds on its revision alone; runs recorded meanwhile do not raise that.
        assert held == (now is not None and now.revision == state.revision)

    def _folded(self, state: FoldState, room: int) -> Fold:
        turns = [folding.Turn(run.outcome, run.own_input, run.output) for run in state.runs]
        plan = folding.plan(turns, state.draft_offset, room, METER)
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
        return self._do(self.store.commit_fold(SCOPE, thread_id, state.revision, fold, OP, None, 1))

    @rule(thread_id=talks)
    def fail_to_fold(self, thread_id: str) -> None:
        self.ops += 1
        self._do(self.store.record_op(SCOPE, thread_id, OP._replace(error_reason="PROVIDER_TIMEOUT"), None, 1))

    @rule(run_id=runs)
    def delete_run(self, run_id: str) -> None:
        found = self._find(run_id)
        if found is None:
            with pytest.raises(RunNotFound):
                self._do(self.store.delete_run(SCOPE, run_id))
            return
        talk, run = found
        assert self._do(self.store.delete_run(SCOPE, run_id)) == talk.thread_id
        talk.runs.remove(run)
        self.buried_runs.append(run)

    @rule(thread_id=talks)
    def delete_thread(self, thread_id: str) -> None:
        talk = self.model.get(thread_id)
        if talk is None or not talk.runs:
            with pytest.raises(ThreadNotInScope):
                self._do(self.store.delete_thread(SCOPE, thread_id))
            return
        assert self._do(self.store.delete_thread(SCOPE, thread_id)) == len(talk.runs)
        self.buried_runs += talk.runs
        self.buried_threads.append(thread_id)
        del self.model[thread_id]

    @rule(thread_id=talks, name=st.sampled_from(["Exam", "考试"]))
    def rename(self, thread_id: str, name: str) -> None:
        if self._alive(thread_id):
            assert self._do(self.store.rename_thread(SCOPE, thread_id, name)).title == name
            self.model[thread_id].named = name

    @rule(thread_id=talks, state=st.sampled_from(ThreadState))
    def archive(self, thread_id: str, state: ThreadState) -> None:
        if self._alive(thread_id):
            assert self._do(self.store.set_thread_state(SCOPE, thread_id, state)).state is state
            self.model[thread_id].archived = state is ThreadState.ARCHIVED

    @rule()
    def restart(self) -> None:
        self._do(self.store.close())
        self.open()
        due = {thread_id for scope, thread_id in self._do(self.store.due_threads())}
        assert due == {t.thread_id for t in self.model.values() if self._alive(t.thread_id) and self._is_due(t)}

    def _is_due(self, talk: Talk) -> bool:
        return self._uncovered(talk) > RECENT_RUNS

    def _alive(self, thread_id: str) -> bool:
        return thread_id in self.model and bool(self.model[thread_id].runs)

    def _find(self, run_id: str) -> tuple[Talk, Written] | None:
        return next(((t, r) for t in self.model.values() for r in t.runs if r.run_id == run_id), None)

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
        for thread_id in self.buried_threads:
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
    max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
