"""Databases that earlier versions wrote: each is opened, migrated and whole, and tells what it told then.

tests/data/schema_N.db.xz was written by the daemon of the commit before migration N + 1: a conversation in Chinese, one
in English, a thread that was deleted and, from 3 on, facts and candidates. No daemon ever served the first two as they
are now; theirs were made from the third by the migrations, and the runs of the first, which has no index, are cancelled
ones. A new migration comes with the file of the version before it.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from memsvc.store import verify_database
from memsvc.store.sqlite import migrate
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Start
from tests.review import Review
from tests.talk import Talk, refusal
from tests.test_export import exported
from tests.test_import import imported

DATA = Path(__file__).parent / "data"
SCOPE = pb.Scope(tenant_id="school-7", agent_id="exam", user_id="wang")
SCHEMAS = range(1, len(migrate.shipped()))


def test_there_is_a_database_of_every_earlier_schema() -> None:
    assert sorted(path.name for path in DATA.glob("schema_*.db.xz")) == [f"schema_{n}.db.xz" for n in SCHEMAS]


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_database_of_an_earlier_schema_is_migrated_and_whole(schema: int, start: Start, tmp_path: Path) -> None:
    database = tmp_path / "memsvc.db"
    database.write_bytes(lzma.decompress((DATA / f"schema_{schema}.db.xz").read_bytes()))
    assert verify_database(database)[0] == []
    assert verify_database(database).schema == schema
    running = await start()
    talk, review = Talk(running, SCOPE), Review(running, SCOPE)
    threads = (await running.threads.ListThreads(svc.ListThreadsRequest(scope=SCOPE))).threads
    assert [(thread.title, thread.thread_key, thread.run_count) for thread in threads] == [
        ("杭州 weekend", "trip", 5),
        ("帮我出一份数据结构的期末试卷", "周一", 6),
    ]
    assert [thread.summarized_run_count for thread in threads] == [3, 4]
    assert all(thread.rolling_summary for thread in threads)
    recalled = (("封面用什么颜色？黑色", "周一-2"), ("the tea museum in Hangzhou", "trip-0"))
    for query, run_id in recalled if schema > 1 else ():
        hits = (await running.recall.Search(svc.SearchRequest(scope=SCOPE, query=query))).hits
        assert hits[0].run.run_id == run_id
    late = svc.RecordRunRequest(scope=SCOPE, run_id="gone-0", input="x", outcome=pb.RUN_OUTCOME_COMPLETED)
    assert (await refusal(running.memory.RecordRun(late))).reason == "DELETED"
    usage = await running.ops.GetUsage(svc.GetUsageRequest(scope=SCOPE))
    assert usage.runs == pb.Usage(input_tokens=110, output_tokens=33, cost_micros=770)
    talk.thread_id = threads[1].thread_id
    await talk.context("继续")
    if schema > 2:
        assert await review.texts() == ["The user prefers short answers", "用户教高二数学"]
        assert [(c.text, list(c.source_run_ids)) for c in await review.candidates()] == [
            ("用户喜欢黑色封面", ["周一-2"]),
            ("The user travels with two children", ["trip-4"]),
        ]
        assert (await review.create("用户收藏珐琅彩瓷")).fact.text == "用户收藏珐琅彩瓷"
    await talk.turns("升级以后", "照常")
    await running.settle()
    data = await exported(running, SCOPE)
    other = await start(database=tmp_path / "other.db")
    await imported(other, SCOPE, data)
    assert await exported(other, SCOPE) == data
    assert verify_database(database).findings == []
    assert verify_database(database).schema == len(migrate.shipped())
