"""What text becomes: a row a rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.rules.terms import (
    MAX_TERMS_HEAD,
    MAX_TERMS_QUERY,
    MAX_TERMS_RUN,
    MAX_TERMS_TAIL,
    Kind,
    count_terms,
    kind_of,
    query_terms,
)


def check(text: str, *expected: str) -> None:
    """`text` becomes these terms, in this order."""
    assert list(count_terms(text)) == list(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("早报", "早 报 早报"),
        ("配置", "配 置 配置"),
        ("猫", "猫"),
        ("C盘", "c c盘 盘"),
        ("c盘", "c c盘 盘"),
        ("Ｃ盘", "c c盘 盘"),
        ("C 盘", "c c盘 盘"),
        ("API配置", "api api配 配 置 配置"),
        ("配置API", "配 置 配置 置api api"),
        ("v2.3", "v2.3 v2 v 2 3"),
        ("iPhone15", "iphone15 iphon 15"),
        ("node.js", "node.js node js"),
        ("C++", "c++ c"),
        ("C#", "c# c"),
        ("スキー", "ス キ スキ ー キー"),
        ("한국", "한 국 한국"),
        ("２０２６", "2026"),
    ],
)
def test_words_pairs_characters_and_mixed_tokens_are_terms(text: str, expected: str) -> None:
    check(text, *expected.split())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("boxes", "box"),
        ("running shoes", "run shoe"),
        ("Melanie's", "melanie"),
        ("Melanie’s", "melanie"),
        ("ＡＰＩ", "api"),
        ("résumé", "resume"),
        ("re\u0301sume\u0301", "résumé"),  # as a Mac writes file names
        ("Ärger", "a\u0308rger"),
        ("nghiên cứu", "nghien cuu"),
        ("İstanbul", "istanbul"),
        ("が", "か\u3099"),
        ("ガス", "ｶﾞｽ"),
        ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
        ("pla\u200bnt", "plants"),
        ("ﬁle", "files"),
    ],
)
def test_forms_of_one_word_are_one_term(one: str, other: str) -> None:
    assert count_terms(one) == count_terms(other)


@pytest.mark.parametrize(
    "text", ["", "   ", "the of and", "What is it?", "的", "是什么", "我的吗", '"', "*", "-", "(((", "😀"]
)
def test_function_words_and_signs_are_no_terms(text: str) -> None:
    check(text)
    assert query_terms(text) == ()


def test_a_function_word_beside_another_character_makes_a_weak_pair() -> None:
    assert kind_of("的早") is Kind.LOOSE
    assert kind_of("早报") is Kind.PAIR
    assert kind_of("c盘") is Kind.PAIR
    assert kind_of("早") is Kind.CHAR
    assert kind_of("mention") is kind_of("提到") is Kind.LOOSE
    assert kind_of("c") is kind_of("15") is Kind.SHORT
    assert kind_of("v2.3") is kind_of("2026") is Kind.WORD


def test_search_operators_are_words_like_any_other() -> None:
    check("NEAR(cat dog)", "near", "cat", "dog")
    check('"cat" OR -dog*', "cat", "dog")


def test_occurrences_are_counted_across_texts() -> None:
    assert count_terms("cats", "a cat and a dog") == {"cat": 2, "dog": 1}


def test_what_the_input_says_comes_first_when_terms_run_out() -> None:
    long_input = "".join(map(chr, range(0x4E00, 0x4E00 + 1_500)))
    terms = count_terms(long_input, "afterthought")
    assert len(terms) == MAX_TERMS_RUN
    assert "afterthought" not in terms
    assert next(iter(terms)) == long_input[0]


def test_of_a_long_answer_both_ends_are_kept_and_what_is_asked_before_it() -> None:
    words = [f"word{n}x" for n in range(5_000)]
    terms = count_terms("a question about lighthouses", " ".join(words))
    assert {"question", "lighthous", "word0x", "word4999x"} <= terms.keys()
    assert "word2500x" not in terms
    assert len(terms) <= 2 + MAX_TERMS_HEAD + MAX_TERMS_TAIL


def test_the_ends_of_a_long_query_are_what_is_looked_up() -> None:
    middle = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000))) * 4
    terms = {term.term for term in query_terms(f"beginning {middle} ending")}
    assert {"begin", "end"} <= terms
    assert len(terms) == MAX_TERMS_QUERY


@pytest.mark.parametrize(
    "text",
    [
        "".join(map(chr, range(0x4E00, 0x9F00))) * 17,
        "汉" * 350_000,
        "x" * 1_048_576,
        "a'" * 524_288,
        "a." * 524_288,
        "1a" * 524_288,
        "+" * 1_048_576,
        "\u0301" * 500_000,
    ],
)
def test_a_mebibyte_of_anything_is_read_within_bounds(text: str) -> None:
    assert len(count_terms(text, text)) <= MAX_TERMS_RUN
    assert len(query_terms(text)) <= MAX_TERMS_QUERY


@settings(max_examples=200)
@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("早报的C盘v2.3'’-_ \n")), max_size=200))
def test_any_text_has_terms_of_a_kind_and_a_query_looks_up_what_the_run_has(text: str) -> None:
    counts = count_terms(text)
    terms = [term for term in query_terms(text) if term.kind is not Kind.DATE]
    assert all(counts.values())
    assert all(counts[term.term] and kind_of(term.term) is term.kind for term in terms)
    assert len(terms) == min(len(counts), MAX_TERMS_QUERY)
