"""The commands about what is known of a user, run as a person runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memsvc.__main__ import main
from memsvc.errors import ImportInvalid
from memsvc.model import Candidate, Fact, Scope
from memsvc.rules import corefile
from memsvc.rules.facts import MAX_FACTS
from memsvc.store import ImportedFact
from memsvc.v1 import memory_pb2 as pb
from tests.conftest import Running
from tests.review import BLACK, GRADE, Review
from tests.talk import Talk

SCOPE = ("--tenant", "school-7", "--agent", "exam", "--user", "wang")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command on a database of the test's own; returns exit status, output and complaint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMSVC_DATABASE", str(tmp_path / "memsvc.db"))

    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return command


def written(tmp_path: Path, content: object) -> str:
    path = tmp_path / "core_memory.json"
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return str(path)


FILE = {
    "facts": [
        {"fact": BLACK, "fact_id": "f_black", "confirmed_by": "console/li", "created_at": "2026-01-02T03:04:05Z"},
        GRADE,
        {"text": "用户的身份证号是11010519491231002X"},
        {"fact": "两\n行"},
    ],
    "candidates": [
        {"fact": "用户偏好短的答案", "confidence": 0.8, "source_run": "run-7", "created_at": 1_700_000_000, "new": []},
        {"fact": "用户教高三数学", "confidence": "low", "supersedes": "f_black"},
        {"fact": "用户的女儿数学考了95分", "confidence": 1},
    ],
    "a field of the future": {"x": 1},
}


def test_a_file_comes_in_once_and_goes_out_as_it_is(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, FILE)
    assert run("import-core", *SCOPE, path) == (
        0,
        "imported 2 facts and 2 candidates; 2 were refused by a red line; 1 were refused as no text of a fact\n",
        "",
    )
    code, told, _ = run("import-core", *SCOPE, path)
    assert (code, told.split(";")[:2]) == (
        0,
        ["imported 0 facts and 0 candidates", " 4 were there, or had been decided upon"],
    )
    code, out, _ = run("export-core", *SCOPE)
    first = json.loads(out)
    assert [(f["fact"], f["confirmed_by"]) for f in first["facts"]] == [(BLACK, "console/li"), (GRADE, "import-core")]
    assert first["facts"][0]["fact_id"] == "f_black"
    assert first["facts"][0]["created_at"] == "2026-01-02T03:04:05.000000+00:00"
    assert [(c["fact"], c["confidence"], c["supersedes"]) for c in first["candidates"]] == [
        ("用户偏好短的答案", 0.8, None),
        ("用户教高三数学", 0.3, "f_black"),
    ]
    assert "11010519491231002X" not in out
    assert run("export-core", "--tenant", "school-7", "--agent", "exam")[1] != out


def test_an_export_brings_the_same_to_another_daemon(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("import-core", *SCOPE, written(tmp_path, FILE))
    assert run("export-core", *SCOPE, "out.json") == (0, "", "")
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("MEMSVC_DATABASE", str(tmp_path / "other.db"))
    assert run("import-core", *SCOPE, "out.json")[1] == "imported 2 facts and 2 candidates\n"
    assert json.loads(run("export-core", *SCOPE)[1]) == json.loads((tmp_path / "out.json").read_text("utf-8"))


def test_more_than_thirty_facts_find_no_room(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, {"facts": [f"用户的第{n}条习惯" for n in range(MAX_FACTS + 3)]})
    assert run("import-core", *SCOPE, path)[1] == "imported 30 facts and 0 candidates; 3 found no room\n"


def test_an_id_that_is_taken_is_not_taken_twice(run: Run, tmp_path: Path) -> None:
    run("import-core", *SCOPE, written(tmp_path, {"facts": [{"fact": BLACK, "fact_id": "f_1"}]}))
    run("import-core", *SCOPE, written(tmp_path, {"facts": [{"fact": GRADE, "fact_id": "f_1"}]}))
    ids = [fact["fact_id"] for fact in json.loads(run("export-core", *SCOPE)[1])["facts"]]
    assert len(set(ids)) == 2
    assert "f_1" in ids


def test_the_log_says_who_changed_what(run: Run, tmp_path: Path) -> None:
    run("import-core", *SCOPE, written(tmp_path, {"facts": [{"fact": BLACK, "fact_id": "f_1"}]}))
    before = sorted(tmp_path.iterdir())
    code, out, err = run("core", "log", *SCOPE)
    assert (code, err) == (0, "")
    when, rest = out.split("  ", 1)
    assert len(when) == len("2026-01-02T03:04:05+00:00")
    assert rest == f"import-core  imported  f_1  {BLACK}\n"
    assert run("core", "log", "--tenant", "other", "--agent", "exam") == (0, "", "")
    assert sorted(tmp_path.iterdir()) == before


async def test_beside_a_daemon_the_log_is_read_and_the_file_is_not(
    running: Running, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    await Review(running, scope).create(BLACK)
    options = ("--tenant", scope.tenant_id, "--agent", scope.agent_id, "--user", scope.user_id)
    assert run("core", "log", *options)[1].endswith(f"{BLACK}\n")
    code, out, err = await asyncio.to_thread(run, "export-core", *options)
    assert (code, out) == (75, "")
    assert err.endswith("memsvc.db is in use by another memsvc; stop that one, or set MEMSVC_DATABASE\n")


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (("import-core", *SCOPE, "nowhere.json"), 1, "memsvc: FILE: nowhere.json cannot be read"),
        (("import-core", *SCOPE, "bad.json"), 1, "memsvc: line 2: is not JSON; nothing was imported"),
        (("export-core", *SCOPE), 78, "memsvc: MEMSVC_DATABASE: there is no database at"),
        (("core", "log", *SCOPE), 78, "memsvc: MEMSVC_DATABASE: there is no database at"),
    ],
)
def test_what_goes_wrong_is_one_line(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], status: int, complaint: str
) -> None:
    (tmp_path / "bad.json").write_text('{"facts":\n', "utf-8")
    code, out, err = run(*arguments)
    assert (code, out) == (status, "")
    assert err.startswith(complaint)
    assert err.count("\n") == 1
    assert not (tmp_path / "memsvc.db").exists()


def test_a_scope_is_named_as_in_a_call(run: Run) -> None:
    with pytest.raises(SystemExit) as raised:
        run("core", "log", "--tenant", "two words", "--agent", "exam")
    assert raised.value.code == 2


# -- the file


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe{",
        b'{"facts": [}',
        b"[" * 100_000,
        b'{"facts": []}' + b" " * (4 << 20),
    ],
)
def test_what_is_no_core_file_is_refused_whole(data: bytes) -> None:
    with pytest.raises(ImportInvalid):
        corefile.read(data)


@pytest.mark.parametrize(
    "entry",
    [
        1,
        None,
        [],
        {},
        {"fact": None},
        {"fact": ["x"]},
        {"fact": ""},
        {"fact": "half \ud83d"},
    ],
)
def test_an_entry_without_a_text_is_counted(entry: object) -> None:
    data = json.dumps({"facts": [entry], "candidates": [entry]}).encode()
    assert corefile.read(data) == corefile.CoreFile([], [], {"FORM": 2})


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"created_at": "2026-01-02T03:04:05+08:00"}, {"created_us": 1_767_294_245_000_000}),
        ({"created_at": "2026-01-02"}, {"created_us": 1_767_312_000_000_000}),
        ({"created_at": 1e300}, {"created_us": 253_402_300_799_000_000}),
        ({"created_at": "yesterday"}, {"created_us": 0}),
        ({"created_at": {}}, {"created_us": 0}),
        ({"source_run": "r1"}, {"source_run_ids": ("r1",)}),
        ({"source_runs": ["r1", 2, "\ud83d", "r2"]}, {"source_run_ids": ("r1", "r2")}),
        ({"served_by": ["qwen"]}, {"served_by": frozenset({"qwen"})}),
        ({"served_by": []}, {"served_by": frozenset()}),
        ({"served_by": [None]}, {"served_by": frozenset({""})}),
        ({"served_by": "qwen"}, {"served_by": frozenset({""})}),
        ({"confirmed_by": "li\n"}, {"confirmed_by": ""}),
        ({"confidence": 10**400}, {"confidence": 1.0}),
        ({"confidence": True}, {"confidence": 0.5}),
        ({"supersedes": 3}, {"supersedes_fact_id": ""}),
    ],
)
def test_fields_are_read_as_far_as_they_make_sense(fields: dict[str, Any], read: dict[str, Any]) -> None:
    (entry,) = corefile.read(json.dumps({"candidates": [{"fact": BLACK, **fields}]}).encode()).candidates
    for name, value in read.items():
        assert getattr(entry, name) == value


def test_what_is_written_is_read_again() -> None:
    facts = [Fact("f_1", BLACK, ("r1", "r2"), "console/wang", 1_000_001, 2_000_002)]
    candidates = [Candidate("c_1", GRADE, 0.25, ("r3",), "f_1", 3_000_003)]
    origins = {"f_1": frozenset({"qwen"}), "c_1": frozenset[str]()}
    file = corefile.read(corefile.write(facts, candidates, origins))
    (fact,) = file.facts
    assert (fact.text, fact.named_id, fact.source_run_ids, fact.served_by) == (
        BLACK,
        "f_1",
        ("r1", "r2"),
        frozenset({"qwen"}),
    )
    assert (fact.confirmed_by, fact.created_us, fact.last_used_us) == ("console/wang", 1_000_001, 2_000_002)
    (candidate,) = file.candidates
    assert (candidate.text, candidate.confidence, candidate.supersedes_fact_id) == (GRADE, 0.25, "f_1")
    assert (candidate.source_run_ids, candidate.served_by, candidate.created_us) == (("r3",), frozenset(), 3_000_003)


async def test_runs_of_a_file_are_sources_where_the_scope_has_them(running: Running, scope: pb.Scope) -> None:
    talk, review = Talk(running, scope), Review(running, scope)
    kept, gone = await talk.record("一"), await talk.record("二")
    await talk.delete_run(gone)
    await review.delete((await review.create(GRADE)).fact.fact_id)
    proposals = {"用户偏好白纸": [gone], "用户偏好黄纸": [gone, kept], "用户偏好红纸": ["elsewhere"], GRADE: []}
    added = await running.daemon.store.import_core(
        Scope(scope.tenant_id, scope.agent_id, scope.user_id),
        [imported(0, BLACK, [kept, gone])],
        [imported(n, text, run_ids) for n, (text, run_ids) in enumerate(proposals.items(), 1)],
        "import-core",
        2_000_000,
    )
    assert (added.facts, added.candidates) == (1, 2)
    assert [list(fact.source_run_ids) for fact in await review.facts()] == [[kept]]
    # What a deleted run said, and what a person deleted, does not come back as a candidate.
    listed = {candidate.text: list(candidate.source_run_ids) for candidate in await review.candidates()}
    assert listed == {"用户偏好黄纸": [kept], "用户偏好红纸": []}


def imported(number: int, text: str, run_ids: list[str]) -> ImportedFact:
    """A fact or candidate as the command hands it to the store."""
    return ImportedFact(f"x_{number}", text, run_ids, frozenset({""}), 1_000_000, confidence=0.5)
