"""What a letter or a bracket can be dressed up as, so that a forgery reads as the thing it forges.

The tables hold what NFKC leaves alone: other scripts, small capitals, signs. Accents need no table, a letter's
decomposition names its base. One character always becomes one character, so that positions stay.
"""

from __future__ import annotations

import re
import unicodedata

# Latin letters of every make are not listed, their names say which letter they are.
_LETTERS = {
    "a": "αаɑɐ⍺ᎪꓮⲀᗅ𐊠",
    "b": "βвᏏꓐᏴьƅᖯᗷᑲꞴ𐊂𐌁",
    "c": "сᏟꓚⲤ¢ʗ𐐽𐌂𐊢",
    "d": "ԁᎠꓓðժᏧᑯᗞᗪꓒ",
    "e": "еεҽҿᎬꓰє℮əɛⲈ⋿ɘⴹ𐊆",
    "f": "ғꓝϝᖴꞙբք𐊇𐊥",
    "g": "ɡցԍᏀᏳꓖƍ",
    "h": "һнΗᎻᏂꓧհⲎћᕼ𐋏",
    "i": "іιıᎥӏꓲⵏɩꙇ⍳ⲒǀƖا𐌠𐌉𐊊",
    "j": "јϳꓙᎫյᒍ",
    "k": "кκᏦꓗⲔᛕ",
    "l": "Ꮮꓡℓᒪⳑ𐐛",
    "m": "мΜᎷꓟⲘϻᗰᛖ𐊰𐌑",
    "n": "ոռпηΝꓠⲚиᑎ𐔓",
    "o": "оοօꓳσסⲞөѳⵔᴑჿഠဝዐଠ𐓂𐊒𐊫𐐄〇○◯",
    "p": "рρᏢꓑⲢթᑭ⍴𐊕",
    "q": "ԛգզϙⵕ",
    "r": "ᎡᏒƦꓣгᴦяɾրⲄᖇꭇꭈ",
    "s": "ѕƽᏚᏕꓢՏ§ꞅʃᔕ𐊖𐐠",
    "t": "тτᎢꓔⲦ†⊤⟙丅𐊗𐊱𐌕",
    "u": "υսꓴʋ∪⋃цᑌሀ𐓎",
    "v": "νѵᏙꓦ∨⋁ᐯⴸ𐔝",
    "w": "ԝωᎳᏔꓪաшѡɯ",
    "x": "хχꓫⲬ×ᕁ᙭╳ⵝ⤫⤬⨯᙮ᚷ𐊐𐌗",
    "y": "уγүʏΥꓬᎽᎩყⲨұ𐊲",
    "z": "ΖᏃꓜⲌ𐋵",
}
_SIGNS = {
    "[": "⁅⟦❲⦋⦍⦏⦗⌈⌊⎡⎣⸢⸤⟬",
    "]": "⁆⟧❳⦌⦎⦐⦘⌉⌋⎤⎦⸣⸥⟭",
    "<": "˂ᐸ≺⋖⧼ᑅ◁◂",
    ">": "˃ᐳ≻⋗⧽▷▸",
    "〈": "‹⟨❮❰〈",
    "〉": "›⟩❯❱〉",
    "«": "≪⟪⋘《",
    "»": "≫⟫⋙》",
    "(": "❨❪⦅⸨﴾",
    ")": "❩❫⦆⸩﴿",
    "{": "❴⦃",
    "}": "❵⦄",
    "|": "¦∣│┃❘⏐丨ᅵ⎸⎹┆┊▏",
    ":": "∶꞉ː˸ˑ։׃᠃᠄᠉⁚ⵓ܃܄፡᛬ꓽः",
    "#": "♯⌗",
    "/": "⁄∕╱⧸⟋〳",
    "_": "▁ˍ‿",
    "-": "‐‒−⁃",
    " ": "\u115f\u1160\u2800",
    "\n": "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029",
}
CACHED_LIMIT = 1 << 16
"""Characters whose plain form is kept. More than any text of people holds; hostile ones must not fill the memory."""
_LATIN = re.compile(r"(?:LATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL )?|SYMBOL LETTER )([A-Z])(?: WITH .*)?$")


class Skeleton(dict[int, str]):
    """For `str.translate`: a folded character's lower-case plain form; what has none stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        pairs = [(c, plain) for table in (_LETTERS, _SIGNS) for plain, dressed in table.items() for c in dressed]
        self.update((ord(c), plain) for c, plain in pairs)
        # The other case of a look-alike is one as well, unless a table says what else it looks like.
        for c, plain in pairs:
            for form in c.lower() + c.upper():
                self.setdefault(ord(form), plain)
        # NFKC makes the lunate sigmas, which look like c, into these two: patterns take ς for both c and s.
        self[ord("Σ")] = self[ord("ς")] = "ς"

    def __missing__(self, point: int) -> str:
        plain = _plain(chr(point)) or self._base(point)
        if len(self) < CACHED_LIMIT:
            self[point] = plain
        return plain

    def _base(self, point: int) -> str:
        """Returns the plain form of what a letter is without its accents; syllables of Hangul are left whole."""
        base = unicodedata.normalize("NFKD", chr(point))[:1]
        if 0xAC00 <= point <= 0xD7A3 or not base:
            return chr(point)
        plain = self.get(ord(base)) or _plain(base) or base.lower()
        return plain if len(plain) == 1 else chr(point)


def _plain(char: str) -> str:
    """Returns the letter that a Latin letter of whatever make is, the digit of a digit, of all others nothing."""
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    found = _LATIN.search(unicodedata.name(char, ""))
    return found[1].lower() if found else ""


skeleton = Skeleton()
