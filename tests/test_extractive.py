"""The builtin summarizer quotes and never invents: every turn in a line while there is room, the newest at
length.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.model import RunOutcome
from memsvc.rules.extractive import Turn, summarize
from memsvc.rules.frames import frames

FAILED, CANCELLED = RunOutcome.FAILED, RunOutcome.CANCELLED


def count(text: str) -> int:
    """Stands for a tokenizer: a token for four Latin letters, one for every other character."""
    wide = sum(c > "\u024f" for c in text)
    return wide + (len(text) - wide + 3) // 4


def zh(previous: str, *turns: Turn, limit: int = 600) -> str:
    return summarize(previous, turns, count, limit, "zh")


def en(previous: str, *turns: Turn, limit: int = 600) -> str:
    return summarize(previous, turns, count, limit, "en")


def lines(summary: str) -> list[str]:
    """The lines below the legend."""
    return summary.splitlines()[1:]


QUIZ = """Sure! Here is a quiz on photosynthesis.

## Part A
1. **Light**: where does it come from?
2. Name two products.

| question | points |
|----------|--------|
| 1        | 5      |

```python
def grade(answers):
    return sum(answers)
```
Shall I add more?"""

PAPER = """好的，以下是试卷：

# 一、选择题
1. 栈的特点：后进先出
2、队列呢？
- `Dijkstra` 算法

~~~
int main() {}
~~~
共 100 分。"""


@pytest.mark.parametrize(
    ("locale", "turn", "line"),
    [
        ("en", Turn("why?", "Because it rains."), "why? → Because it rains."),
        ("zh", Turn("为什么？", "因为下雨。"), "为什么？ → 因为下雨。"),
        ("en", Turn("two\n lines\there", "one\r\ntwo"), "two lines here → one two"),
        # Markdown goes, lists keep their heads, code its first line, and the politeness in front is left out.
        (
            "en",
            Turn("a quiz", QUIZ),
            "a quiz → Here is a quiz on photosynthesis. Part A: Light; Name two products; question points 1 5 "
            "(code: def grade(answers):) Shall I add more?",
        ),
        (
            "zh",
            Turn("出卷", PAPER),
            "出卷 → 以下是试卷： 一、选择题： 栈的特点； 队列呢？ Dijkstra 算法； （代码：int main() {}） 共 100 分。",
        ),
        ("zh", Turn("行吗", "好的！"), "行吗 → 好的！"),
        ("en", Turn("ok?", "Sure thing."), "ok? → Sure thing."),
        ("en", Turn("price of v2.3?", "It is 1.5 dollars."), "price of v2.3? → It is 1.5 dollars."),
        # How a run ended is said where no cut reaches it; a failed run's output is not quoted.
        ("zh", Turn("写诗", "春眠不觉", CANCELLED), "写诗 → (用户中止) 春眠不觉"),
        ("zh", Turn("写诗", "", CANCELLED), "写诗 → (用户中止)"),
        ("zh", Turn("写诗", "Traceback: 42", FAILED), "写诗 → (该轮未成功完成，已跳过)"),
        ("en", Turn("a poem", "Traceback", FAILED), "a poem → (this turn did not succeed and was skipped)"),
        # What was not said is not filled in.
        ("en", Turn("a question", ""), "a question"),
    ],
)
def test_a_turn_becomes_a_line(locale: str, turn: Turn, line: str) -> None:
    # The turn behind it has an answer, so that there is a legend.
    summary = summarize("", [turn, Turn("q", "a")], count, 600, locale)
    assert lines(summary) == [line, "q → a"]


def test_the_legend_says_how_to_read_it_and_stands_once() -> None:
    summary = ""
    for i in range(5):
        summary = zh(summary, Turn(f"问题{i}", f"回答{i}"))
    assert summary.splitlines()[0] == "（每行一轮，旧的在前：用户所问 → 所得回答）"
    assert lines(summary) == [f"问题{i} → 回答{i}" for i in range(5)]


def test_a_summary_that_fits_is_never_touched_again() -> None:
    summary = zh("", *(Turn(f"第{i}个问题，说得长一些", f"第{i}个回答，也说得长一些。" * 9) for i in range(40)))
    assert count(summary) <= 600
    assert zh(summary) == summary
    assert zh(zh(summary)) == summary


def test_a_short_new_turn_behind_a_summary_with_room_changes_nothing_before_it() -> None:
    before = en("", Turn("first", "one"), Turn("second", "two"))
    assert en(before, Turn("third", "three")) == before + "\nthird → three"


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("locale", ["zh", "en"])
def test_forty_turns_all_keep_a_line_and_the_newest_says_most(locale: str, at_once: bool) -> None:
    ask, answer = (
        ("请讲讲主题{:02d}的要点和难点", "主题的要点是这样，难点是那样。首先要弄清定义，然后看例子，最后自己做题。")
        if locale == "zh"
        else (
            "topic {:02d}, its main points and pitfalls please",
            "The main point is this and the pitfall is that. "
            "Learn the definition, look at examples, then solve problems on your own.",
        )
    )
    turns = [Turn(ask.format(i), answer) for i in range(40)]
    summary = ""
    for batch in [turns] if at_once else [[turn] for turn in turns]:
        summary = summarize(summary, batch, count, 600, locale)
    assert 600 * 3 // 4 <= count(summary) <= 600
    assert len(lines(summary)) == 40
    for i, line in enumerate(lines(summary)):
        assert f"{i:02d}" in line
    sizes = [count(line) for line in lines(summary)]
    assert sizes[-1] >= 3 * sizes[0]
    assert "→" in lines(summary)[-1]


def test_one_word_that_was_asked_leaves_its_room_to_the_answer() -> None:
    turns = [
        Turn("go on", f"Chapter {i} tells of a voyage to the south and of what was found there.") for i in range(40)
    ]
    summary = en("", *turns)
    assert all(f"→ Chapter {i}" in line for i, line in enumerate(lines(summary)))


def test_when_there_is_no_room_for_a_few_words_each_the_oldest_go_and_are_counted() -> None:
    summary = en("", *(Turn(f"question number {i} of many that were asked", "yes") for i in range(300)))
    head, *rest = [line for line in summary.splitlines() if not line.startswith("(one turn")]
    gone = int(head.removeprefix("(").removesuffix(" earlier lines left out)"))
    assert gone + len(rest) == 300
    assert len(rest) > 30
    assert "number 299" in rest[-1]
    again = en(summary, *(Turn(f"question number {i} of many that were asked", "yes") for i in range(300, 310)))
    head, *rest = [line for line in again.splitlines() if not line.startswith("(one turn")]
    gone = int(head.removeprefix("(").removesuffix(" earlier lines left out)"))
    assert gone + len(rest) == 310


def test_a_models_summary_is_kept_as_it_is_while_there_is_room() -> None:
    prose = "用户在准备期末考试。助手给出了两套试卷，第二套降低了难度。"
    assert prose in zh(prose, Turn("封面用黑色", "已改。"))


def test_a_models_summary_shrinks_by_sentences_and_not_from_its_end() -> None:
    prose = "".join(f"第{i:02d}件事是用户要求助手把试卷改了一遍又一遍。" for i in range(20))
    summary = zh(prose, *(Turn(f"问题{i}，请详细说明", "回答得也很详细。" * 20) for i in range(10)))
    assert all(f"第{i:02d}件事" in summary for i in range(20))


def test_of_a_long_input_the_request_at_its_end_is_kept() -> None:
    text = "请看下面的材料。" + "树是一种数据结构，" * 500 + "完。请把以上材料总结成三点。"
    line = lines(zh("", Turn(text, "好")))[0]
    assert line.startswith("请看下面的材料。")
    assert "请把以上材料总结成三点。" in line


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("👨‍👩‍👧‍👦" * 200, "👨‍👩‍👧‍👦"),
        ("🇨🇳" * 300, "🇨🇳"),
        ("e\u0301" * 900, "e\u0301"),
    ],
)
def test_a_cut_leaves_whole_characters(text: str, start: str) -> None:
    kept = en("", Turn(text, ""), limit=60).removesuffix("…")
    assert kept == start * (len(kept) // len(start))
    assert kept


def test_a_cut_leaves_whole_words() -> None:
    ask = "photosynthesis chlorophyll mitochondria endoplasmic reticulum"
    summary = en("", *(Turn(ask, "") for _ in range(60)))
    for line in summary.splitlines()[1:]:
        assert set(line.rstrip("…").split()) <= set(ask.split())


def test_languages_may_change_between_folds_without_a_second_legend() -> None:
    summary = en(zh("", Turn("你好吗", "很好")), Turn("and you?", "fine"))
    assert summary.splitlines()[0].startswith("(one turn a line")
    assert lines(summary) == ["你好吗 → 很好", "and you? → fine"]


def test_nothing_folded_is_nothing() -> None:
    assert en("") == ""
    assert en("", Turn("", "")) == ""


TEXT = st.text(max_size=60) | st.lists(st.sampled_from("好。a 1.\n→…#*`|-？😀\u200d\u0301（）"), max_size=80).map(
    "".join
)
TURNS = st.lists(st.builds(Turn, TEXT, TEXT, st.sampled_from(RunOutcome)), max_size=12)


@settings(max_examples=150, deadline=None)
@given(previous=TEXT, turns=TURNS, limit=st.integers(0, 150), locale=st.sampled_from(["zh", "en"]))
def test_it_is_bounded_deterministic_and_settled(previous: str, turns: list[Turn], limit: int, locale: str) -> None:
    summary = summarize(previous, turns, count, limit, locale)
    assert count(summary) <= limit
    assert summary == summarize(previous, turns, count, limit, locale)
    assert summarize(summary, [], count, limit, locale) == summary


@settings(max_examples=150, deadline=None)
@given(turns=TURNS, locale=st.sampled_from(["zh", "en"]))
def test_every_character_was_said_or_is_one_of_its_own_marks(turns: list[Turn], locale: str) -> None:
    shown = frames(locale)
    marks = "→… ：:；;\n（）()代码code" + shown.failed_turn + shown.stopped_turn
    said = "".join(t.input + t.output for t in turns)
    assert set("\n".join(lines(summarize("", turns, count, 300, locale)))) <= set(said) | set(marks) | set(
        "0123456789 earlier lines left out更早的行从略"
    )


@pytest.mark.parametrize("unit", ["。", "a", "```\n", "→ ", "\n", "- ", "好的，", "e\u0301", "😀", "|", "#"])
def test_a_megabyte_of_anything_takes_a_line(unit: str) -> None:
    text = unit * ((1 << 20) // len(unit))
    assert count(zh("", Turn(text[: 1 << 18], text))) <= 600


def test_the_tokenizer_is_asked_seldom_and_about_pages_only() -> None:
    asked: list[int] = []

    def watched(text: str) -> int:
        asked.append(count(text))
        return asked[-1]

    summary = ""
    for i in range(80):
        asked.clear()
        summary = summarize(summary, [Turn(f"问题{i}，说来话长", "回答更长。" * 4000)], watched, 600, "zh")
        assert len(asked) <= 8
        assert max(asked) <= 1500
