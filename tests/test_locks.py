"""What is installed is what was read: every pin of the locks stands in constraints.txt, and each has its hashes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = [ROOT / "locks" / name for name in ("build.txt", "run.txt", "dev.txt")]
PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;]+)", re.M)


def pins(path: Path) -> set[tuple[str, str]]:
    """Names, spelled as indexes compare them, and versions."""
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in PIN.findall(path.read_text("utf-8"))}


def test_the_locks_pin_what_constraints_name_and_nothing_else() -> None:
    assert set().union(*(pins(lock) for lock in LOCKS)) == pins(ROOT / "constraints.txt")


def test_every_pin_has_hashes_and_no_lock_an_address() -> None:
    for lock in LOCKS:
        text = lock.read_text("utf-8")
        entries = text.replace("\\\n", " ").splitlines()
        assert entries
        assert all(re.fullmatch(r"\S+==\S+.*?( +--hash=sha256:[0-9a-f]{64})+", entry) for entry in entries)
        assert "://" not in text
