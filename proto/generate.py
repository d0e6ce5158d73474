"""Generates the Python stubs of the contract: `python proto/generate.py DIR` writes DIR/memsvc/v1/*.

The one way the committed stubs are made; a test runs it into an empty folder and compares.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent


def generate(target: Path) -> None:
    """Writes messages, services and their type stubs below `target`; raises SystemExit where protoc does."""
    plugins = Path(sys.executable).parent
    messages = sorted(str(p.relative_to(HERE)) for p in HERE.rglob("*.proto"))
    services = [name for name in messages if name.endswith("_service.proto")]
    common = [
        f"-I{HERE}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
    ]
    calls = [
        [f"--python_out={target}", f"--mypy_out=quiet:{target}", *messages],
        [f"--grpc_python_out={target}", f"--mypy_grpc_out=quiet:{target}", *services],
    ]
    for arguments in calls:
        if code := protoc.main(["protoc", *common, *arguments]):
            raise SystemExit(code)


if __name__ == "__main__":
    generate(Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent))
