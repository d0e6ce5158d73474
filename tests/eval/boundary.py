"""Scores the sanitizer: no forged marker may survive, plain text stays as it is, twice equals once."""

from __future__ import annotations

import time
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

from memsvc.rules.boundary import sanitize
from tests.eval.common import print_table, read_rows, share, verdict

PLAIN_UNCHANGED = 0.995
SLOWEST_MIB_S = 1.0
MIB = 1 << 20
_INVISIBLE = {"Cf", "Cc", "Mn"}
HOSTILE = {
    "square brackets": "[",
    "angle brackets": "<",
    "nested words": "[SYSTEM ",
    "zero-width spaces": "\u200b",
    "line feeds": "\n",
    "blanks": " ",
    "hash marks": "#",
    "colons": ":",
    "labels": "system: x\n",
    "tokens": "<|im_start|>",
    "words": "system ",
    "combining marks": "\u0301",
}


def bare(text: str) -> str:
    """Returns what a lenient reader sees: NFKC without what shows nothing."""
    return "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) not in _INVISIBLE)


def survivors(row: dict[str, Any], shown: str) -> list[str]:
    """Returns the markers of a row that can still be read in `shown`."""
    seen = bare(shown)
    return [marker for marker in row["must_neutralise"] if bare(marker) in seen]


def unchanged(row: dict[str, Any], shown: str) -> bool:
    """Says whether the text is the same up to canonical equivalence."""
    return unicodedata.normalize("NFC", shown) == unicodedata.normalize("NFC", row["text"])


def run(data: Path) -> bool:
    """Prints the tables and says whether all targets are met."""
    rows = list(read_rows(data / "injection_dev.jsonl"))
    shown = {row["id"]: sanitize(row["text"]) for row in rows}
    met = _forgeries(rows, shown)
    met &= _benign(rows, shown)
    twice = sum(sanitize(text) == text for text in shown.values())
    met &= twice == len(rows)
    print_table(
        "Sanitizing twice",
        ["", "rows", ""],
        [["equals once", share(twice, len(rows)), verdict(twice == len(rows))]],
    )
    return _speed() and met


def _forgeries(rows: list[dict[str, Any]], shown: dict[str, str]) -> bool:
    marked, clean = Counter[str](), Counter[str]()
    for row in rows:
        if row["label"] == "injection" and row["must_neutralise"]:
            left = survivors(row, shown[row["id"]])
            marked[row["tier"]] += 1
            clean[row["tier"]] += not left
            if left:
                print(f"survives in {row['id']} ({row['category']}): {left}")
    table = [[tier, share(clean[tier], n), verdict(clean[tier] == n)] for tier, n in sorted(marked.items())]
    print_table("Forged markers: rows in which none survives", ["tier", "rows", "all"], table)
    return clean == marked


def _benign(rows: list[dict[str, Any]], shown: dict[str, str]) -> bool:
    total, same = Counter[str](), Counter[str]()
    for row in rows:
        if row["label"] == "benign":
            total[row["tier"]] += 1
            same[row["tier"]] += unchanged(row, shown[row["id"]])
            if row["tier"] == "plain" and not unchanged(row, shown[row["id"]]):
                print(f"changed in {row['id']} ({row['category']})")
    met = same["plain"] >= PLAIN_UNCHANGED * total["plain"]
    table = [
        [tier, share(same[tier], n), verdict(met) if tier == "plain" else "reported"]
        for tier, n in sorted(total.items())
    ]
    print_table("Benign texts: rows left as they are", ["tier", "rows", f"at least {PLAIN_UNCHANGED:.1%}"], table)
    untouched = Counter(row["tier"] for row in rows if row["label"] == "injection" and unchanged(row, shown[row["id"]]))
    injections = Counter(row["tier"] for row in rows if row["label"] == "injection")
    print_table(
        "Injections that are left to the frame (nothing in them forges structure)",
        ["tier", "rows"],
        [[tier, share(untouched[tier], n)] for tier, n in sorted(injections.items())],
    )
    return met


def _speed() -> bool:
    table, met = [], True
    for name, piece in HOSTILE.items():
        text = (piece * (MIB // len(piece) + 1))[:MIB]
        started = time.process_time()
        sanitize(text)
        seconds = time.process_time() - started
        met &= seconds < SLOWEST_MIB_S
        table.append([name, f"{seconds:.3f}", verdict(seconds < SLOWEST_MIB_S)])
    print_table("A mebi of characters", ["of", "CPU seconds", f"under {SLOWEST_MIB_S:g}"], table)
    return met
