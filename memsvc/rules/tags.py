"""Our tag in anybody else's words. A block says that lines with its tag are boundaries, and an agent can be talked into
repeating what it was shown: so a tag that was learnt that way means nothing in what is quoted.
"""

from __future__ import annotations

from memsvc.rules.lookalikes import skeleton
from memsvc.rules.text import view

HASHES = "#＃﹟♯⌗"
MASK = "x"


def disown(text: str, tag: str) -> str:
    """Returns `text` with every `#tag` masked, however it is dressed up: `#3fa9c1` is shown as `#xxxxxx`.

    The length stays, so that positions and cuts do, and so does all that is not our tag behind a hash. Linear in the
    length: what stands between two hashes is looked at once.
    """
    places = [at for sign in HASHES if sign in text for at in _places(text, sign)]
    if not places:
        return text
    wanted = _plain(tag)
    pieces, done = [], 0
    for start in sorted(places):
        if end := _tag_end(text, start, wanted):
            pieces += [text[done:start], MASK * (end - start)]
            done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _places(text: str, sign: str) -> list[int]:
    """Returns where a tag could begin: behind each `sign` that no other follows at once."""
    places = []
    at = text.find(sign) + 1
    while at:
        if text[at : at + 1] not in HASHES:
            places.append(at)
        at = text.find(sign, at) + 1
    return places


def _tag_end(text: str, start: int, wanted: str) -> int:
    """Returns where the tag ends that begins at `start`, blanks and what nobody sees before and within it; 0: none."""
    matched = 0
    for at in range(start, len(text)):
        plain = _plain(text[at])
        if not plain or (plain == " " and not matched):
            continue
        if not wanted.startswith(plain, matched):
            return 0
        matched += len(plain)
        if matched == len(wanted):
            return at + 1
    return 0


def _plain(text: str) -> str:
    return view(text).text.translate(skeleton)
