"""`python -m tests.eval [parts…]`: measures what needs data to measure, and fails where a target is missed.

Exit status 0 when all targets are met, 1 when one is missed, 2 when there is nothing to measure on.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from tests.eval.common import DataMissingError, data_folder

PARTS = {
    "boundary": "tests.eval.boundary",
    "recall": "tests.eval.recall",
    "redline": "tests.eval.redline",
}
"""Each module has a `run(data: Path) -> bool` that prints its tables and says whether its targets are met."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the parts named (all when none is) and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.eval", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"any of {', '.join(PARTS)} (default: all)")
    names = parser.parse_args(arguments).parts or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    try:
        data = data_folder()
        missed = [name for name in names if not importlib.import_module(PARTS[name]).run(data)]
    except DataMissingError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
