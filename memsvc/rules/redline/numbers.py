"""Numbers that name a person or an account: resident IDs, cards, phones, and what other countries use instead.

A number is a run of digit groups; a candidate begins and ends where groups do, so that no slice of an order number or
of a timestamp is taken for a phone. What has a strong check digit is found wherever it stands; what has a weak one, or
none, needs the shape people write it in or a word beside it that says what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import phonenumbers
from stdnum import luhn
from stdnum.cn import ric
from stdnum.gb import nhs
from stdnum.in_ import aadhaar
from stdnum.us import ssn

from memsvc.rules.redline.page import HAN_DIGITS, Finding, Page

# Up to three marks between two digits: more is another number. A comma or a full stop may stand in it, a letter not.
_RUN = re.compile(r"\d(?:[ \t\u00a0.,:/_*~·•|()\-‐‑‒–—―−~]{0,3}\d){6,}+(?:[ .\-]{0,2}[xX](?![A-Za-z]))?")
# ASCII, so that a Chinese letter is no word character and `\b` stands between it and a Latin word.
_WORDS = re.IGNORECASE | re.ASCII
# 张三13812345678: where Chinese digits and others meet, one number ends and another begins.
_GROUP = re.compile(rf"[0-9]+|[{HAN_DIGITS}]+")
_LETTERS_BEFORE = re.compile(r"[A-Za-z0-9_]*\Z")
_LONGEST = 19
# Candidates judged in one text. Beyond it every further run of digits counts as found: a text with more numbers than
# that is no fact and no summary, and too much is blocked rather than too little or too slowly.
_JUDGED_MAX = 20_000

_PROVINCE = r"(?:1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]|71|8[1-3]|91)"
_RESIDENT = re.compile(_PROVINCE + r"\d{4}(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[0-9X]")
_CARD = re.compile(
    r"4\d{12}(?:\d{3})?(?:\d{3})?|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11,16}|35\d{14,17}"
    r"|[56]\d{15,18}|(?:95[5-9]\d|940\d)\d{12,15}|1\d{14}"
)
_MOBILE = re.compile(r"(?:(?:00)?86)?1[3-9]\d{9}")
_LANDLINE = re.compile(r"(?:(?:00)?86)?0(?:10|2\d|[3-9]\d{2})[2-9]\d{6,7}")
_NANP = re.compile(r"1?[2-9]\d\d[2-9]\d{6}")
_ITIN = re.compile(r"9\d\d(?:5\d|6[0-5]|7\d|8[0-8]|9[0-24-9])\d{4}")

_ID_WORD = re.compile(
    r"身份证|身份號|身份号|身分证|证件号|证号码|公民身份|居民证|户口|社保号|社会保障号|\bid[ -]?(?:card|"
    r"no|num|code|#)|"
    r"identity|\bnational id|resident id|citizen id|shenfenzheng|\bsfz",
    _WORDS,
)
_CARD_WORD = re.compile(
    r"卡号|银行卡|信用卡|储蓄卡|借记卡|工资卡|银联|存折|(?:银行|收款|转账|打款|汇款|工资)(?:账|帐)[号户]|"
    r"\b(?:credit|debit|bank|visa|master|amex|payment|atm)[ -]?cards?\b|行卡|绑定的?卡|"
    r"卡[ :是为的]{0,3}\Z|\bcards?\b|\bvisa\b|mastercard|\bamex\b|unionpay|\bcc\b",
    _WORDS,
)
_ACCOUNT_WORD = re.compile(
    r"(?:银行|收款|转账|打款|汇款|工资|对公|个人)(?:账|帐)[号户]|开户行|bank (?:account|acct)|"
    r"account (?:no|num)|\brouting",
    _WORDS,
)
_MOBILE_WORD = re.compile(
    r"手机|电话|联系方式|联系我|联络|致电|拨打|打给|微信|短信|号码|\btel\b|\bphone|\bmobile|\bcell|\bcall|"
    r"\btext|whatsapp|\bcontact|\breach",
    _WORDS,
)
_PHONE_LABEL = re.compile(
    r"(?:电话|座机|固话|号码|传真|来电|致电|拨打|\btel(?:ephone)?|\bphone|\bmobile|\bcell(?:phone)?|\bfax|whatsapp|"
    r"\b(?:call|text|ring|reach|phone|contact|dial)(?: (?:me|us|him|her|them))?(?: (?:back|up))?(?: (?:at|on))?)"
    r"(?:号码|号|[ ]?numbers?|[ ]?no\.?|[ ]?#)?(?: (?:is|was|at|on)|是|为|[:=])?(?: at| on)?[ :(+]{0,4}\Z",
    _WORDS,
)
_QQ_LABEL = re.compile(r"(?:QQ|扣扣|企鹅号)(?:号码|号)?(?:是|为|:)?[ :]{0,3}\Z", _WORDS)
_SSN_WORD = re.compile(r"\bssn\b|social security|\bitin\b|taxpayer|社会安全号|\btax id", _WORDS)
_NHS_WORD = re.compile(r"\bnhs\b|health service", _WORDS)
_AADHAAR_WORD = re.compile(r"aadhaar|aadhar|\buidai?\b", _WORDS)
_OTHER_WORD = re.compile(
    r"订单|流水|运单|快递|物流|单号|编号|序列|条码|条形码|工单|发票|合同|货号|批号|版本|时间戳|"
    r"\borders?\b|tracking|invoice|serial|\bsku\b|ticket|\bref\b|reference|transaction|shipment|isbn|issn|"
    r"imei|\buuid\b|"
    r"timestamp|version|\bhash\b|\bcommit\b|\bbuild\b|barcode|\bean\b|\bupc\b|\bdoi\b",
    _WORDS,
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Digits from the start of one group to the end of another: where they stand, and how they are cut."""

    page: Page
    digits: str
    sizes: tuple[int, ...]
    marks: str
    start: int
    end: int
    bare: bool

    def labelled(self, word: re.Pattern[str], back: int = 28, ahead: int = 14) -> bool:
        """Says whether `word` stands beside, in the same sentence, and no word of another number stands nearer."""
        lead = self.page.before(self.start, back)
        own = _last(word, lead)
        if own >= 0:
            return own >= _last(_OTHER_WORD, lead)
        return word.search(self.page.after(self.end, ahead)) is not None

    def called_otherwise(self) -> bool:
        """Says whether the words before call it an order, an ISBN, a version …"""
        lead = self.page.before(self.start, 24)
        own = _last(_OTHER_WORD, lead)
        rest = lead[own:]
        return own >= 0 and len(rest) <= 8 and not _MOBILE_WORD.search(rest) and "人" not in rest

    def regular(self) -> bool:
        """Says whether it is cut the way a card is: not at all, in equal groups, or 4-6-5 and its like."""
        sizes = self.sizes
        even = all(size == sizes[0] for size in sizes[:-1]) and sizes[-1] <= sizes[0]
        return (
            len(sizes) == 1 or even or sizes in {(4, 6, 5), (4, 6, 4), (6, 13), (6, 10), (4, 4, 4, 4, 3), (4, 4, 4, 6)}
        )


def _last(word: re.Pattern[str], text: str) -> int:
    """Returns where the last `word` of `text` ends; -1 when there is none."""
    found = -1
    for match in word.finditer(text):
        found = match.end()
    return found


def find(page: Page) -> Iterator[Finding]:
    """Yields the numbers of `page` that may not be kept. Linear: a run is cut at most 19 ways at each of its "
    "groups."""
    left = _JUDGED_MAX
    bare = len(page.digits) <= 64 and not any(c.isalpha() for c in page.digits)
    for run in _RUN.finditer(page.digits):
        groups = [m.span() for m in _GROUP.finditer(page.text, run.start(), run.end())]
        check_x = run.end() if run[0][-1] in "xX" else -1
        done = run.start()
        for first, (start, _) in enumerate(groups):
            if start < done:
                continue
            if left <= 0:
                yield page.finding("bank_card", start, run.end())
                break
            for candidate in _candidates(page, groups, first, check_x, bare):
                left -= 1
                category = _judge(candidate)
                if category:
                    yield page.finding(category, candidate.start, candidate.end)
                    done = candidate.end
                    break


def _candidates(
    page: Page, groups: list[tuple[int, int]], first: int, check_x: int, bare: bool
) -> Iterator[_Candidate]:
    """Yields what begins with group `first`, the longest first, of 5 to 23 digits and at most one closing X."""
    start = groups[first][0]
    sizes: list[int] = []
    total = 0
    ends: list[int] = []
    for begin, end in groups[first : first + _LONGEST + 4]:
        if total + end - begin > _LONGEST + 4:
            break
        sizes.append(end - begin)
        total += end - begin
        ends.append(end)
    if not sizes or _inside_word(page, start):
        return
    for count in range(len(sizes), 0, -1):
        end = ends[count - 1]
        piece = page.digits[start:end]
        digits = piece if count == 1 else "".join(c for c in piece if c.isdigit())
        if len(digits) < 5:
            return
        marks = "" if count == 1 else "".join(c for c in piece if not c.isdigit())
        if check_x >= 0 and first + count == len(groups) and len(digits) == 17:
            yield _Candidate(page, digits + "X", (*sizes[:count],), marks, start, check_x, bare)
        if page.digits[end : end + 1].isascii() and page.digits[end : end + 1].isalpha() and end != check_x - 1:
            continue
        yield _Candidate(page, digits, (*sizes[:count],), marks, start, end, bare)


def _inside_word(page: Page, start: int) -> bool:
    """Says whether the digits at `start` go on a token that had digits before, as in a hash."""
    token = _LETTERS_BEFORE.search(page.text[max(0, start - 12) : start])
    return token is not None and any(c in "0123456789" for c in token[0])


def _judge(candidate: _Candidate) -> str | None:
    for category, rule in _RULES:
        if rule(candidate):
            return category
    return None


def _is_resident_id(c: _Candidate) -> bool:
    if _RESIDENT.fullmatch(c.digits) and ric.calc_check_digit(c.digits) == c.digits[-1]:
        return True
    # One mistyped digit does not make it another thing: what is called an ID number and is as long as one, is one.
    return 15 <= len(c.digits) <= 18 and c.labelled(_ID_WORD)


def _is_bank_card(c: _Candidate) -> bool:
    size = len(c.digits)
    if not 8 <= size <= _LONGEST:
        return False
    if size >= 12 and c.labelled(_CARD_WORD):
        return True
    if c.labelled(_ACCOUNT_WORD):
        return True
    if not (c.regular() and _CARD.fullmatch(c.digits)) or c.called_otherwise():
        return False
    return bool(luhn.is_valid(c.digits))


def _is_mobile(c: _Candidate) -> bool:
    if not _MOBILE.fullmatch(c.digits):
        return False
    local = c.sizes[1:] if c.sizes[0] <= 4 and c.digits.startswith(("86", "0086")) else c.sizes
    # Two halves are 138-12345678 or 1381234-5678; 138123-45678 is a place in a genome.
    grouped = len(local) <= 4 and min(local) >= 3 and (len(local) != 2 or local[0] in {3, 4, 7})
    shaped = len(c.sizes) == 1 or grouped or max(local) == 1
    return (shaped and not c.called_otherwise()) or c.labelled(_MOBILE_WORD)


def _is_called_phone(c: _Candidate) -> bool:
    """What stands right behind 电话, call me at … or QQ, whatever the country."""
    size = len(c.digits)
    lead = c.page.before(c.start, 30)
    if 5 <= size <= 11 and len(c.sizes) == 1 and _QQ_LABEL.search(lead):
        return True
    shaped = 7 <= size <= 15 and len(c.sizes) <= 5 and min(c.sizes[1:], default=7) >= 2
    # 电话会议 10.30-12.00 and prices have such marks; a phone that short has none.
    counted = size < 10 and not {",", "/", "."}.isdisjoint(c.marks)
    return shaped and not counted and _PHONE_LABEL.search(lead) is not None


def _is_shaped_phone(c: _Candidate) -> bool:
    """International numbers behind a plus, Chinese landlines, and the 3-3-4 of North America."""
    if c.page.text[max(0, c.start - 2) : c.start].strip(" (").endswith("+"):
        return 8 <= len(c.digits) <= 15 and len(c.sizes) <= 6 and _possible(c.digits)
    if _LANDLINE.fullmatch(c.digits):
        return (2 <= len(c.sizes) <= 4 and "-" in c.marks) or c.labelled(_MOBILE_WORD)
    american = _NANP.fullmatch(c.digits) is not None and c.sizes in {(3, 3, 4), (1, 3, 3, 4)}
    return american and "," not in c.marks and not c.called_otherwise()


def _possible(digits: str) -> bool:
    """Says whether some country has numbers that begin so and are as long. Possible, not assigned: plans change."""
    try:
        return bool(phonenumbers.is_possible_number(phonenumbers.parse("+" + digits)))
    except phonenumbers.NumberParseException:
        return False


def _is_ssn(c: _Candidate) -> bool:
    if len(c.digits) != 9:
        return False
    if c.labelled(_SSN_WORD):
        return True
    valid = ssn.is_valid(f"{c.digits[:3]}-{c.digits[3:5]}-{c.digits[5:]}")
    return c.sizes == (3, 2, 4) and _one_mark(c) and bool(valid) and not c.called_otherwise()


def _is_itin(c: _Candidate) -> bool:
    if not _ITIN.fullmatch(c.digits):
        return False
    return (c.sizes in {(3, 2, 4), (3, 6), (5, 4)} and not c.called_otherwise()) or (c.bare and len(c.sizes) == 1)


def _is_nhs(c: _Candidate) -> bool:
    if len(c.digits) != 10:
        return False
    if c.labelled(_NHS_WORD):
        return True
    return (
        (c.sizes == (3, 3, 4) or (c.bare and len(c.sizes) == 1))
        and bool(nhs.is_valid(c.digits))
        and not c.called_otherwise()
    )


def _is_aadhaar(c: _Candidate) -> bool:
    if len(c.digits) != 12:
        return False
    if c.labelled(_AADHAAR_WORD):
        return True
    return (
        ((c.sizes == (4, 4, 4) and _one_mark(c)) or (c.bare and len(c.sizes) == 1))
        and bool(aadhaar.is_valid(c.digits))
        and not c.called_otherwise()
    )


def _one_mark(c: _Candidate) -> bool:
    return len(set(c.marks)) == 1


# The order is that of certainty: what the first claims, the others are not asked about.
_RULES: tuple[tuple[str, Callable[[_Candidate], bool]], ...] = (
    ("resident_id", _is_resident_id),
    ("phone", _is_mobile),
    ("phone", _is_called_phone),
    ("phone", _is_shaped_phone),
    ("itin", _is_itin),
    ("ssn", _is_ssn),
    ("nhs", _is_nhs),
    ("aadhaar", _is_aadhaar),
    ("bank_card", _is_bank_card),
)
