"""Imports point down. What each room of the daemon may know is one table; who alone may know a library is another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "memsvc"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "log", "v1"),
    ("model", "config", "files", "tokens", "worker"),
    ("auth", "rules", "tls"),
    ("llm", "store"),
    ("metrics", "retention"),
    ("modelwork", "touches"),
    ("extract",),
    ("exchange", "jobs", "memory"),
    ("status",),
    ("rpc",),
    ("server",),
    ("app", "healthcheck", "remote", "upkeep"),
    ("transfer",),
    ("__main__",),
)
"""A room (a module, or a folder with all that is in it) knows itself and the rooms of earlier layers, none beside it:
the request path (`memory`) and the background (`jobs`) do not know each other, and the store knows no model."""

CONSOLE = PACKAGE.parent / "clients" / "console" / "memsvc_console"

CONSOLE_LAYERS: tuple[tuple[str, ...], ...] = (
    ("texts", "scopes", "passwords", "sessions", "takeback", "block", "charts", "curve", "chat_settings"),
    ("i18n", "settings", "agent"),
    ("problems", "times", "security", "daemon", "figures"),
    ("inspection", "spending"),
    ("view",),
    ("pages",),
    ("app",),
    ("__main__",),
)
"""The same for the console, which of memsvc knows the generated messages alone."""

ALONE: dict[str, set[str]] = {
    "sqlite3": {"store/sqlite"},
    "aiosqlite": {"store/sqlite"},
    "grpc": {"rpc", "server.py", "healthcheck.py", "remote.py"},
    "grpc_health": {"server.py", "healthcheck.py"},
    "ssl": {"tls.py", "healthcheck.py"},
    "grpc_reflection": {"server.py"},
    "tiktoken": {"tokens.py"},
    "openai": {"llm.py"},
    "httpx2": {"llm.py"},
    "prometheus_client": {"metrics.py"},
    "pydantic": {"config.py"},
}
"""Which places alone import a library: whoever wants to replace it reads those and no more."""

RULES_MAY_IMPORT = {
    *(
        "__future__",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "dataclasses",
        "datetime",
        "enum",
        "functools",
        "hashlib",
        "heapq",
    ),
    *(
        "hmac",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "types",
        "typing",
        "unicodedata",
        "zlib",
        "zoneinfo",
    ),
    *("phonenumbers", "regex", "snowballstemmer", "stdnum"),
}
"""What a pure rule can use: nothing here waits, reads a clock of its own accord, opens anything or throws dice."""

IMPURE_CALLS = {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}

WITHOUT_A_SCOPE = {
    "close",
    "due_threads",
    "day_tokens",
    "backlog",
    "scopes",
    "list_scopes",
    "erasure_owed",
    "look_at_clock",
}
"""What the store does for the whole daemon. Every other method takes the scope first, and sees no other."""

SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|PRAGMA|BEGIN|COMMIT|WITH)\s[\s\S]*\S")

BROAD = {"Exception", "BaseException"}


def test_imports_point_down() -> None:
    rank = {room: layer for layer, rooms in enumerate(LAYERS) for room in rooms}
    for path in modules():
        here = room_of(path)
        for name in imported(path):
            if name.startswith("memsvc."):
                there = name.split(".")[1]
                assert {here, there} <= rank.keys(), f"{place(path)} imports {name}: give both a layer"
                assert there == here or rank[there] < rank[here], f"{place(path)} must not know memsvc.{there}"


def test_the_daemon_does_not_know_its_clients() -> None:
    for path in modules():
        assert not any(name.split(".")[0] == "memsvc_client" for name in imported(path)), place(path)


def test_the_console_is_a_client_of_the_contract_and_its_imports_point_down() -> None:
    rank = {room: layer for layer, rooms in enumerate(CONSOLE_LAYERS) for room in rooms}
    for path in sorted(CONSOLE.rglob("*.py")):
        here = path.relative_to(CONSOLE).parts[0].removesuffix(".py")
        for name in imported(path):
            top, *rest = name.split(".")
            if top == "memsvc":
                assert rest[:1] == ["v1"], f"{path.name} imports {name}: the console knows the contract alone"
            elif top == "memsvc_console" and rest and here != "__init__":
                assert {here, rest[0]} <= rank.keys(), f"{path.name} imports {name}: give both a layer"
                assert rest[0] == here or rank[rest[0]] < rank[here], f"{path.name} must not know {name}"


def test_each_library_is_known_in_its_place_alone() -> None:
    for path in modules():
        for name in imported(path):
            rooms = ALONE.get(name.split(".")[0])
            assert rooms is None or is_in(path, rooms), f"{place(path)} must not import {name}"


def test_sql_stands_in_the_store_alone() -> None:
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.fullmatch(node.value):
                assert is_in(path, {"store/sqlite"}), f"{place(path)}:{node.lineno} speaks SQL"


def test_the_store_takes_the_scope_first() -> None:
    (protocol,) = (
        node
        for node in tree(PACKAGE / "store" / "__init__.py").body
        if isinstance(node, ast.ClassDef) and node.name == "Store"
    )
    methods = {node.name: node.args.args for node in protocol.body if isinstance(node, ast.AsyncFunctionDef)}
    without = {name for name, args in methods.items() if [arg.arg for arg in args[1:2]] != ["scope"]}
    assert without <= WITHOUT_A_SCOPE
    assert len(methods) > len(without)


def test_rules_are_pure() -> None:
    seen = 0
    for path in (PACKAGE / "rules").rglob("*.py"):
        seen += 1
        for name in imported(path):
            top, *rest = name.split(".")
            known = rest[:1] and rest[0] in {"model", "errors", "rules"} if top == "memsvc" else top in RULES_MAY_IMPORT
            assert known, f"{place(path)} must not import {name}"
        for node in ast.walk(tree(path)):
            assert not isinstance(node, ast.Await | ast.AsyncFunctionDef), f"{place(path)}:{node.lineno} waits"
            if isinstance(node, ast.Call):
                name = ".".join(ast.unparse(node.func).split(".")[-2:])
                assert name not in IMPURE_CALLS, f"{place(path)}:{node.lineno} is not pure: {name}()"
    assert seen > 1


def test_the_broad_excepts_are_the_interceptor_and_the_workers_loop() -> None:
    found = [
        place(path) for path in modules() for node in ast.walk(tree(path)) if is_broad(node) and not raises_again(node)
    ]
    assert found == ["rpc/guard.py", "worker.py"]


def modules() -> Iterator[Path]:
    """Every module of the daemon that a person wrote."""
    return (path for path in sorted(PACKAGE.rglob("*.py")) if room_of(path) != "v1" and path != PACKAGE / "__init__.py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Names of the modules that a module imports, at its head or later, for good or for types."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports by dots; say the whole name"
            if node.module == "memsvc":
                yield from (f"memsvc.{alias.name}" for alias in node.names)
            elif node.module:
                yield node.module


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def is_in(path: Path, rooms: set[str]) -> bool:
    return any(place(path) == room or place(path).startswith(room + "/") for room in rooms)


def is_broad(node: ast.AST) -> bool:
    """An `except` that catches what nobody has thought of."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    return node.type is None or any(isinstance(n, ast.Name) and n.id in BROAD for n in ast.walk(node.type))


def raises_again(node: ast.AST) -> bool:
    """Whether a handler ends by raising what it caught: it tidies up, and swallows nothing."""
    assert isinstance(node, ast.ExceptHandler)
    last = node.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None
