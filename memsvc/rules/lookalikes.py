"""What a letter or a bracket can be dressed up as, so that a forgery reads as the thing it forges.

The tables hold what NFKC leaves alone: other scripts, small capitals, signs. Accents need no table, a letter's
decomposition names its base. One character always becomes one character, so that positions stay.
"""

from __future__ import annotations

import unicodedata

_LETTERS = {
    "a": "αаᴀ⍺ɑɐᎪꓮΑАⲀⲁ",
    "b": "ʙβВвΒꓐᏴьЬƅᖯ",
    "c": "сСᴄᏟꓚⲤⲥ¢ʗ",
    "d": "ԁᴅᎠꓓɗđðժ",
    "e": "еЕεΕᴇҽҾҿᎬꓰєЄ℮əɛⲈⲉ⋿ɘ",
    "f": "ғƒꜰꓝϜϝꞙբ",
    "g": "ɡɢցԌԍᏀꓖǥɠ",
    "h": "һҺНнʜΗᎻꓧհⲎⲏħЋћ",
    "i": "іІιΙɪıᎥӏӀꓲⵏɩꙇ⍳ⲒⲓǀƖا",
    "j": "јЈϳᴊꓙᎫʝյ",
    "k": "кКκΚᴋᏦꓗⲔⲕƙ",
    "l": "ʟᏞꓡłⳐⳑɭ",
    "m": "мМᴍΜᎷꓟⲘⲙϺϻɱ",
    "n": "ոռпηΝɴꓠⲚⲛИиɲƞŋ",
    "o": "оОοΟᴏօՕꓳσסⲞⲟөѳⵔ൦০๐øɵ",
    "p": "рРρΡᴘᏢꓑⲢⲣƿթ",
    "q": "ԛԚգզϙ",
    "r": "ʀᎡꓣгᴦƦяЯɾրⲄⲅ",
    "s": "ѕЅꜱᏚꓢՏʂƽ§ꞅʃ",
    "t": "тТτΤᴛᎢꓔⲦⲧ†ŧƭ",
    "u": "υսՍᴜꓴʋꭎ∪ц",
    "v": "νѵѴᴠᏙꓦ∨",
    "w": "ԝԜωᴡᎳꓪաшѡ",
    "x": "хХχΧꓫⲬⲭ×ᕁ",
    "y": "уУүҮʏΥꓬᎽყⲨⲩγұ",
    "z": "ᴢΖᏃꓜⲌⲍʐƶ",
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
    ":": "∶꞉ːˑ։׃᠄⁚ⵓ܃܄፡᛬",
    "#": "♯⌗",
    "/": "⁄∕╱⧸⟋〳",
    "_": "▁ˍ‿",
    "-": "‐‒−⁃",
    " ": "\u115f\u1160\u2800",
}
# Letters that Unicode keeps in a box or as half of a flag; each run is the alphabet in order.
_BOXED = (0x1F150, 0x1F170, 0x1F1E6)


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
        for first in _BOXED:
            self.update((first + i, chr(ord("a") + i)) for i in range(26))

    def __missing__(self, point: int) -> str:
        base = unicodedata.normalize("NFKD", chr(point))[:1]
        plain = self.get(ord(base)) or self.get(ord(base.lower()[:1])) or base.lower()
        # A syllable of Hangul is not its first consonant, and no folded form may be longer than its letter.
        self[point] = plain if len(plain) == 1 and not 0xAC00 <= point <= 0xD7A3 else chr(point)
        return self[point]


skeleton = Skeleton()
