"""The stubs of the contract are what `make proto` makes of it: generated, committed, and never edited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {".py", ".pyi"}


def test_the_committed_stubs_are_those_of_the_contract(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "proto" / "generate.py", tmp_path], check=True)
    fresh, committed = stubs(tmp_path / "memsvc" / "v1"), stubs(ROOT / "memsvc" / "v1")
    assert fresh, "proto/generate.py made nothing"
    assert sorted(fresh) == sorted(committed), "run `make proto`"
    assert [name for name, text in fresh.items() if text != committed[name]] == [], "run `make proto`"


def stubs(folder: Path) -> dict[str, str]:
    """The generated files of a folder by name; its `__init__.py` is nobody's stub."""
    files = (path for path in folder.iterdir() if path.suffix in GENERATED and path.name != "__init__.py")
    return {path.name: path.read_text("utf-8") for path in files}
