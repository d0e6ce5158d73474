"""Inputs that ask for nothing: which they are, and that they bring nothing back."""

from __future__ import annotations

import pytest

from memsvc.rules.courtesy import is_courtesy
from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as svc
from tests.conftest import Running
from tests.talk import Talk

COURTESIES = [
    *(
        "好",
        "好的",
        "好的。",
        "好的，谢谢！",
        "嗯嗯",
        "ＯＫ",
        "ok👌",
        "收到，明白了",
        "你好！",
        "没问题，辛苦了～",
        "哈哈哈哈",
        "好，了解",
    ),
    *(
        "OK",
        "Okay, thanks.",
        "Thank you very much!",
        "that’s great",
        "Hi",
        "good morning",
        "Got it — sounds good",
        "好的 thanks",
    ),
]
QUESTIONS = [
    *("好的话就发布", "你好吗", "继续讲红黑树", "写得很好", "好 2", "是的函数", "卷子好了吗", "不对齐"),
    *("ok google", "thanks for the billing note", "v2", "hi-fi", "goodness"),
    *("", " ", "？", "👍", "1", "はい", "네", "好的" * 40),
]  # fmt: skip


@pytest.mark.parametrize("text", COURTESIES)
def test_words_that_only_keep_it_going_ask_for_nothing(text: str) -> None:
    assert is_courtesy(text)


@pytest.mark.parametrize("text", QUESTIONS)
def test_an_input_with_any_other_word_asks_for_something(text: str) -> None:
    assert not is_courtesy(text)


async def test_an_acknowledgement_brings_back_no_run_that_begins_with_the_same_word(
    running: Running, scope: pb.Scope
) -> None:
    await Talk(running, scope).record("把早报发给我", "好的。")
    await Talk(running, scope).record("send the report", "OK, thanks.")
    for given in ("好的", "OK, thanks", "好的，ok"):
        assert not (await Talk(running, scope).context(given=given)).sections
        hits = (await running.recall.Search(svc.SearchRequest(scope=scope, query=given))).hits
        assert hits, given
    assert "早报" in (await Talk(running, scope).context(given="好的，早报呢")).text
