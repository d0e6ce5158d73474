"""Every combination of what may be asked and what may be there has exactly one row in a table, and none leaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product

import pytest

from memsvc.model import NoticeKind, OpKind
from memsvc.rules.provider import (
    BUILTIN,
    NO_PROVIDER,
    Action,
    Choice,
    ProviderFacts,
    Work,
    choose,
    may_receive,
)

FOLD, EXTRACT = OpKind.FOLD, OpKind.EXTRACT
NAMES = ("cloud", "cloud2", "local", "fallback", "gone", "")
"""Four configured providers, one that nobody configured, and runs that name none."""

LATEST = ("cloud", "local", "fallback", "gone", "")


@dataclass(frozen=True)
class World:
    """One combination. `fallback` is whether there is a local fallback and how it fares: none, up, down."""

    kind: OpKind
    latest: str
    served_by: frozenset[str]
    own_up: bool
    fallback: str
    overdue: bool

    @property
    def providers(self) -> dict[str, ProviderFacts]:
        facts = {}
        for name in ("cloud", "cloud2", "local", "fallback"):
            up = True
            if name == self.latest:
                up = self.own_up
            if name == "fallback" and self.fallback != "none":
                up = self.fallback == "up"
            facts[name] = ProviderFacts(name, name in ("local", "fallback"), up, "" if up else f"{name} is down")
        return facts

    def choose(self) -> Choice:
        fallback = "" if self.fallback == "none" else "fallback"
        return choose(Work(self.kind, self.served_by, self.latest), self.providers, fallback, self.overdue)


def worlds() -> Iterator[World]:
    served = [frozenset(s) for s in chain.from_iterable(combinations(NAMES, n) for n in range(len(NAMES) + 1))]
    for kind, latest, names, up, fallback, late in product(
        (FOLD, EXTRACT), LATEST, served, (True, False), ("none", "up", "down"), (False, True)
    ):
        # Where the latest run's provider is the configured fallback, there is one state and not two.
        if latest == "fallback" and fallback != "none" and up != (fallback == "up"):
            continue
        # A provider that nobody configured is neither up nor down.
        if latest in ("gone", "") and up:
            continue
        yield World(kind, latest, names, up, fallback, late)


ANY = "*"
USE_OWN, USE_FALLBACK, USE_BUILTIN = "own", "fallback", "builtin"
WAIT_OWN, WAIT_FALLBACK, SKIP = "wait for own", "wait for fallback", "skip"

# The latest run's provider may receive this ("own"); it is a cloud that may not ("barred"); nobody
# configured it, or no run names one ("none").
TABLE = [
    # who      up    fallback  kind     overdue  what
    ("own", True, ANY, ANY, ANY, USE_OWN),
    ("own", False, "up", ANY, ANY, USE_FALLBACK),
    ("own", False, "none", EXTRACT, ANY, WAIT_OWN),
    ("own", False, "down", EXTRACT, ANY, WAIT_OWN),
    ("own", False, "none", FOLD, False, WAIT_OWN),
    ("own", False, "down", FOLD, False, WAIT_OWN),
    ("own", False, "none", FOLD, True, USE_BUILTIN),
    ("own", False, "down", FOLD, True, USE_BUILTIN),
    ("barred", ANY, "up", ANY, ANY, USE_FALLBACK),
    ("barred", ANY, "none", FOLD, ANY, USE_BUILTIN),
    ("barred", ANY, "none", EXTRACT, ANY, SKIP),
    ("barred", ANY, "down", EXTRACT, ANY, WAIT_FALLBACK),
    ("barred", ANY, "down", FOLD, False, WAIT_FALLBACK),
    ("barred", ANY, "down", FOLD, True, USE_BUILTIN),
    ("none", ANY, "up", ANY, ANY, USE_FALLBACK),
    ("none", ANY, "none", FOLD, ANY, USE_BUILTIN),
    ("none", ANY, "none", EXTRACT, ANY, SKIP),
    ("none", ANY, "down", EXTRACT, ANY, WAIT_FALLBACK),
    ("none", ANY, "down", FOLD, False, WAIT_FALLBACK),
    ("none", ANY, "down", FOLD, True, USE_BUILTIN),
]


def who(world: World) -> str:
    if world.latest in ("gone", ""):
        return "none"
    return "barred" if world.latest == "cloud" and world.served_by - {"cloud"} else "own"


def rows_of(world: World) -> list[str]:
    state = (who(world), world.own_up, world.fallback, world.kind, world.overdue)
    return [what for *row, what in TABLE if all(cell in (ANY, value) for cell, value in zip(row, state, strict=True))]


def check(world: World) -> None:
    """The choice is the one of the table's only row for this world."""
    rows = rows_of(world)
    assert len(rows) == 1, (world, rows)
    choice = world.choose()
    place, reason = {
        USE_OWN: ((Action.USE, world.latest), ""),
        USE_FALLBACK: ((Action.USE, "fallback"), ""),
        USE_BUILTIN: ((Action.USE, BUILTIN), ""),
        WAIT_OWN: ((Action.WAIT, ""), f"{world.latest} is down"),
        WAIT_FALLBACK: ((Action.WAIT, ""), "fallback is down"),
        SKIP: ((Action.SKIP, ""), NO_PROVIDER),
    }[rows[0]]
    assert (choice.action, choice.provider) == place, world
    assert choice.reason == reason, world


def test_every_combination_goes_where_its_row_of_the_table_says() -> None:
    for world in worlds():
        check(world)


def test_no_row_of_the_table_is_idle() -> None:
    used = set()
    for world in worlds():
        state = (who(world), world.own_up, world.fallback, world.kind, world.overdue)
        used |= {
            i
            for i, (*row, _) in enumerate(TABLE)
            if all(cell in (ANY, value) for cell, value in zip(row, state, strict=True))
        }
    assert used == set(range(len(TABLE)))


def test_no_combination_sends_a_run_to_a_cloud_that_did_not_serve_it() -> None:
    for world in worlds():
        choice = world.choose()
        if choice.provider in ("cloud", "cloud2"):
            assert world.served_by <= {choice.provider}, world
            assert choice.provider == world.latest, world


def test_no_combination_sends_work_to_a_provider_that_is_not_usable() -> None:
    for world in worlds():
        choice = world.choose()
        if choice.provider and choice.provider != BUILTIN:
            assert world.providers[choice.provider].usable, world


def test_the_builtin_summarizer_never_extracts_and_folding_is_never_skipped() -> None:
    for world in worlds():
        choice = world.choose()
        assert not (world.kind is EXTRACT and choice.provider == BUILTIN), world
        assert not (world.kind is FOLD and choice.action is Action.SKIP), world


def test_a_notice_goes_with_a_decision_and_names_two_different_places() -> None:
    for world in worlds():
        choice = world.choose()
        assert choice.notice is None or choice.action is not Action.WAIT, world
        assert (choice.notice is None) == (not choice.from_provider) == (not choice.to_provider), world
        assert choice.notice is None or choice.from_provider != choice.to_provider, world
        assert choice.notice is None or choice.action is Action.SKIP or choice.to_provider == choice.provider


CHANGE, UNKNOWN = NoticeKind.PROVIDER_CHANGE, NoticeKind.UNKNOWN_PROVIDER


@pytest.mark.parametrize(
    ("latest", "served_by", "fallback", "own_up", "kind", "expected"),
    [
        # The runs' own provider: nothing to tell.
        ("cloud", {"cloud"}, "up", True, FOLD, None),
        ("local", {"local"}, "none", True, EXTRACT, None),
        ("local", {"", "local"}, "none", True, FOLD, None),
        ("local", set(), "none", True, FOLD, None),
        # It is down: to the fallback, or after the hour to the builtin summarizer.
        ("cloud", {"cloud"}, "up", False, FOLD, (CHANGE, "cloud", "fallback")),
        ("cloud", {"cloud"}, "up", False, EXTRACT, (CHANGE, "cloud", "fallback")),
        ("cloud", {"cloud"}, "none", False, FOLD, (CHANGE, "cloud", BUILTIN)),
        ("cloud", {"cloud"}, "none", False, EXTRACT, None),
        # The thread went from one provider to another.
        ("cloud", {"local"}, "up", True, FOLD, (CHANGE, "local", "fallback")),
        ("cloud", {"cloud", "local"}, "up", True, FOLD, (CHANGE, "cloud", "fallback")),
        ("cloud", {"cloud", "local"}, "none", True, FOLD, (CHANGE, "cloud", BUILTIN)),
        ("cloud", {"cloud2", "local"}, "none", True, FOLD, (CHANGE, "cloud2", BUILTIN)),
        ("cloud", {"cloud", "local"}, "none", True, EXTRACT, None),
        ("local", {"cloud", "local"}, "none", True, FOLD, (CHANGE, "cloud", "local")),
        # Back to whom the runs came from.
        ("cloud", {"fallback"}, "up", True, FOLD, None),
        ("cloud", {"", "fallback"}, "up", True, FOLD, None),
        # Runs that name nobody count as the latest run's.
        ("cloud", {""}, "up", True, FOLD, (CHANGE, "cloud", "fallback")),
        ("cloud", {""}, "none", True, FOLD, (CHANGE, "cloud", BUILTIN)),
        # A name that nobody configured is told in the same words by folding and by extraction.
        ("gone", {"gone"}, "up", False, FOLD, (UNKNOWN, "gone", "fallback")),
        ("gone", {"gone"}, "up", False, EXTRACT, (UNKNOWN, "gone", "fallback")),
        ("gone", {"gone"}, "none", False, FOLD, (UNKNOWN, "gone", BUILTIN)),
        ("gone", {"gone"}, "none", False, EXTRACT, (UNKNOWN, "gone", BUILTIN)),
        ("gone", {"local"}, "none", False, FOLD, (UNKNOWN, "gone", BUILTIN)),
        # No name at all: as unknown, without a notice.
        ("", {""}, "up", False, FOLD, None),
        ("", {""}, "none", False, FOLD, None),
        ("", {""}, "none", False, EXTRACT, None),
        ("", {"cloud"}, "up", False, FOLD, None),
    ],
)
def test_a_change_of_provider_is_told(
    *,
    latest: str,
    served_by: set[str],
    fallback: str,
    own_up: bool,
    kind: OpKind,
    expected: tuple[NoticeKind, str, str] | None,
) -> None:
    choice = World(kind, latest, frozenset(served_by), own_up, fallback, overdue=True).choose()
    told = (choice.notice, choice.from_provider, choice.to_provider) if choice.notice else None
    assert told == expected


def test_a_fallback_that_is_not_local_is_no_fallback() -> None:
    providers = {
        "cloud": ProviderFacts("cloud", False, False, "down"),
        "cloud2": ProviderFacts("cloud2", False, True),
    }
    work = Work(FOLD, frozenset({"cloud"}), "cloud")
    assert choose(work, providers, "cloud2") == Choice(Action.WAIT, reason="down")
    assert choose(Work(FOLD, frozenset(), "gone"), providers, "cloud2").provider == BUILTIN
    assert choose(work, providers, "misspelt") == Choice(Action.WAIT, reason="down")


def test_without_any_provider_the_builtin_summarizer_folds() -> None:
    assert choose(Work(FOLD, frozenset({""}), ""), {}) == Choice(Action.USE, BUILTIN)
    assert choose(Work(EXTRACT, frozenset({""}), ""), {}) == Choice(Action.SKIP, reason=NO_PROVIDER)


@pytest.mark.parametrize(
    ("local", "served_by", "expected"),
    [
        (True, {"x", "y", ""}, True),
        (True, set(), True),
        (False, {"p"}, True),
        (False, set(), True),
        (False, {"p", "x"}, False),
        (False, {"x"}, False),
        (False, {"p", ""}, False),
    ],
)
def test_a_cloud_may_receive_what_it_served_and_a_local_one_everything(
    local: bool, served_by: set[str], expected: bool
) -> None:
    assert may_receive(ProviderFacts("p", local, True), served_by) is expected
