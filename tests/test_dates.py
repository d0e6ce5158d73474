"""Dates in a question, in the ways people write them, and the day of a run."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.rules import dates
from memsvc.rules.terms import Kind, count_terms, kind_of, query_terms

DAY = ["@2024-01-05", "@2024-01"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did we do on 5 January 2024?", DAY),
        ("on the 5th of January, 2024", DAY),
        ("January 5, 2024", DAY),
        ("Jan 5th 2024", DAY),
        ("jan. 5 2024", DAY),
        ("2024-01-05", DAY),
        ("2024/1/5", DAY),
        ("05.01.2024", DAY),
        ("2024年1月5日的早报", DAY),
        ("2024 年 1 月 5 号", DAY),
        ("２０２４年１月５日", DAY),
        ("in January 2024", ["@2024-01"]),
        ("2024年1月", ["@2024-01"]),
        ("2024年1月份", ["@2024-01"]),
        ("1月5日", ["@01-05"]),
        ("on May 8", ["@05-08"]),
        ("the 8th of May", ["@05-08"]),
        ("from 2024-01-05 to 2024-02-06", [*DAY, "@2024-02-06", "@2024-02"]),
    ],
)
def test_a_date_is_read_however_it_is_written(text: str, expected: list[str]) -> None:
    assert [term.term for term in query_terms(text) if term.kind is Kind.DATE] == expected


@pytest.mark.parametrize(
    "text",
    [
        "may I have 5 dogs",
        "march on",
        "in May",
        "5月",
        "2024",
        "version 1.2.2024.7",
        "13月5日",
        "2024-13-05",
        "2024-01-32",
        "0月5日",
        "5 marches",
        "12024-01-05",
        "10.0.0.1",
        "",
    ],
)
def test_what_is_no_date_is_read_as_none(text: str) -> None:
    assert [term for term in query_terms(text) if term.kind is Kind.DATE] == []


def test_a_run_has_the_day_on_which_it_ended_where_the_daemon_stands() -> None:
    late = int(datetime(2024, 1, 5, 23, 30, tzinfo=UTC).timestamp()) * 1_000_000
    assert dates.of_time(late, UTC) == ("@2024-01-05", "@2024-01", "@01-05")
    assert dates.of_time(late, ZoneInfo("Asia/Shanghai")) == ("@2024-01-06", "@2024-01", "@01-06")


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_has_a_day_or_none(time_us: int) -> None:
    assert len(dates.of_time(time_us, ZoneInfo("Asia/Shanghai"))) in (0, 3)


def test_the_day_of_a_run_is_what_a_question_of_that_day_looks_up() -> None:
    noon = int(datetime(2024, 1, 5, 12, tzinfo=UTC).timestamp()) * 1_000_000
    asked = {t.term for t in query_terms("2024年1月5日")} | {t.term for t in query_terms("January 5")}
    assert set(dates.of_time(noon, UTC)) <= asked


@given(st.text("0123456789年月日./- abcmayjunest", max_size=60))
def test_a_date_is_never_a_term_of_a_text(text: str) -> None:
    assert all(kind_of(term) is not Kind.DATE for term in count_terms(text))
    assert len([t for t in query_terms(text) if t.kind is Kind.DATE]) <= 2 * 7 * dates.MAX_DATES


@pytest.mark.parametrize("text", ["1" * 1_048_576, "1月" * 300_000, "may " * 250_000, "2024-" * 200_000])
def test_a_mebibyte_of_digits_is_read_within_bounds(text: str) -> None:
    assert len(query_terms(text)) <= 64
