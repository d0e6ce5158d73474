"""The scale of recall: what weighs how much, and that a score means the same in any scope."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.rules.bearing import Bearing
from memsvc.rules.ranking import (
    GAIN_LEVELS,
    GAINS,
    THRESHOLD,
    divide,
    gain_level,
    neighbour_share,
    score,
    steady,
    weight,
)
from memsvc.rules.terms import Kind, count_terms, query_terms

SIZES = (1, 10, 1_000, 100_000)


def score_in(query: str, text: str, entries: int, shares: dict[str, float]) -> float:
    """The score of `text` for `query` in a scope whose other runs have each term in its share of them."""
    counts = count_terms(text)
    length = sum(counts.values())
    terms = query_terms(query)
    found = [(t.term in counts) + round(shares.get(t.term, 0.0) * (entries - 1)) for t in terms]
    worths = [steady(t.kind, weight(t.kind, n, entries)) for t, n in zip(terms, found, strict=True)]
    gains = {at: GAINS[gain_level(counts[t.term], length)] for at, t in enumerate(terms) if t.term in counts}
    return Bearing(terms, worths).score(gains, len(counts))


def check(query: str, text: str, shares: dict[str, float]) -> None:
    """One pair scores the same, give or take 0.05, whatever the size of the scope."""
    scores = [score_in(query, text, entries, shares) for entries in SIZES]
    assert max(scores) - min(scores) <= 0.05, scores


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("配置", "修改API配置文件里的超时"),
        ("API配置超时", "修改API配置文件里的超时"),
        ("我的早报呢", "每天早上八点把早报发给我"),
        ("What did the vet say about the paw?", "My dog has a sore paw, which vet is near?"),
        ("明天去医院要带什么", "周五去医院复查膝盖"),
    ],
)
def test_a_pair_scores_the_same_in_scopes_of_any_size_that_lack_its_words(query: str, text: str) -> None:
    check(query, text, {})


@pytest.mark.parametrize(
    ("query", "text", "shares"),
    [
        ("plan a trip to Lisbon", "a trip to Lisbon in May", {"plan": 0.01, "trip": 0.01, "lisbon": 0.0001}),
        ("修改超时", "修改API配置文件里的超时", {"修改": 0.004, "超时": 0.0005, "改超": 0.0, "修": 0.02, "改": 0.05}),
        ("dog food", "what food does a dog need", {"dog": 0.004, "food": 0.008}),
    ],
)
def test_a_pair_scores_the_same_where_its_words_are_as_common_as_words_are(
    query: str, text: str, shares: dict[str, float]
) -> None:
    check(query, text, shares)


SAID = [
    [*"这个周末 明天下午 上次开会 昨天晚上 下个月 刚才".split()],
    [*"我想 老师让我 同事推荐 妈妈说要 孩子想 我们需要".split()],
    [*"看一本小说 订一家酒店 买一本书 准备会议材料 去医院检查 换一台电脑 做一份报告 找一个名字".split()],
    [*"，价格不要太贵 ，什么时候合适 ，帮我安排一下 ，怎么样 ，提醒我 ，有什么推荐".split()],
]
TOLD = [
    ["Last week", "Tomorrow", "On Friday", "This morning", "For the trip", "After work"],
    ["I like", "my sister wants", "we need", "she found", "they told me about", "you should try"],
    ["books about gardens", "a dentist appointment", "the dog food", "a camera", "good coffee", "music lessons"],
    ["near the station.", "for the kids!", "and some friends.", "at a lower price.", "in the evening.", "again?"],
]


@pytest.mark.parametrize(
    ("query", "text", "talk"),
    [
        ("孩子的生日蛋糕订了吗", "给孩子订一个生日蛋糕，要草莓味的", SAID),
        ("会议改到几点了", "明天的会议改到下午三点，通知一下大家", SAID),
        ("怎么备份数据库", "数据库每天凌晨备份到另一台机器", SAID),
        ("what books did she like", "She told me she likes books about gardening", TOLD),
        ("when is the dentist appointment", "My dentist appointment moved to Friday at nine", TOLD),
        ("what did we name the dog", "We got a puppy and named the dog Biscuit", TOLD),
    ],
)
def test_a_pair_scores_the_same_among_ordinary_talk_of_any_amount(query: str, text: str, talk: list[list[str]]) -> None:
    parts = [talk[at][n % len(talk[at])] for n in range(1_000) for at in range(4)]
    runs = [" ".join(parts[at : at + 4]) for at in range(0, 4_000, 4)]
    found = {term.term: sum(term.term in count_terms(run) for run in runs) for term in query_terms(query)}
    check(query, text, {term: n / len(runs) for term, n in found.items()})


# How many of some thousand real exchanges have each term, where that is one in two hundred or more.
COMMON = dict(
    each.split(":")
    for each in """
    生日:0.018 的生:0.047 推荐:0.08 荐的:0.014 荐一:0.014 荐吗:0.01 本书:0.01 叫什:0.006
    么好:0.052 好看:0.015 看的:0.018 的电:0.035 电视:0.011 视剧:0.007 今天:0.18 天天:0.017
    天气:0.03 么样:0.034 的工:0.034 工作:0.075 地点:0.006 哪里:0.018 一家:0.015 适合:0.03
    餐厅:0.007 的餐:0.005 最近:0.122 压力:0.033 很大:0.013 么办:0.018 健身:0.009 计划:0.039
    安排:0.005 学习:0.083 好的:0.192 的方:0.051 方法:0.071 处理:0.011 公司:0.022 司的:0.009
    周末:0.01 电影:0.082 以看:0.011 我喜:0.026 喜欢:0.169 旅行:0.037 的时:0.051 plan:0.048
    trip:0.033 time:0.136 yoga:0.011 class:0.025 start:0.05 music:0.013 listen:0.008 job:0.024
    best:0.041 friend:0.072 school:0.009 book:0.03 recommend:0.025
    """.split()
)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("上次推荐的那本书叫什么", "推荐一本历史小说。可以读《大秦帝国》，写得很好。"),
        ("有什么好看的电视剧推荐吗", "推荐几部好看的电视剧。可以看《琅琊榜》。"),
        ("推荐一家适合聚会的餐厅", "推荐几家适合公司聚会的餐厅。可以去江边的那家川菜馆。"),
        ("今天天气怎么样", "今天天气很好，适合散步"),
        ("我的工作地点在哪里", "我在上海的一家公司工作，地点在浦东"),
        ("最近工作压力很大怎么办", "我工作压力大，晚上睡不着。可以试试运动和听音乐放松。"),
        ("健身计划是怎么安排的", "帮我做一个健身计划，每周三次。周一练腿，周三练背，周五有氧。"),
        ("学习英语有什么好的方法", "我想学习英语。建议每天听半小时，背二十个单词。"),
        ("电脑开机很慢怎么处理", "电脑开机太慢。可以清理启动项，换固态硬盘。"),
        ("公司的年会定在哪里", "年会定在杭州西湖边的酒店，十二月二十日。"),
        ("周末有什么电影可以看", "周末想看电影。推荐科幻片《流浪地球》。"),
        ("我喜欢喝什么茶", "我平时喜欢喝龙井茶，不喝咖啡。"),
        ("旅行的时候要带哪些药", "旅行要带感冒药和肠胃药，还有创可贴。"),
        ("妈妈的生日是哪天", "妈妈的生日是农历八月初六，记得提前买礼物。"),
        ("plan the trip to Lisbon", "We want a trip to Lisbon in May with the kids"),
        ("What time does my yoga class start?", "My yoga class starts at seven on Tuesdays."),
        ("What music does my brother listen to?", "My brother listens to a lot of jazz music lately."),
        ("How was the job interview?", "The job interview went well, they call me next week."),
        ("Who is my best friend from school?", "Anna is my best friend, we met at school in Boston."),
        ("Which book would you recommend?", "I recommend a good book for a beginner: Learning Python."),
    ],
)
def test_a_pair_scores_the_same_among_real_talk_that_is_full_of_its_words(query: str, text: str) -> None:
    check(query, text, {term: float(share) for term, share in COMMON.items()})


@pytest.mark.parametrize(
    ("query", "text", "everywhere"),
    [
        ("When did Caroline join the choir?", "Caroline: I joined a choir last week! Melanie: How lovely.", "carolin"),
        ("What did Nate give Joanna?", "Nate: I gave Joanna a stuffed dog. Joanna: I love it!", "nate joanna"),
        ("Which car does Evan drive?", "Evan: My new Prius drives so well. Sam: Nice car!", "evan car drive"),
        ("What happened on 8 May 2023?", "Emi: We moved house on that day.", "@2023-05-08 @2023-05 2023 may 8"),
        ("Emi住在哪里", "Emi: 我搬到杭州住了", "emi"),
    ],
)
def test_a_pair_scores_the_same_where_its_names_stand_in_every_run(query: str, text: str, everywhere: str) -> None:
    check(query, text, dict.fromkeys(everywhere.split(), 1.0))


@given(st.sampled_from([Kind.WORD, Kind.SHORT, Kind.DATE, Kind.CHAR]), st.integers(0, 10**6), st.integers(0, 10**6))
def test_words_numbers_and_dates_count_the_same_in_every_scope(kind: Kind, found: int, more: int) -> None:
    assert steady(kind, weight(kind, found, max(found + more, 1))) == steady(kind, weight(kind, 0, 1))


def test_a_word_in_every_other_run_weighs_less_than_a_rare_one() -> None:
    for kind in (Kind.PAIR, Kind.WORD):
        assert weight(kind, 500, 1_000) == weight(kind, 300, 1_000) < 0.5 * weight(kind, 2, 1_000)


def test_the_only_run_of_a_scope_does_not_make_its_own_words_common() -> None:
    assert weight(Kind.WORD, 1, 1) == weight(Kind.WORD, 0, 1) == weight(Kind.WORD, 1, 100_000)


def test_a_pair_is_worth_more_than_a_weak_pair_and_that_more_than_a_character() -> None:
    assert weight(Kind.PAIR, 1, 10) > weight(Kind.LOOSE, 1, 10) > weight(Kind.CHAR, 1, 10)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("早报", "早报"),
        ("Where are the spare keys?", "Where are the spare keys?"),
        ("把上周的会议纪要发给全组", "把上周的会议纪要发给全组"),
    ],
)
def test_the_same_text_scores_near_one(query: str, text: str) -> None:
    assert score_in(query, text, 1_000, {}) > 0.9


@pytest.mark.parametrize(
    ("query", "text", "bears"),
    [
        ("配置", "修改API配置文件里的超时", True),
        ("我的早报呢", "每天早上八点把早报发给我", True),
        ("v2.3", "升级到v2.3之后报错", True),
        ("How do I feed the cats?", "The cat only eats at night", True),
        ("帮我写一首关于秋天的诗", "怎样煮溏心蛋", False),
        ("Translate this poem into French", "The cat only eats at night", False),
        ("周末去哪里爬山", "把这段话翻译成英文", False),
    ],
)
def test_the_threshold_tells_what_bears_on_a_query(query: str, text: str, bears: bool) -> None:
    assert (score_in(query, text, 12, {}) > THRESHOLD) is bears


def test_characters_are_read_for_themselves_only_where_little_else_is_said() -> None:
    leading, following = divide(query_terms("早报"))
    assert (len(leading), following) == (3, [])
    leading, following = divide(query_terms("把早报配置发来"))
    assert {term.kind for term in following} == {Kind.CHAR}
    assert Kind.CHAR not in {term.kind for term in leading}


def test_a_short_turn_leans_on_its_neighbours_and_a_long_one_hardly() -> None:
    assert neighbour_share(0) == neighbour_share(10) == 0.5
    assert neighbour_share(1_000) < 0.05


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_gain_has_a_level_that_rises_with_the_count_and_falls_with_the_length(count: int, more: int) -> None:
    length = count + more
    assert 0 <= gain_level(count, length) <= gain_level(count + 1, length) < GAIN_LEVELS
    assert gain_level(count, length + more) <= gain_level(count, length)


@given(st.sampled_from(Kind), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_weight_is_positive_and_falls_with_the_runs_that_have_the_term(kind: Kind, found: int, more: int) -> None:
    entries = max(found + more, 1)
    assert 0 < weight(kind, min(found + 1, entries), entries) <= weight(kind, found, entries) <= 7.2


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 2))
def test_a_score_is_between_zero_and_one_and_rises_with_the_evidence(
    evidence: float, more: float, total: float, share: float
) -> None:
    assert 0 <= score(evidence, total, share) <= score(evidence + more, total, share) <= 1
    assert score(evidence, total, share) <= score(evidence, total, 2 * share)


def bears(query: str, **gains: float) -> float:
    """The score of a short run in which these terms of the query are found, and no others; each term weighs 6."""
    terms = query_terms(query)
    return Bearing(terms, [6.0] * len(terms)).score(
        {at: gains[t.term] for at, t in enumerate(terms) if t.term in gains}, 10
    )


def test_a_pair_that_straddles_two_words_is_missed_less_than_a_word() -> None:
    words = {"数据": 1.0, "备份": 1.0}
    assert bears("数据备份", **words) > bears("数据备份", 数据=1.0, 据备=1.0) > bears("数据备份", 数据=1.0)


def test_every_term_found_is_more_than_some_of_them() -> None:
    for query in ("早报", "C盘快满了", "API配置超时", "dog food", "2024年1月5日的早报", "的早"):
        terms = query_terms(query)
        scores = [
            Bearing(terms, [6.0] * len(terms)).score(dict.fromkeys(range(n), 1.0), 10) for n in range(len(terms) + 1)
        ]
        assert scores == sorted(scores)
        assert scores[0] == 0 < scores[-1]


def test_a_character_counts_less_in_a_long_run_which_has_many_by_chance() -> None:
    terms = query_terms("早")
    short, long = (Bearing(terms, [1.3]).score({0: 1.0}, size) for size in (10, 1_000))
    assert short > THRESHOLD > long


def test_a_date_counts_for_a_run_of_that_day_and_not_against_one_of_another() -> None:
    plain = bears("早报", 早报=1.0)
    assert bears("早报 5月8日", 早报=1.0, **{"@05-08": 1.0}) > bears("早报 5月8日", 早报=1.0)
    without = [t for t in query_terms("早报 5月8日") if t.kind is not Kind.DATE]
    alone = Bearing(without, [6.0] * len(without)).score(
        {at: 1.0 for at, t in enumerate(without) if t.term == "早报"}, 10
    )
    assert bears("早报 5月8日", 早报=1.0) == alone < plain


@given(st.sampled_from(["数据备份", "早报 5月8日", "C盘快满了", "的早", "dog food 2.3"]), st.data())
def test_worths_may_be_changed_afterwards(query: str, data: st.DataObject) -> None:
    terms = query_terms(query)
    worths = [data.draw(st.lists(st.floats(0.1, 7), min_size=len(terms), max_size=len(terms))) for _ in range(2)]
    gains = {at: data.draw(st.floats(0.1, 1.6)) for at in range(len(terms)) if data.draw(st.booleans())}
    first, fresh = Bearing(terms, worths[0]), Bearing(terms, worths[1])
    before = first.score(gains, 10)
    assert first.weighed(worths[1]).score(gains, 10) == fresh.score(gains, 10)
    assert first.score(gains, 10) == before


def test_a_pair_that_one_other_run_has_is_no_rarer_in_a_score_than_its_kind() -> None:
    for kind in (Kind.PAIR, Kind.LOOSE):
        rare, usual = (weight(kind, found, 100_000) for found in (5, 2_000))
        assert rare > usual
        assert steady(kind, rare) == steady(kind, weight(kind, 1, 1)) < rare


def test_a_query_without_a_term_bears_on_nothing() -> None:
    assert Bearing((), ()).score({}, 10) == 0
