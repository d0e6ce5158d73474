"""Numbers as people read them: whole ones, short ones for axes, and money."""

from __future__ import annotations

from decimal import Decimal

from memsvc_console.i18n import Language

STEPS: dict[Language, tuple[tuple[int, str], ...]] = {
    "zh": ((100_000_000, "亿"), (10_000, "万")),
    "en": ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")),
}
MICROS = 1_000_000


def count(number: int) -> str:
    """A whole number, its thousands apart."""
    return f"{number:,}"


def short(number: int, language: Language) -> str:
    """A number in few characters, rounded to three digits: 12.3k, 1.23万."""
    for step, name in STEPS[language]:
        if abs(number) >= step:
            return f"{_trimmed(Decimal(f'{number / step:.3g}'))}{name}"
    return count(number)


def money(micros: int, currency: str) -> str:
    """An amount with its currency. Exact below one unit: a call costs a fraction of a cent."""
    return f"{amount(micros)} {currency}".rstrip()


def amount(micros: int) -> str:
    """An amount without its currency."""
    exact = Decimal(micros) / MICROS
    if abs(micros) >= MICROS:
        return f"{exact:,.2f}"
    whole, _, cents = f"{exact:f}".partition(".")
    return f"{whole}.{cents.ljust(2, '0')}"


def percent(part: int, whole: int) -> str:
    """A part of a whole; one that is there is never shown as none, and one that is not all never as all."""
    if not whole or not part:
        return "0%"
    if part >= whole:
        return f"{round(100 * part / whole)}%"
    return "<1%" if 100 * part < whole else f"{min(99, round(100 * part / whole))}%"


def _trimmed(number: Decimal) -> str:
    text = f"{number:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
