"""Our tag in anybody else's words. A block says that lines with its tag are boundaries, and an agent can be talked into
repeating what it was shown: so a tag that was learnt that way means nothing in what is quoted.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memsvc.rules.lookalikes import CACHED_LIMIT, skeleton
from memsvc.rules.text import view

HASHES = "#＃﹟♯⌗"
MASK = "x"
# Of many in a row only the last one has anything behind it.
_HASH = re.compile(f"[{HASHES}](?=[^{HASHES}])")


def disown(text: str, tag: str) -> str:
    """Returns `text` with every `#tag` masked, however it is dressed up: `#3fa9c1` is shown as `#xxxxxx`.

    The length stays, so that positions and cuts do, and so does all that is not our tag behind a hash. Linear in the
    length: what stands between two hashes is looked at once.
    """
    if not any(sign in text for sign in HASHES):
        return text  # To look for one letter is the fastest there is, and most texts end here.
    wanted = "".join(map(_plain, tag))
    pieces, done = [], 0
    for found in _HASH.finditer(text):
        start = found.end()
        if end := _tag_end(text, start, wanted):
            pieces += [text[done:start], MASK * (end - start)]
            done = end
    return "".join([*pieces, text[done:]]) if pieces else text


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


@lru_cache(CACHED_LIMIT)
def _plain(char: str) -> str:
    """Returns what a character reads as, nothing of one that shows nothing; in lower case."""
    return view(char).text.translate(skeleton)
