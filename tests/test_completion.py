"""What a completion says, as a pure reading: thoughts, parts, and answers that are none."""

from __future__ import annotations

from typing import Any

import pytest

from memsvc.rules.completion import content


def answer(said: object) -> dict[str, Any]:
    """A completion whose message has this content."""
    return {"choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("<think>hm</think>\n\nThey talked.", "They talked."),
        ("\n<think>\n</think>\nThey talked.", "They talked."),
        ("so they did</think>They talked.", "They talked."),
        ("<think>hm, and then", ""),
        ("They talked of <think> and </think> tags.", "They talked of <think> and </think> tags."),
        ("They talked of <think> tags.", "They talked of <think> tags."),
        (" They talked. ", " They talked. "),
        ("<thinking>hm</thinking>They talked.", "They talked."),
        ("<thought>of </think></thought> They talked.", "They talked."),
        ("<reasoning>hm</reasoning>\nThey talked.", "They talked."),
        ("<seed:think>hm</seed:think>They talked.", "They talked."),
        ("◁think▷hm◁/think▷They talked.", "They talked."),
        ("<thinking>hm", ""),
        ("They talked of </reasoning> tags.", "They talked of </reasoning> tags."),
    ],
)
def test_what_was_thought_aloud_is_not_the_answer(said: str, expected: str) -> None:
    assert content(answer(said)) == (expected, False)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([{"type": "text", "text": "They "}, {"type": "text", "text": "talked."}], "They talked."),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Yes."}],
            "Yes.",
        ),
        ([{"type": "text", "text": "<think>hm</think>"}, {"type": "text", "text": "Yes."}], "Yes."),
        ([{"type": "image_url", "image_url": {"url": "x"}}], ""),
        ([{"type": "text", "text": 7}, {"type": "text"}, "Yes.", None, []], ""),
        ([], ""),
    ],
)
def test_a_content_in_parts_is_its_texts(parts: list[object], expected: str) -> None:
    assert content(answer(parts)) == (expected, False)


def test_half_a_character_in_a_part_is_no_completion() -> None:
    assert content(answer([{"type": "text", "text": "\ud83d"}])) is None
