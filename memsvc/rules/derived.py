"""What is computed of a run when it comes in, recorded or imported, and kept with it."""

from __future__ import annotations

from typing import NamedTuple
from zoneinfo import ZoneInfo

from memsvc.model import RunOutcome
from memsvc.rules.shown import Renderer, encode, prepare, script
from memsvc.rules.terms import run_terms

_LOOKED_AT = 2_000  # characters; a text without a letter in so many has no script


class Derived(NamedTuple):
    """The language of a run, how a block shows it (rules/shown.py), and its terms: None where it is not recalled."""

    locale: str
    whole: int
    shown: str
    terms: dict[str, int] | None


def spoken_in(text: str, locale: str) -> str:
    """Returns the language whose script a text is in, `locale` where it is in none."""
    return script(text) if any(c.isalpha() for c in text[:_LOOKED_AT]) else locale


def derive(
    own_input: str, output: str, outcome: RunOutcome, ended_us: int, renderer: Renderer, zone: ZoneInfo, locale: str
) -> Derived:
    """Returns it for a run of these words, which ended then; `locale` is that of words without a script."""
    spoken = spoken_in(own_input or output, locale)
    shown = prepare(own_input, output, outcome, spoken, renderer.meter)
    recalled = outcome is RunOutcome.COMPLETED
    terms = run_terms(own_input, output, ended_us, zone) if recalled else None
    return Derived(spoken, *encode(shown, own_input, output), terms)
