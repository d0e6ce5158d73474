"""What every part of the evaluation needs: the data's place, its rows, a fair interval, a table to read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DATA_VARIABLE = "MEMSVC_EVAL_DATA"
_BESIDE_CHECKOUT = Path(__file__).resolve().parents[2].parent / "shared" / "data"


class DataMissingError(Exception):
    """The evaluation data, or a file of it, is not where it should be."""


def data_folder() -> Path:
    """Returns the evaluation data's folder: `MEMSVC_EVAL_DATA`, else `../shared/data` from the checkout."""
    folder = Path(os.environ.get(DATA_VARIABLE) or _BESIDE_CHECKOUT)
    if not folder.is_dir():
        raise DataMissingError(f"no evaluation data in {folder}: set {DATA_VARIABLE} to its folder")
    return folder


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the objects of a JSON Lines file."""
    if not path.is_file():
        raise DataMissingError(f"evaluation data lacks {path}: set {DATA_VARIABLE} to its folder")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def wilson(hits: float, total: int) -> tuple[float, float]:
    """Returns the 95% interval of a share by Wilson's score; of nothing at all, everything from 0 to 1."""
    if not total:
        return 0.0, 1.0
    z, share = 1.959964, hits / total
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def share(hits: float, total: int) -> str:
    """Returns a share with its count and interval, `97.5% (39/40, 87.1 to 99.6)`."""
    if not total:
        return "none to measure"
    low, high = wilson(hits, total)
    return f"{hits / total:.1%} ({hits:g}/{total}, {low * 100:.1f} to {high * 100:.1f})"


def verdict(met: bool) -> str:
    """Returns the word for a target that was met or missed."""
    return "met" if met else "MISSED"


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints rows in aligned columns, the first to the left and the others to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for i, row in enumerate(cells):
        left, *others = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([left, *others]).rstrip())
        if i == 0:
            print("  ".join("-" * width for width in widths))
