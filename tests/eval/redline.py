"""The red lines: what must be blocked is, what only looks like it is not. Ambiguous rows are counted, not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memsvc.rules import redline
from tests.eval.common import print_table, read_rows, share, verdict

_NUMBERS = frozenset({"cn_id", "cn_id_evasion", "cn_phone", "us_phone", "bank_card", "credit_card"})


def _is_score(row: dict[str, Any]) -> bool:
    return str(row["category"]).split(":")[0] in {"score", "gpa"}


def _is_health(row: dict[str, Any]) -> bool:
    return row["category"] in {"health", "medication", "mental_health"}


# A target: its name, whether its rows are those to block or those to pass, the share to reach or keep, its rows.
_TARGETS: tuple[tuple[str, bool, float, Callable[[dict[str, Any]], bool]], ...] = (
    ("IDs, cards, phones", True, 1.0, lambda row: row["category"] in _NUMBERS),
    ("scores", True, 0.97, _is_score),
    ("health zh", True, 0.95, lambda row: _is_health(row) and row["lang"] == "zh"),
    ("health en", True, 0.80, lambda row: _is_health(row) and row["lang"] == "en"),
    ("false blocks", False, 0.03, lambda row: True),
    ("false blocks on exams", False, 0.0, lambda row: str(row["category"]).startswith("exam")),
)


def run(data: Path) -> bool:
    """Prints the share blocked of every category and of every target; says whether all targets are met."""
    rows = list(read_rows(data / "redline_dev.jsonl"))
    blocked = {row["id"]: bool(redline.find(row["text"])) for row in rows}
    _print_categories(rows, blocked)
    table = []
    all_met = True
    for name, must_block, limit, belongs in _TARGETS:
        label = "block" if must_block else "pass"
        chosen = [row for row in rows if row["label"] == label and belongs(row)]
        hits = sum(blocked[row["id"]] for row in chosen)
        reached = hits / len(chosen) if chosen else float("nan")
        met = reached >= limit if must_block else reached <= limit
        all_met = all_met and met
        table.append((name, share(hits, len(chosen)), f"{'≥' if must_block else '≤'} {limit:.0%}", verdict(met)))
    print_table("red lines: targets", ("rows", "blocked", "target", ""), table)
    return all_met


def _print_categories(rows: list[dict[str, Any]], blocked: dict[str, bool]) -> None:
    totals: Counter[tuple[str, str, str]] = Counter()
    hits: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        key = (row["label"], row["lang"], row["category"])
        totals[key] += 1
        hits[key] += blocked[row["id"]]
    table = [(" ".join(key), share(hits[key], totals[key])) for key in sorted(totals)]
    print_table("red lines: share blocked by label, language and category", ("rows", "blocked"), table)
