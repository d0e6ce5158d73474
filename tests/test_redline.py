"""Red lines as a whole: what a finding's place is, what a summary says instead, and that any text is looked through."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memsvc.rules import redline
from memsvc.rules.redline import page
from memsvc.rules.text import view
from tests.red import ID, check
from tests.test_redline_health import HEALTH
from tests.test_redline_numbers import CARDS, PHONES, RESIDENT_IDS
from tests.test_redline_scores import NO_SCORES, SCORES

PLAIN = [
    "用户喜欢用深色主题和等宽字体",
    "班里有45名学生，分成9组",
    "用户2026年9月开学",
    "The user prefers answers in bullet points",
    "",
    "\x00\ud800 \u202e",
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_is_kept(text: str) -> None:
    check(text, None)


def test_the_category_is_that_of_the_first_finding() -> None:
    assert redline.category("手机13812345678，数学考了92分") == "phone"
    assert redline.category("数学考了92分，手机13812345678") == "score"
    assert redline.category("用户喜欢深色主题") is None


def test_a_span_covers_the_source_with_all_that_hid_in_it() -> None:
    text = "号码 １３８\u200b1234\u200b5678 完"
    (found,) = redline.find(text)
    assert text[found.start : found.end] == "１３８\u200b1234\u200b5678"


def test_a_summary_says_what_was_left_out_in_its_own_language() -> None:
    zh = redline.redact("小明语文85分、数学92分。他爱踢球，手机13812345678。", "zh-CN")
    assert zh == "小明(涉及学生成绩，略)。他爱踢球，手机(涉及联系方式，略)。"
    en = redline.redact("Reach Ann at ann@mail.example; she likes tea.", "en")
    assert en == "Reach Ann at (contact details omitted); she likes tea."


def test_a_summary_stays_a_sentence_where_something_was_left_out() -> None:
    en = redline.redact("The user has type 1 diabetes and takes insulin daily; they prefer bullet points.", "en")
    assert en == "The user (health omitted) daily; they prefer bullet points."
    zh = redline.redact("用户因腰椎间盘突出请了两周病假，回来后继续推进迁移。", "zh")
    assert zh == "用户(涉及健康信息，略)，回来后继续推进迁移。"


@pytest.mark.parametrize("text", [*SCORES, *HEALTH, *RESIDENT_IDS])
def test_what_stands_alone_is_found_among_sentences_that_hold_nothing(text: str) -> None:
    plain = "会话讨论了部署方案与回滚步骤。The team prefers short answers.\n"
    found = redline.find(plain * 3 + text + "\n" + plain)
    assert found
    assert found[0].start >= len(plain * 3)


def test_of_more_suspicious_text_than_is_read_the_rest_is_found() -> None:
    text = "如果考试低于 60 分就补考，" * 4000
    assert redline.find(text)[-1].end == len(text)


def test_every_category_has_its_words_in_both_languages() -> None:
    for category in redline.CATEGORIES:
        assert redline.placeholder(category, "zh") != redline.placeholder(category, "en")
        check(redline.placeholder(category, "zh") + redline.placeholder(category, "en"), None)


SCRAPS = st.sampled_from(
    [
        *RESIDENT_IDS,
        *CARDS,
        *PHONES,
        *SCORES,
        *HEALTH,
        *NO_SCORES,
        *PLAIN,
        "，",
        "。",
        " ",
        "1",
        "分",
        "(涉及健康信息，略)",
    ]
)


@given(st.lists(st.one_of(SCRAPS, st.text(max_size=8)), max_size=6).map("".join), st.sampled_from(["zh", "en"]))
@example("13812345678" * 3, "zh")
@example("数学(涉及学生成绩，略)92分", "en")
@settings(max_examples=200, deadline=None)
def test_redacting_leaves_nothing_to_find_and_twice_is_once(text: str, locale: str) -> None:
    once = redline.redact(text, locale)
    assert redline.find(once) == []
    assert redline.redact(once, locale) == once


@given(st.text(alphabet="aZ09 ~\n中文，。、：；（）！？“”《》", max_size=60))
@settings(max_examples=100, deadline=None)
def test_text_of_chinese_and_ascii_is_folded_as_any_other(text: str) -> None:
    assert page.read(text).text == view(text).text


@given(st.text(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_text_is_looked_through_and_spans_lie_in_it(text: str) -> None:
    for found in redline.find(text):
        assert 0 <= found.start < found.end <= len(text)
        assert found.category in redline.CATEGORIES


@pytest.mark.parametrize(
    "unit", ["1", "1 ", "4 ", " ", "九", "分", "9分", "病", "我有", "数学", "@", "a@a.", "he has a ", "AL47 ", ID + " "]
)
def test_a_long_hostile_text_is_looked_through(unit: str) -> None:
    redline.find(unit * (30_000 // len(unit)))
