"""What an OpenAI-compatible server answers, read as data: every field may be missing, of another type, or nonsense."""

from __future__ import annotations

import json
import re
from typing import Any, cast

_MAX_TOKENS = 2**31 - 1
_CUT_OFF = ("length", "content_filter")
_THOUGHT = re.compile(r"\s*[<◁](think|thinking|thought|reasoning|seed:think)[>▷]")


def decode(body: bytes) -> dict[str, Any] | None:
    """Returns the answer that a body holds, None where it holds no JSON object."""
    try:
        answer = json.loads(body.decode("utf-8"))
    except (
        ValueError,
        RecursionError,
    ):  # Not UTF-8, not JSON, a number of 5,000 digits; a thousand brackets.
        return None
    return answer if isinstance(answer, dict) else None


def tokens(answer: dict[str, Any]) -> tuple[int, int]:
    """Returns input and output tokens as reported; what is not a sensible number counts as not reported: 0."""
    usage = answer.get("usage")
    counts = cast("dict[str, Any]", usage) if isinstance(usage, dict) else {}
    numbers = (counts.get("prompt_tokens"), counts.get("completion_tokens"))
    first, second = (n if type(n) is int and 0 <= n <= _MAX_TOKENS else 0 for n in numbers)
    return first, second


def content(answer: dict[str, Any]) -> tuple[str, bool] | None:
    """Returns the first choice's text, without thoughts, and whether it was cut off; None where it is no completion.

    A message without content is an empty answer, and one with half a character is none.
    Some servers send the content in parts, their model's thoughts among them: the parts that are text count.
    """
    match answer.get("choices"):
        case [{"message": {"content": str(text)}, **rest}, *_]:
            pass
        case [{"message": {"content": None}, **rest}, *_]:
            text = ""
        case [{"message": {"content": list(parts)}, **rest}, *_]:
            text = "".join(_part(part) for part in parts)
        case _:
            return None
    if any("\ud800" <= char <= "\udfff" for char in text):
        return None
    return _without_thinking(text), rest.get("finish_reason") in _CUT_OFF


def ran_out(answer: dict[str, Any]) -> bool:
    """Says whether the first choice ended at the limit of its output."""
    match answer.get("choices"):
        case [{"finish_reason": "length"}, *_]:
            return True
        case _:
            return False


def _part(part: Any) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return ""


def _without_thinking(text: str) -> str:
    """Drops what a reasoning model thought aloud before it answered: `<think>…</think>` at the beginning, or its kin.

    Some chat templates open the block in the prompt, so that only its end is in the answer; a thought that was cut off
    before its end leaves nothing.
    """
    if opened := _THOUGHT.match(text):
        ended = re.compile(f"[<◁]/{opened[1]}[>▷]").search(text, opened.end())
        return text[ended.end() :].strip() if ended else ""
    head, end, tail = text.partition("</think>")
    return tail.strip() if end and "<think>" not in head else text
