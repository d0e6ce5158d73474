"""Identity numbers, cards, phones and addresses are found in every dress; numbers of other things are kept."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stdnum import luhn
from stdnum.cn import ric

from memsvc.rules import redline
from tests.red import ARABIC, CARD, FULL_WIDTH, HAN, ID, check

RESIDENT_IDS = [
    f"身份证号{ID}",
    f"张三的号码是{ID}请记住",
    f"身份证：{ID[:6]} {ID[6:14]} {ID[14:]}",
    f"身份证{ID.translate(FULL_WIDTH)}",
    f"证件 {ID.translate(HAN)}",
    f"证件 {ID.translate(ARABIC)}",
    "身份证" + "\u200b".join(ID),
    "-".join(ID),
    f"my id number is {ID}.",
    "身份证号 110101199001011234",
    "老身份证号110101900307851",
    "香港身份证 A123456(3)",
    "A123456789",
]
CARDS = [
    f"工资卡号{CARD}",
    "卡号 " + " ".join(CARD[i : i + 4] for i in range(0, len(CARD), 4)),
    f"{CARD}",
    "银行卡 6222 0200 0000 0000",
    "pay with 4242 4242 4242 4242",
    "amex 378282246310005",
    "my credit card number is 675900127803",
    "对公账户 1102 0201 0900 1234 567",
]
PHONES = [
    "用户的手机号是13812345678",
    "电话 138-1234-5678 可以找到他",
    "张三13812345678",
    "一三八一二三四五六七八是我的号",
    "电话是幺三九零零幺二三四五六",
    "+8613912345678",
    "0086 139 1234 5678",
    "1 3 8 1 2 3 4 5 6 7 8",
    "座机 010-62345678",
    "家里电话 62345678",
    "QQ：123456789",
    "my cell is 415-555-0132",
    "call me at (212) 555-0187",
    "+44 20 7946 0958",
]
OTHER_IDENTIFIERS = [
    ("护照号码E12345678", "passport"),
    ("护照 G 1234 5678", "passport"),
    ("EA1234567 是我的护照号", "passport"),
    ("My passport no. is C01234567", "passport"),
    ("港澳通行证 C12345678", "passport"),
    ("GB82 WEST 1234 5698 7654 32", "iban"),
    ("iban: DE89370400440532013000", "iban"),
    ("SSN 123-45-6789", "ssn"),
    ("my social security number is 123456789", "ssn"),
    ("ITIN 912-70-1234", "itin"),
    ("NINO AB123456C", "nino"),
    ("Aadhaar 2345 6789 0124", "aadhaar"),
    ("the NHS number 9434765919", "nhs"),
    ("邮箱：zhang_san@mail.example", "email"),
    ("write to jane.doe+work@mail.example.org", "email"),
]
NO_NUMBERS = [
    "订单号 214714782076 已发货",
    f"订单号：{CARD}",
    "运单号 SF1234567890123",
    "参考书 ISBN 978-7-302-51234-5",
    "条形码 6901234567892",
    "端口 8080 和 50051，版本 v2.3.1-rc4",
    "服务器 192.168.10.100 与 139.224.100.10",
    "2026-12-01 13:45:30",
    "时间戳 1733031930123",
    "手机预算 3000-4000 元",
    "价格 13,812,345,678 元",
    "圆周率 3.14159265358979323846",
    "12 24 36 48 60 72 84 96 108",
    "0 1 1 2 3 5 8 13 21 34 55",
    "chr1:138123-45678",
    "uuid 550e8400-e29b-41d4-a716-446655440000",
    "commit 9f8e7d6c5b4a39281706",
    "一二三四五六七八九十",
    "part number E12345678",
    "客服热线 10086",
    "git@github.com:owner/repository.git",
    "用户在做手机号校验的正则",
]


@pytest.mark.parametrize("text", RESIDENT_IDS)
def test_an_identity_number_is_found_in_every_dress(text: str) -> None:
    check(text, "resident_id")


@pytest.mark.parametrize("text", CARDS)
def test_a_card_or_an_account_is_found(text: str) -> None:
    check(text, "bank_card")


@pytest.mark.parametrize("text", PHONES)
def test_a_phone_number_is_found(text: str) -> None:
    check(text, "phone")


@pytest.mark.parametrize(("text", "category"), OTHER_IDENTIFIERS)
def test_an_identifier_of_letters_and_digits_is_found(text: str, category: str) -> None:
    check(text, category)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_number_of_something_else_is_kept(text: str) -> None:
    check(text, None)


SEPARATORS = st.sampled_from(["", " ", "-", "\u200b", "\u2060", " \u200d", "\u00ad"])
DRESSES = st.sampled_from([str.maketrans({}), FULL_WIDTH, HAN, ARABIC])
CARRIERS = st.sampled_from(
    [
        "用户说{}请记住",
        "我是{}。",
        "{}",
        "The user said {} and left",
        "联系王老师（{}）",
        "see {}, thanks",
        "记：{}；好",
    ]
)
BIRTHS = st.dates(min_value=datetime.date(1930, 1, 1), max_value=datetime.date(2025, 12, 31))


def dressed(number: str, groups: list[int], separator: str, dress: dict[int, str]) -> str:
    """Cuts `number` into groups, joins them with one separator, and writes its digits in another script."""
    cut, at = [], 0
    for size in groups:
        cut.append(number[at : at + size])
        at += size
    return separator.join([*cut, number[at:]]).translate(dress)


@given(
    st.sampled_from(["110101", "310104", "440305", "510107", "650102"]),
    BIRTHS,
    st.integers(0, 999),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    SEPARATORS,
    DRESSES,
    CARRIERS,
)
@settings(max_examples=150, deadline=None)
def test_any_valid_resident_id_is_found(
    place: str, birth: object, serial: int, groups: list[int], separator: str, dress: dict[int, str], carrier: str
) -> None:
    first = f"{place}{str(birth).replace('-', '')}{serial:03d}"
    number = first + ric.calc_check_digit(first + "0")
    check(carrier.format(dressed(number, groups, separator, dress)), "resident_id")


@given(
    st.sampled_from(["622202", "621700", "623058", "436742", "552245", "356600"]),
    st.integers(0, 10**9 - 1),
    st.sampled_from([[], [4, 4, 4], [6]]),
    SEPARATORS,
    DRESSES,
    CARRIERS,
)
@settings(max_examples=150, deadline=None)
def test_any_card_with_its_check_digit_is_found(
    bank: str, serial: int, groups: list[int], separator: str, dress: dict[int, str], carrier: str
) -> None:
    first = f"{bank}{serial:09d}"
    number = first + luhn.calc_check_digit(first)
    assert redline.find(carrier.format(dressed(number, groups, separator, dress)))


@given(
    st.integers(3, 9),
    st.integers(0, 10**9 - 1),
    st.sampled_from([[], [3, 4], [3, 3], [7]]),
    SEPARATORS,
    DRESSES,
    CARRIERS,
)
@settings(max_examples=150, deadline=None)
def test_any_mobile_number_is_found(
    second: int, rest: int, groups: list[int], separator: str, dress: dict[int, str], carrier: str
) -> None:
    assert redline.find(carrier.format(dressed(f"1{second}{rest:09d}", groups, separator, dress)))


def test_more_numbers_than_are_checked_are_blocked_by_their_look() -> None:
    wrong = "4111 1111 1111 1112 "
    assert redline.find(wrong) == []
    assert redline.find(wrong * 3000)
