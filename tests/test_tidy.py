"""What makes code pleasant to open: files and functions that fit the head, and a first line that says where one is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("memsvc", "clients", "tests", "proto")
GENERATED = ROOT / "memsvc" / "v1"

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
MAX_ARCHITECTURE_LINES = 120


def test_no_file_is_longer_than_one_reason_to_change_needs() -> None:
    assert [f"{place(p)}: {n}" for p in sources() if (n := len(lines(p))) > MAX_FILE_LINES and not is_table(p)] == []


def test_no_function_is_longer_than_a_screen() -> None:
    found = [
        f"{place(path)}:{node.lineno} {node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MAX_FUNCTION_LINES
    ]
    assert found == []


def test_every_module_says_what_it_is() -> None:
    silent = [place(p) for p in sources() if lines(p) and not ast.get_docstring(ast.parse(p.read_text("utf-8")))]
    assert silent == []


def test_the_map_fits_the_head() -> None:
    assert len(lines(ROOT / "ARCHITECTURE.md")) <= MAX_ARCHITECTURE_LINES


def sources() -> Iterator[Path]:
    """Every Python file that a person wrote."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if GENERATED not in path.parents and "node_modules" not in path.parts:
                yield path


def is_table(path: Path) -> bool:
    """A module of data alone, which is as long as its data: it defines no function and no class."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return not any(isinstance(node, kinds) for node in ast.walk(ast.parse(path.read_text("utf-8"))))


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()
