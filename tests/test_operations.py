"""What operators are told holds: each metric and each reason is explained, and nothing that is not there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from memsvc import errors, metrics
from memsvc.errors import MemsvcError, StartError

ROOT = Path(__file__).resolve().parents[1]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "memsvc.json").read_text("utf-8"))
ALERTS = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")
UNIT = (ROOT / "deploy" / "systemd" / "memsvc.service").read_text("utf-8")

E = TypeVar("E", bound=MemsvcError)

METRIC = re.compile(r"\b(?:memsvc|process)_[a-z_]+")
GENERATED = re.compile(r"_created$")
"""When a counter was made, which the library adds: of no use to anyone."""


def section(title: str) -> set[str]:
    """The names in the first column of the tables below a heading."""
    below = re.split(r"^## ", OPERATIONS.split(f"\n## {title}\n")[1], maxsplit=1, flags=re.M)[0]
    rows = [line.split(" | ")[0] for line in below.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def exposed() -> set[str]:
    """Every metric by the name that stands in the table: a histogram's own, a counter's with its ending."""
    names = set()
    for family in metrics.registry.collect():
        names.add(family.name + "_total" if family.type == "counter" else family.name)
    return {name for name in names if not GENERATED.search(name)}


def series() -> set[str]:
    """Every name that an expression may ask for."""
    histograms = {family.name for family in metrics.registry.collect() if family.type == "histogram"}
    return exposed() | {name + suffix for name in histograms for suffix in ("_bucket", "_sum", "_count")}


def tree(kind: type[E]) -> Iterator[type[E]]:
    """The errors of ours below one."""
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from tree(child)


def background_reasons() -> set[str]:
    """Reasons of model calls and jobs, as they stand in the modules that give them."""
    places = [*(ROOT / "memsvc").glob("*.py"), *(ROOT / "memsvc" / "rules").glob("*.py")]
    words = r'"((?:PROVIDER|SUMMARY|EXTRACTION)_[A-Z_]+|NO_PROVIDER|ALLOWANCE_SPENT)[{"]'
    found = {name for path in places for name in re.findall(words, path.read_text("utf-8"))}
    return {name + "…" if name.endswith("_") else name for name in found - {"PROVIDER_CHANGE"}}  # a kind of notice


def test_every_metric_is_explained_and_every_explained_one_is_there() -> None:
    assert section("Metrics") == exposed()


def test_every_reason_is_explained_and_every_explained_one_is_there() -> None:
    starts = {kind.reason for kind in tree(StartError)}
    told = {MemsvcError.reason, *(kind.reason for kind in tree(MemsvcError))} - starts
    assert section("Reasons") == told | background_reasons()
    assert len(background_reasons()) > 15
    assert section("When it does not start") == starts


def test_each_reason_of_a_start_is_told_with_its_exit_status() -> None:
    for kind in tree(StartError):
        assert f"| `{kind.reason}` | {kind.exit_status} |" in OPERATIONS


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() -> None:
    panels = DASHBOARD["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    for text in [*asked, *re.findall(r"expr: (.*)", ALERTS)]:
        assert set(METRIC.findall(text)) <= series(), text
    shown = {name for text in asked for name in METRIC.findall(text)}
    explained = {re.sub(r"_bucket$", "", name) for name in shown}
    assert {name for name in exposed() if name.startswith("memsvc_")} <= explained
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({tuple(panel["gridPos"].values())[:2] for panel in panels}) == len(panels)
    assert all(panel["description"] for panel in panels)


def test_the_service_is_not_started_again_where_only_a_person_can_help() -> None:
    given = re.search(r"^RestartPreventExitStatus=(.*)$", UNIT, re.M)
    assert given
    passing = {75}  # a lock or a port may be free in a moment
    assert {int(n) for n in given[1].split()} == {kind.exit_status for kind in tree(StartError)} - passing
