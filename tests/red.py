"""How a row is held against the red lines, and a valid number of each kind that tests write in every dress."""

from __future__ import annotations

from stdnum import luhn
from stdnum.cn import ric

from memsvc.rules import redline

CARD = "622202100011223344" + luhn.calc_check_digit("622202100011223344")
ID = "11010119900307803" + ric.calc_check_digit("110101199003078030")
FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")
HAN = str.maketrans("0123456789", "零一二三四五六七八九")
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


def check(text: str, category: str | None) -> None:
    """Holds `text` against the one category it must be blocked for, or None for what is kept."""
    found = redline.find(text)
    seen = [(finding.category, text[finding.start : finding.end]) for finding in found]
    assert (category in {name for name, _ in seen}) if category else not seen, (text, seen)
