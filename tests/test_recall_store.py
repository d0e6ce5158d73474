"""The recall index in a real file: what is found, what stays apart, and that what leaves leaves nothing behind."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.rules.ranking import THRESHOLD
from memsvc.rules.terms import count_terms, query_terms
from memsvc.store.sqlite import migrate, unindexing
from memsvc.store.sqlite.cache import Cache
from memsvc.store.sqlite.recall import Hit, index_run, search, settle

SMALL_TALK = [
    "帮我写一首关于秋天的诗",
    "把这段话翻译成英文",
    "周末去哪里爬山",
    "推荐一本历史小说",
    "怎样煮溏心蛋",
    "Plan a birthday party for ten",
    "解释一下量子纠缠",
    "给孩子讲个睡前故事",
]


@contextmanager
def opened(path: Path | str = ":memory:", *, upto: int | None = None) -> Iterator[sqlite3.Connection]:
    """A database in a transaction, as a unit of work finds it, of this schema or of an earlier one."""
    db = sqlite3.connect(path, isolation_level=None)
    migrate.apply(db, migrate.shipped()[:upto], now_us=0)
    db.execute("PRAGMA secure_delete = ON")
    db.execute("BEGIN IMMEDIATE")
    yield db
    db.close()


def index(db: sqlite3.Connection, sequence: int, text: str, *, thread: int | None = None, scope: int = 1) -> None:
    if index_run(db, scope, sequence if thread is None else thread, sequence, count_terms(text)):
        while settle(db, scope):
            pass


def unindex_runs(db: sqlite3.Connection, scope: int, sequences: Sequence[int]) -> None:
    """Takes runs out of the index as a deletion does: in a thread of their own, step by step."""
    hidden = 1 << 40
    chosen = (scope, str(list(sequences)))
    of_them = "WHERE scope_no = ? AND sequence IN (SELECT value FROM json_each(?))"
    db.execute(f"UPDATE recall_entries SET thread_no = {hidden} {of_them}", chosen)
    walk = unindexing.begin(db, scope, [hidden])
    while walk and not walk.done:
        walk = unindexing.go_on(db, walk)
    entries = db.execute(f"SELECT entry_no, length(postings) / 8 FROM recall_entries {of_them}", chosen).fetchall()
    assert all(walk and walk.leaves(entry_no) for entry_no, _ in entries)
    unindexing.remove(db, scope, entries)


def find(db: sqlite3.Connection, query: str, *, scope: int = 1, limit: int = 3) -> list[Hit]:
    return search(db, Cache(), scope, query_terms(query), limit)


def everything(db: sqlite3.Connection) -> list[list[tuple[object, ...]]]:
    """All rows of the index; numbers of pages, versions and states, which tell nothing, aside."""
    tables = (
        "SELECT scope_no, entries, paged_no, waiting FROM recall_scopes",
        "SELECT * FROM recall_entries",
        "SELECT scope_no, level, size, sinking FROM recall_levels",
    )
    pages = "SELECT scope_no, level, first, postings FROM recall_pages ORDER BY 1, 2, 3"
    return [
        *(db.execute(f"{table} ORDER BY 1, 2").fetchall() for table in tables),
        list(db.execute(pages)),
    ]


def postings(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """Scope and posting of all that stands on pages, each as often as it does."""
    rows = db.execute("SELECT scope_no, postings FROM recall_pages")
    return sorted((scope, p) for scope, blob in rows for p in memoryview(blob).cast("q"))


def paged(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """Scope and posting of all that should stand on pages."""
    rows = db.execute(
        "SELECT scope_no, postings FROM recall_entries JOIN recall_scopes USING (scope_no) WHERE entry_no <= paged_no"
    )
    return sorted((scope, p) for scope, blob in rows for p in memoryview(blob).cast("q"))


def check(query: str, *expected: int) -> None:
    """Among small talk and four telling runs (1 to 4), these are injected for `query`, best first."""
    with opened() as db:
        told = ["每天早上八点把早报发给我", "修改API配置文件里的超时", "C盘快满了怎么清理", "升级到v2.3之后报错"]
        for sequence, text in enumerate([*told, *SMALL_TALK], 1):
            index(db, sequence, text)
        hits = find(db, query)
    assert [hit.sequence for hit in hits if hit.score > THRESHOLD] == list(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("早报", 1),
        ("我的早报呢", 1),
        ("超", 2),
        ("配置", 2),
        ("API配置", 2),
        ("api 配置", 2),
        ("timeout of the API?", 2),
        ("C盘", 3),
        ("c盘", 3),
        ("Ｃ盘", 3),
        ("C盘空间", 3),
        ("v2.3", 4),
        ("birthday parties", 10),
    ],
)
def test_short_words_mixed_tokens_and_plurals_find_their_run(query: str, expected: int) -> None:
    check(query, expected)


@pytest.mark.parametrize(
    "query",
    ["", " ", "的", "what is it", "是什么", '"', "*", "NEAR(", "-", "' OR 1=1 --", "鲸", "Where did the whale go?"],
)
def test_a_query_without_a_term_of_the_scope_injects_nothing(query: str) -> None:
    check(query)


@pytest.mark.parametrize("query", ['"早报"', "早报*", "NOT 早报", "-早报", "早报 AND 早报", "(早报", "早报 OR"])
def test_operators_do_not_change_what_is_found(query: str) -> None:
    check(query, 1)


@pytest.mark.parametrize(
    ("query", "run"),
    [
        ("one two three four five 茶", "茶"),
        ("alpha beta gamma delta 𠀀", "𠀀"),
        ("今天下午三点半在公司楼下集合出发去郊外看红叶，茶", "茶"),
        ("cd c", "c"),
        ("早", "每天的早报"),
        ("报", "每天的早报"),
    ],
)
def test_a_character_is_found_wherever_it_stands_and_whatever_else_is_asked(query: str, run: str) -> None:
    with opened() as db:
        index(db, 1, run)
        assert [hit.sequence for hit in find(db, query)] == [1]


def test_a_letter_is_found_in_a_run_with_words_that_begin_with_it() -> None:
    with opened() as db:
        index(db, 1, "c cd 盘c c盘")
        assert [len(find(db, query)) for query in ("c", "cd", "盘", "c盘")] == [1, 1, 1, 1]


def steps(db: sqlite3.Connection, query: str, scope: int) -> tuple[list[float], int]:
    """The scores of a search, and how many instructions SQLite's machine ran for it."""
    ran = 0

    def count() -> int:
        nonlocal ran
        ran += 1
        return 0

    db.set_progress_handler(count, 1)
    hits = find(db, query, scope=scope, limit=10)
    db.set_progress_handler(None, 1)
    return [hit.score for hit in hits], ran


def test_what_other_scopes_hold_is_never_read() -> None:
    queries = ["早报", "wc wd we", "needle17 wf", "把早报配置发来 needle120"]
    told = [f"{talk(n, 120)} needle{n} 早报配置" for n in range(1, 301)]
    with opened() as alone, opened() as among:
        for n, text in enumerate(told, 1):
            index(alone, 2 * n, text, thread=n % 7)
            index(among, 2 * n, text, thread=n % 7)
            for scope in (2, 3):
                index(among, 10_000 * scope + n, f"{text} {talk(-n, 60)}", thread=10 * scope + n % 7, scope=scope)
        for query in queries:
            (scores, ran), (scores_among, ran_among) = steps(alone, query, 1), steps(among, query, 1)
            assert scores == scores_among
            # Where the scope's rows end, another's are seen to begin; nothing of them is read.
            assert abs(ran - ran_among) <= 20


def test_a_query_of_256_kib_is_answered_by_its_ends() -> None:
    with opened() as db:
        for sequence, text in enumerate(["早报", *SMALL_TALK, "茶"], 1):
            index(db, sequence, text)
        hits = find(db, "x" * 262_000 + "早报")
    assert [hit.sequence for hit in hits] == [1]


def test_among_equals_the_latest_comes_first() -> None:
    with opened() as db:
        for sequence in (1, 2, 3):
            index(db, sequence, "the same words")
        assert [hit.sequence for hit in find(db, "same words")] == [3, 2, 1]


def test_excluded_runs_make_room_for_others() -> None:
    with opened() as db:
        for sequence in range(1, 40):
            index(db, sequence, "the same words")
        hits = search(db, Cache(), 1, query_terms("same words"), 2, frozenset(range(10, 40)))
        assert [hit.sequence for hit in hits] == [9, 8]


def test_what_is_rare_in_the_scope_comes_first_and_nothing_scores_above_it() -> None:
    with opened() as db:
        for sequence in range(1, 40):
            index(db, sequence, f"Caroline: good morning, this is number {sequence}")
        index(db, 40, "the dentist called again about a bill, a form and some other day next month")
        index(db, 41, "Caroline, Caroline!")
        index(db, 42, "Caroline, Caroline!", scope=2)
        hits = find(db, "Caroline at the dentist")
        (alone,) = find(db, "Caroline at the dentist", scope=2)
    assert [hit.sequence for hit in hits[:2]] == [40, 41]
    assert alone.score > hits[0].score == hits[1].score > THRESHOLD


def test_a_follow_up_is_found_by_what_its_neighbour_says() -> None:
    with opened() as db:
        index(db, 1, "找一家杭州的酒店", thread=1)
        index(db, 2, "第二家再便宜点", thread=1)
        index(db, 3, "那部电影再便宜点", thread=2)
        hits = find(db, "杭州便宜的酒店")
    assert [hit.sequence for hit in hits[:2]] == [1, 2]
    assert hits[1].score > hits[2].score


def test_a_neighbours_words_leave_with_the_neighbour() -> None:
    with opened() as db:
        index(db, 1, "a hotel in Hangzhou", thread=1)
        index(db, 2, "cheaper please", thread=1)
        before = dict(find(db, "cheaper hotel"))[2]
        unindex_runs(db, 1, [1])
        after = dict(find(db, "cheaper hotel"))[2]
    with opened() as db:
        index(db, 2, "cheaper please", thread=1)
        assert after == dict(find(db, "cheaper hotel"))[2] < before


_LETTERS = str.maketrans("01234567", "bcdfghjk")


def talk(seed: int, length: int) -> str:
    """Words that are common or rare as words are, the same for the same seed."""
    draw = random.Random(seed)
    return " ".join(f"w{int(20_000 ** draw.random()):o}".translate(_LETTERS) for _ in range(length))


def test_what_is_being_taken_out_keeps_nothing_else_from_being_found() -> None:
    with opened() as db:
        for sequence in range(1, 80):
            index(db, sequence, "zebra crossing" + " paint" * (sequence > 3), thread=1 if sequence <= 3 else 2)
        query = query_terms("zebra crossing paint")
        assert min(hit.sequence for hit in search(db, Cache(), 1, query, 5)) > 3
        db.execute("INSERT INTO doomed (scope_no, thread_no) VALUES (1, 2)")
        assert sorted(hit.sequence for hit in search(db, Cache(), 1, query, 5)) == [1, 2, 3]


def test_other_scopes_change_neither_order_nor_score() -> None:
    with opened() as db:
        for sequence in range(1, 60):
            index(db, sequence, talk(sequence, 40), thread=sequence // 5)
        queries = [talk(seed, 8) for seed in range(500, 520)]
        alone = [find(db, query, limit=10) for query in queries]
        for sequence in range(1_000, 1_600):
            index(db, sequence, talk(sequence % 300, 60), thread=sequence // 7, scope=2 + sequence % 2)
        assert [find(db, query, limit=10) for query in queries] == alone


def test_a_large_index_has_each_posting_once_and_finds_every_run() -> None:
    with opened() as db:
        for sequence in range(1, 401):
            index(db, sequence, f"{talk(sequence, 150)} needle{sequence}")
        levels = [level for (level,) in db.execute("SELECT level FROM recall_levels ORDER BY level")]
        assert levels == [1, 2], "the index is too small to have sunk"
        assert postings(db) == paged(db)
        sizes = db.execute(
            "SELECT level, sum(length(postings) / 8) FROM recall_pages GROUP BY level ORDER BY level"
        ).fetchall()
        assert sizes == db.execute("SELECT level, size FROM recall_levels ORDER BY level").fetchall()
        assert [find(db, f"needle{n}")[0].sequence for n in range(1, 401)] == list(range(1, 401))
        common = find(db, "wc", limit=5)
        assert len(common) == 5

        for sequence in range(1, 401):
            unindex_runs(db, 1, [sequence])
        assert everything(db) == [[], [], [], []]


def test_a_deleted_thread_takes_its_runs_along_and_no_others() -> None:
    with opened() as db:
        for sequence in range(1, 301):
            index(db, sequence, f"{talk(sequence, 150)} needle{sequence}", thread=sequence % 3)
        thread = [n for n in range(1, 301) if n % 3 == 1]
        unindex_runs(db, 1, thread)
        left = [n for n in range(1, 301) if n % 3 != 1]
        assert [n for n in range(1, 301) if find(db, f"needle{n}")[0].sequence == n] == left
        assert db.execute("SELECT entries FROM recall_scopes").fetchone() == (len(left),)
        unindex_runs(db, 1, thread)
        unindex_runs(db, 2, [2])
        assert db.execute("SELECT entries FROM recall_scopes").fetchone() == (len(left),)


def test_a_run_is_found_though_the_newest_before_it_was_deleted() -> None:
    """At every place: the newest one's postings wait, or have just come onto pages."""
    with opened() as db:
        for sequence in range(2, 120, 2):
            index(db, sequence, talk(sequence, 150))
            unindex_runs(db, 1, [sequence])
            index(db, sequence + 1, f"{talk(sequence, 150)} needle{sequence}")
            assert [hit.sequence for hit in find(db, f"needle{sequence}")][:1] == [sequence + 1]
        waiting = "SELECT sum(length(postings) / 8) FROM recall_entries, recall_scopes WHERE entry_no > paged_no"
        assert db.execute("SELECT waiting FROM recall_scopes").fetchone() == db.execute(waiting).fetchone()


def test_nothing_of_a_deleted_run_is_left_in_the_file(tmp_path: Path) -> None:
    with opened(tmp_path / "index.db") as db:
        for sequence in range(1, 200):
            index(db, sequence, talk(sequence, 150))
        index(db, 200, "xylophone 溏心蛋")
        for sequence in range(201, 320):
            index(db, sequence, talk(sequence, 150))
        own = db.execute("SELECT postings FROM recall_entries WHERE sequence = 200").fetchone()[0]
        db.execute("COMMIT")
        content = (tmp_path / "index.db").read_bytes()
        assert content.count(own[:8]) == 2, "the run is not on a page yet"
        db.execute("BEGIN IMMEDIATE")
        unindex_runs(db, 1, [200])
        db.execute("COMMIT")
        content = (tmp_path / "index.db").read_bytes()
    assert not [p for p in range(0, len(own), 8) if own[p : p + 8] in content]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.text("ab 早报配置", max_size=12)), max_size=12),
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.text(max_size=60)),
    st.text(max_size=30),
)
def test_indexing_and_unindexing_a_run_restores_the_tables(
    before: list[tuple[int, int, str]], run: tuple[int, int, str], query: str
) -> None:
    with opened() as db:
        for sequence, (scope, thread, text) in enumerate(before, 1):
            index(db, sequence, text, thread=10 * scope + thread, scope=scope)
        untouched = everything(db)
        scope, thread, text = run
        index(db, 99, text, thread=10 * scope + thread, scope=scope)
        hits = find(db, f"{query} {text}", scope=scope)
        assert all(0 < hit.score <= 1 for hit in hits)
        assert hits == sorted(hits, key=lambda hit: hit.score, reverse=True)
        assert bool(hits) >= bool(count_terms(text))
        unindex_runs(db, scope, [99])
        assert everything(db) == untouched
