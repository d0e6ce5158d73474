"""Recall logs: a file of past runs comes in once, whole or not at all, is found by what it says, and goes out again."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.__main__ import main
from memsvc.errors import ImportInvalid
from memsvc.model import Scope
from memsvc.rules import exportfile, recallfile
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running, Start
from tests.talk import FAILED, Talk

Run = Callable[..., Awaitable[tuple[int, str, str]]]

ZH = {"ts": "2026-01-05T08:00:00+08:00", "input": "出一份数据结构试卷", "output": "好的，共十道简答题。", "tokens": 7}
EN = {"time": 1_767_600_000.25, "user": "Which printers stand in the library?", "assistant": "Two, both by the door."}
BROKEN = {"timestamp": 1_767_700_000_000, "question": "导出成绩单", "outcome": "FAILED", "error": "disk"}
HERE = Scope("school-7", "exam", "wang")
NOW_US = 1_800_000_000_000_000
DAEMON = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[")
NOTHING = "imported 0 threads, 0 runs, 0 facts and 0 candidates that were not there\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command on a scope of a daemon; returns exit status, output and complaint."""
    monkeypatch.chdir(tmp_path)

    async def command(name: str, running: Running, scope: pb.Scope, *arguments: str) -> tuple[int, str, str]:
        whose = ("--tenant", scope.tenant_id, "--agent", scope.agent_id, "--user", scope.user_id)
        capfdbinary.readouterr()
        code = await asyncio.to_thread(main, [name, *whose, "--address", running.daemon.address, *arguments])
        out, err = capfdbinary.readouterr()
        # The daemon is in the same process, and logs to the same output.
        told = [line for line in out.splitlines(keepends=True) if not DAEMON.match(line)]
        return code, b"".join(told).decode(), err.decode()

    return command


def log(*lines: Any) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


async def threads(running: Running, scope: pb.Scope) -> list[pb.Thread]:
    request = svc.ListThreadsRequest(scope=scope, include_archived=True)
    return list((await running.threads.ListThreads(request)).threads)


async def runs(running: Running, scope: pb.Scope) -> list[pb.Run]:
    found: list[pb.Run] = []
    for thread in await threads(running, scope):
        request = svc.ListRunsRequest(scope=scope, thread_id=thread.thread_id, page_size=200)
        found += (await running.threads.ListRuns(request)).runs
    return found


async def found(running: Running, scope: pb.Scope, query: str) -> list[str]:
    hits = (await running.recall.Search(svc.SearchRequest(scope=scope, query=query))).hits
    return [hit.run.input for hit in hits]


async def test_a_log_is_one_archived_thread_with_its_times_and_is_found(
    running: Running, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "old.jsonl").write_bytes(b"\xef\xbb\xbf" + log(ZH, EN) + b"\r\n" + log(BROKEN))
    code, out, err = await run("import-recall", running, scope, "old.jsonl")
    assert (code, out, err) == (0, NOTHING.replace("0 threads, 0 runs", "1 threads, 3 runs"), "")
    (thread,) = await threads(running, scope)
    assert (thread.title, thread.state, thread.run_count) == ("old.jsonl", pb.THREAD_STATE_ARCHIVED, 3)
    kept = {each.input: each for each in await runs(running, scope)}
    assert {(each.input, each.output, each.outcome) for each in kept.values()} == {
        (ZH["input"], ZH["output"], pb.RUN_OUTCOME_COMPLETED),
        (EN["user"], EN["assistant"], pb.RUN_OUTCOME_COMPLETED),
        (BROKEN["question"], "", pb.RUN_OUTCOME_FAILED),
    }
    assert [kept[str(said)].end_time.ToMilliseconds() for said in (ZH["input"], EN["user"], BROKEN["question"])] == [
        1_767_571_200_000,
        1_767_600_000_250,
        1_767_700_000_000,
    ]
    assert (await found(running, scope, "数据结构的试卷"))[:1] == [ZH["input"]]
    assert (await found(running, scope, "library printer"))[:1] == [EN["user"]]


async def test_a_log_comes_in_once_and_one_that_has_grown_brings_what_is_new(
    running: Running, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "recall_log.jsonl"
    path.write_bytes(log(ZH, EN, EN))
    assert "1 threads, 2 runs" in (await run("import-recall", running, scope, str(path)))[1]
    assert await run("import-recall", running, scope, str(path)) == (0, NOTHING, "")
    # The oldest lines fall out of such a log as new ones come in.
    path.write_bytes(log(EN, BROKEN))
    assert "0 threads, 1 runs" in (await run("import-recall", running, scope, str(path)))[1]
    (thread,) = await threads(running, scope)
    assert thread.run_count == 3
    # The same file elsewhere is a thread of its own there.
    other = pb.Scope(tenant_id=scope.tenant_id, agent_id="another")
    code, out, _ = await run("import-recall", running, other, str(path))
    assert (code, "1 threads, 2 runs" in out) == (0, True)


async def test_what_was_recorded_goes_out_and_is_found_in_another_daemon(
    start: Start, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    running = await start()
    (tmp_path / "old.jsonl").write_bytes(log(EN, BROKEN, ZH))
    talk = Talk(running, scope)
    await talk.turns("打印机在哪里换墨盒", provider="qwen", model="qwen-plus")
    await talk.record("not to be told", outcome=FAILED)
    await run("import-recall", running, scope, "old.jsonl")
    assert await run("export-recall", running, scope, "out.jsonl") == (0, "", "")
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600
    data = (tmp_path / "out.jsonl").read_bytes()
    # Oldest first, whenever it came in.
    told = [json.loads(line) for line in data.splitlines()]
    assert [line["input"] for line in told] == [ZH["input"], EN["user"], "打印机在哪里换墨盒"]
    assert told[0] == {"ts": "2026-01-05T00:00:00.000000+00:00", "input": ZH["input"], "output": ZH["output"]}
    assert (told[2]["provider"], told[2]["model"]) == ("qwen", "qwen-plus")
    assert (await run("export-recall", running, scope))[1].encode() == data

    other = await start(database=tmp_path / "other.db")
    assert "1 threads, 3 runs" in (await run("import-recall", other, scope, "out.jsonl"))[1]
    for query in ("数据结构试卷", "墨盒", "printers in the library"):
        assert await found(other, scope, query) == await found(running, scope, query) != []
    assert (await run("export-recall", other, scope))[1].encode() == data


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"ts": 1, "input"', "is not a line of JSON in UTF-8"),
        (b'{"ts": 1, "input": "\xff"}', "is not a line of JSON in UTF-8"),
        (b'["ts", "input"]', "is not an object"),
        (b'{"input": "x"}', "ts is missing"),
        (b'{"ts": null, "time": 1, "output": "x"}', "input is missing"),
        (b'{"ts": 1, "input": 7}', "input must be a string"),
        (b'{"ts": 1, "user": "\\ud800"}', "user holds half a character (a lone surrogate)"),
        (b'{"ts": 1, "input": "x", "answer": {}}', "answer must be a string"),
        (b'{"ts": 1, "input": "' + b"x" * (256 << 10) + b'x"}', "input is longer than 262144 bytes"),
        (b'{"ts": 1, "input": "' + b"x" * (8 << 20) + b'x"}', "is longer than 8388608 bytes"),
        (b'{"ts": "yesterday", "input": "x"}', "ts must be a time of ISO 8601"),
        (b'{"time": true, "input": "x"}', "time must be a time of ISO 8601"),
        (b'{"ts": 1e400, "input": "x"}', "ts must be a time of ISO 8601"),
        (b'{"ts": 1e15, "input": "x"}', "ts must be a time of ISO 8601"),
        (b'{"ts": -1e14, "input": "x"}', "ts must be a time of ISO 8601"),
        (b'{"ts": 1' + b"0" * 400 + b', "input": "x"}', "ts must be a time of ISO 8601"),
        (b'{"ts": "0001-01-01T00:00:00+14:00", "input": "x"}', "ts must be a time of ISO 8601"),
        (b'{"ts": 1, "input": "x", "outcome": "done"}', "outcome must be one of COMPLETED, FAILED, CANCELLED"),
    ],
)
def test_a_line_that_is_wrong_is_refused_by_its_number(bad: bytes, why: str) -> None:
    reader = recallfile.Reader(HERE, "recall_log.jsonl", NOW_US)
    reader.read(log(ZH))
    reader.read(b"\n")
    with pytest.raises(ImportInvalid) as raised:
        reader.read(bad)
    assert raised.value.message.startswith(f"line 3: {why}")


async def test_a_log_with_one_wrong_line_leaves_nothing(
    running: Running, scope: pb.Scope, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "bad.jsonl").write_bytes(log(ZH, EN, {"ts": 1}))
    code, out, err = await run("import-recall", running, scope, "bad.jsonl")
    assert (code, out) == (1, "")
    assert err == "memsvc: line 3: input is missing; each line of a recall log needs it; nothing was imported\n"
    assert await threads(running, scope) == []
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    assert await run("import-recall", running, scope, "empty.jsonl") == (0, NOTHING, "")
    assert await threads(running, scope) == []
    assert (await run("import-recall", running, scope, "nowhere.jsonl"))[0] == 1
    assert (await run("export-recall", running, scope, "nowhere/out.jsonl"))[0] == 1


def test_a_time_that_is_still_to_come_is_taken_for_now_and_stays_the_same_run() -> None:
    line = log({"ts": "9999-12-31T23:59:59Z", "input": "x"})
    first, second = (recallfile.Reader(HERE, "recall_log.jsonl", now_us) for now_us in (NOW_US, NOW_US + 1))
    one, two = (exportfile.decode(1, reader.read(line)) for reader in (first, second))
    assert isinstance(one, exportfile.RunLine)
    assert isinstance(two, exportfile.RunLine)
    assert (one.ended_us, two.ended_us) == (NOW_US, NOW_US + 1)
    assert one.run_id == two.run_id


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, TEXT, st.integers(-62_135_596_800_000_000, NOW_US))
def test_what_is_written_is_read_as_it_was(asked: str, answered: str, ended_us: int) -> None:
    reader = recallfile.Reader(HERE, "recall_log.jsonl", NOW_US)
    said = log({"ts": 0, "input": asked, "output": answered})
    run = exportfile.decode(1, reader.read(said))
    assert isinstance(run, exportfile.RunLine)
    written = recallfile.write(
        exportfile.RunLine(
            **{name: getattr(run, name) for name in run.__slots__}
            | {
                "input": "block" + asked,
                "own_offset": 5,
                "ended_us": ended_us,
            }
        )
    )
    again = exportfile.decode(1, recallfile.Reader(HERE, "x", NOW_US).read(written))
    assert isinstance(again, exportfile.RunLine)
    assert (again.input, again.output, again.ended_us, again.own_offset) == (asked, answered, ended_us, 0)


def test_a_token_is_not_sent_in_plain_text_to_another_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMSVC_ALLOW_PLAINTEXT", raising=False)
    token = tmp_path / "token"
    token.write_text("msv_secret")
    command = ["export", "--tenant", "a", "--agent", "b", "--token-file", str(token), "--address", "192.0.2.1:1", "-"]
    assert main(command) == 78
    told = capsys.readouterr().err
    assert "--ca" in told
    assert "msv_secret" not in told


def test_a_command_to_a_daemon_that_is_not_there_says_where_it_asked_and_what_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    (tmp_path / "file").write_bytes(log(ZH))
    for command in ("export", "import", "export-recall", "import-recall"):
        asked = [command, "--tenant", "a", "--agent", "b", "--address", address, str(tmp_path / "file")]
        assert main(asked) == 69, command
        told = capsys.readouterr()
        assert told.out == ""
        assert all(word in told.err for word in (address, "memsvc serve", "MEMSVC_LISTEN", "--ca")), told.err
