"""What a forgery of structure looks like, kind by kind, as tables of words and the patterns made of them.

Patterns read the skeleton of a text (folded, lower case, look-alikes made plain, line ends made line feeds) behind
one line feed. A match names by group what loses its force: `open`, `close`, `colon`, `paren`, `unparen`, `seam`. What
is put in their place belongs to no pattern, so what was disarmed is not found again. Repetitions are bounded or
possessive, and every pattern starts with one character or a small class: linear, whoever writes the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from memsvc.rules.frames import LOCALES, frames

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""What `str.splitlines()` ends a line at."""
SQUARE_OPEN, SQUARE_CLOSE = r"\[【〔〖〚", r"\]】〕〗〛"
ANGLE_OPEN, ANGLE_CLOSE = "<〈", ">〉"
CLOSERS = SQUARE_CLOSE + ANGLE_CLOSE
"""Brackets, as they stand in a pattern's character class."""

# Writers of forgeries put digits for letters; readers, and models, read letters. A c may have been a lunate sigma.
_LETTER_FORMS = {
    "a": "[a4@]",
    "c": "[cς]",
    "e": "[e3]",
    "i": "[i1l!|]",
    "m": "(?:m|rn)",
    "o": "[o0]",
    "s": "[s5$ς]",
    "t": "[t7+]",
}
# Words are listed in simplified characters and found in traditional ones.
_TRADITIONAL = dict(
    zip(
        "统户员开发级优权设规则讯会话历识库检结实请轮该过关题输机类馈",
        "統戶員開發級優權設規則訊會話歷識庫檢結實請輪該過關題輸機類饋",
        strict=True,
    )
)
_BETWEEN = r"[\s_.·•*~|/\\-]{0,3}"
_BLANK = rf"[^\S{BREAKS}]"
_LINE = "\n"
# Signs that decorate; full width ones are there as well, text of Chinese and ASCII alone is not folded.
_SYMBOLS = "！～\u2000-\u2027\u202a-\u2bff\U0001f000-\U0001faff"
_LEAD = rf"(?:{_BLANK}|[>#*_~\"'`=|+\\/{{(（「^@$&·{_SYMBOLS}-])*+"
_LABEL_LEAD = rf"(?:{_BLANK}|[>#*_~\"'`=|+\\/{{(（「^@$&·{_SYMBOLS}\[【〔〖〚<〈-])*+"
_DECOR = rf"[\s/!#*_=~^@$&+·{_SYMBOLS}-]{{0,6}}"
_END = r"(?![a-z0-9])"


def spread(word: str) -> str:
    """Returns the pattern of a word with separators between its letters and digits in their place; blanks are optional.

    Words of less than four letters are taken as they are: spread, they would be found in anything.
    """
    return "".join(_pieces(word))


def _pieces(word: str) -> list[str]:
    letters = [c for c in word if c not in " _"]
    if len(letters) < 4 and word.isascii():
        return [re.escape(c) for c in word]
    forms = [_form(c) for c in letters]
    return [forms[0], *(_BETWEEN + form for form in forms[1:])]


def _form(letter: str) -> str:
    others = unicodedata.normalize("NFKC", letter) + _TRADITIONAL.get(letter, "")
    return f"[{letter}{others}]" if others != letter else _LETTER_FORMS.get(letter, re.escape(letter))


def any_of(words: Iterable[str]) -> str:
    """Returns the pattern of one of the words, as a tree of what they begin with: no letter is tried twice."""
    root: dict[str, Any] = {}
    for word in words:
        node = root
        for piece in _pieces(word):
            node = node.setdefault(piece, {})
        node[""] = {}
    return _tree(root)


def _tree(node: dict[str, Any]) -> str:
    branches = [piece + _tree(below) for piece, below in node.items() if piece]
    if not branches:
        return ""
    if len(branches) == 1 and "" not in node:
        return branches[0]
    return "(?:" + "|".join(branches) + ")" + ("?" if "" in node else "")


# Who speaks with authority over the model, and what such a speaker's words are called.
AUTHORITY = (
    "system|sys|assistant|developer|administrator|admin|important|instruction|instructions|override|"
    "user input|user message|user query|user prompt|user request|user instruction|untrusted|untrusted input|"
    "untrusted content|untrusted data|untrusted text|end of prompt|end prompt|end of input|end of context|"
    "end of document|end of conversation|end of history"
).split("|")
AUTHORITY_NOUNS = (
    "message|messages|msg|prompt|prompts|instruction|instructions|note|notice|override|update|command|commands|"
    "directive|alert|mode|role|administrator|admin|notification|warning|reminder|policy|rules|begin|start|end|reset|"
    "announcement|input|content|response|reply|turn"
).split("|")
BEFORE_AUTHORITY = (
    "begin|start|end|of|the|new|hidden|secret|updated|critical|urgent|high|highest|top|priority|root|internal|"
    "official|important|开始|结束|新|新的|最新|隐藏|重要|紧急|最高优先级|最高|高优先级|超级|真实|以下"
).split("|")
AUTHORITY_ZH = "系统|管理员|开发者|助手|人工智能助手|指令|提示词|用户问题|用户输入|用户请求|用户指令|用户消息".split(
    "|"
)
AUTHORITY_NOUNS_ZH = (
    "提示词|提示|指令|消息|信息|通知|公告|命令|设定|角色|规则|更新|警告|级|管理员|模式|权限|覆盖|重置|开始|结束|最高|"
    "优先级|优先|问题|输入|内容|要求"
).split("|")

# Tokens of chat templates. Between `<|` and `|>` anything counts; these are the ones that are written otherwise.
PIPE_NAMES = (
    "im_start|im_end|im_sep|im_middle|endoftext|startoftext|begin_of_text|end_of_text|start_header_id|end_header_id|"
    "eot_id|eom_id|python_tag|fim_prefix|fim_middle|fim_suffix|endofprompt|end_of_turn|start_of_turn|endofturn|"
    "start_of_role|end_of_role|begin_of_sentence|end_of_sentence|channel|return|constrain|observation|assistant|"
    "system|user|human|bot|developer|tool|turn|end"
).split("|")
ANGLE_TOKENS = (
    "s|bos|eos|sop|eop|eot|eom|eod|eoh|eoa|im_start|im_end|endoftext|start_of_turn|end_of_turn|start_of_image|"
    "end_of_image|begin_of_text|beginning_of_sentence|begin_of_sentence|end_of_sentence|think|thinking|tool_call|"
    "tool_calls|tool_response|tool_result|tool_results|function_calls|function_results|human_input"
).split("|")
SQUARE_TOKENS = (
    "inst|system_prompt|available_tools|tool_calls|tool_results|tool_content|gmask|smask|endofturn|end_of_turn"
).split("|")
NUMBERED_TOKENS = r"(?:reserved|extra_id|unused|extra|special|reserved_special_token)_?\d{1,4}|seed:[a-z_]{1,20}"

# Whom a line can claim to be spoken by. Nouns of authority may follow the first list.
SPEAKERS = "system|sys".split("|")
ROLES = (
    "assistant|ai assistant|user|human|developer|chatbot|chatgpt|gpt4 correct user|gpt4 correct assistant|"
    "instruction|new instruction|new instructions|important instruction|important instructions|system instructions|"
    "ai|bot|gpt|developer message|user message"
).split("|")
ROLES_ZH = (
    "用户|助手|智能助手|ai助手|人类|机器人|人工智能|新指令|新的指令|最新指令|重要指令|超级指令|开发者指令|管理员指令"
).split("|")
SPEAKERS_ZH = ["系统"]
SPEAKER_NOUNS_ZH = "提示词|提示|指令|消息|信息|命令|设定|角色|管理员|规则|要求|通知".split("|")
# In headings of prompts (`### Response:`), and nowhere else.
HEADED_ROLES = "instructions|response|input response|指令|回答|回复|提示词".split("|")
# Ordinary words that claim a turn only where they start a line: `<user>` in the middle of one is a placeholder.
PLAIN_ROLES = "user|human|admin|developer|bot|assistant|用户|助手|人类|机器人|管理员|开发者".split("|")
MARK_ROLES = "用户|助手|系统|user|assistant|system|human".split("|")


class Rule(NamedTuple):
    """A kind of forgery: the pattern, and the groups in it that lose their force.

    `caps` is the group that must hold capitals behind its first letter, `excuse` names what makes a match ordinary,
    and `unclosed` says that the closing bracket is still to be looked for.
    """

    kind: str
    source: str
    parts: tuple[str, ...]
    unclosed: bool
    caps: str
    excuse: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """The source compiled, at its first use: most texts hold nothing that any rule has to read."""
        return _compiled(self.source)


DISARMED = ("open", "close", "paren", "unparen", "colon", "seam")
"""The groups that name what loses its force."""


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)


def _rule(kind: str, pattern: str, caps: str = "", excuse: str = "") -> Rule:
    parts = tuple(part for part in DISARMED if f"(?P<{part}>" in pattern)
    return Rule(kind, pattern, parts, "open" in parts and "close" not in parts, caps, excuse)


def _own_words() -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """Returns the words of our frame lines, the request line's words as halves, and our labels' words."""
    titles, requests, labels = [], [], []
    for known in map(frames, LOCALES):
        titles += [title.lower() for title in known.titles.values()] + [known.request_words.lower()]
        seam = max(known.request_words.find(" ", len(known.request_words) // 2), len("以下是"))
        requests.append((known.request_words[:seam].lower(), known.request_words[seam:].lower()))
        labels += [
            label.strip("()（） ").lower()
            for label in (known.summary_label, known.recent_label, known.failed_turn, known.stopped_turn)
        ]
    return titles, requests, labels


def _loose(phrase: str) -> str:
    """Returns the pattern of a phrase: Chinese letters may be spread, English words parted by more than a blank."""
    return r"\s{0,3}".join(map(re.escape, phrase.split(" "))) if phrase.isascii() else spread(phrase)


_TITLES, _REQUESTS, _LABELS = _own_words()
_SQ, _SC, _AO, _AC = SQUARE_OPEN, SQUARE_CLOSE, ANGLE_OPEN, ANGLE_CLOSE
_WHO = rf"(?:(?:{any_of(BEFORE_AUTHORITY)}[\s_-]{{0,2}}){{0,4}}{any_of(AUTHORITY)}{_END})"
_WHO_TAIL = rf"(?:{_BETWEEN}{any_of(AUTHORITY_NOUNS)}{_END}){{0,3}}"
_WHO_ZH = (
    rf"(?:(?:{any_of(BEFORE_AUTHORITY)}{_BETWEEN}){{0,3}}{any_of(AUTHORITY_ZH)}"
    rf"(?:{_BETWEEN}{any_of(AUTHORITY_NOUNS_ZH)}){{0,4}})"
)
_STOP = rf"{_DECOR}[!！]{{0,3}}(?:[{CLOSERS}]|\s{{0,2}}[:：](?!:)|\s{{0,2}}[—–]|\s-\s|[!！]\s)"
_TEXT_TO_CLOSE = rf"[^{_SQ}{_AO}{BREAKS}]{{0,100}}[{CLOSERS}]"
_LABEL_WHO = (
    rf"(?:{any_of(SPEAKERS)}{_END}{_WHO_TAIL}|{any_of(ROLES)}{_END}|{any_of(ROLES_ZH)}|"
    rf"{any_of(SPEAKERS_ZH)}(?:{_BETWEEN}{any_of(SPEAKER_NOUNS_ZH)}){{0,3}})"
)
_LABEL_END = (
    rf"(?:{_BLANK}{{0,2}}[(（{_SQ}{_AO}][^{BREAKS}:：]{{0,24}}?[)）{_SC}{_AC}]|{_BLANK}?\d{{1,3}}{_END})?"
    rf"(?:{_BLANK}|[*_\"'`~=#)）{_SC}{_AC}-]){{0,6}}(?P<colon>[:：])(?!:|//)"
)

RULES: tuple[Rule, ...] = (
    # Chat template tokens. Some servers read them as tokens wherever they stand, so nothing excuses them.
    _rule("token", r"(?P<open><)(?=\|[^\s|<>]{1,48}\|\s{0,2}(?P<close>>))"),
    _rule(
        "token",
        rf"(?P<open><)(?=\s{{0,2}}\|\s{{0,2}}{any_of(PIPE_NAMES)}\s{{0,2}}(?:\|\s{{0,2}}(?P<close>>)?|>))",
    ),
    _rule("token", rf"(?P<open><)(?={any_of(PIPE_NAMES)}\|(?P<close>>))"),
    _rule("token", rf"(?P<open>[{_SQ}])(?=\|\s{{0,2}}{any_of(PIPE_NAMES)}\s{{0,2}}\|\s{{0,2}}(?P<close>[{_SC}]))"),
    _rule(
        "token",
        rf"(?P<open>[{_AO}])(?=\s{{0,2}}/?\s{{0,2}}(?:{any_of(ANGLE_TOKENS)}|{NUMBERED_TOKENS})"
        rf"\s{{0,2}}/?\s?(?P<close>[{_AC}]))",
        excuse="generic",
    ),
    _rule(
        "token",
        rf"(?P<open>[{_SQ}])(?=\s{{0,2}}/?\s{{0,2}}(?:{any_of(SQUARE_TOKENS)}|unused_token_\d{{1,4}})"
        rf"\s{{0,2}}(?P<close>[{_SC}]))",
        excuse="generic",
    ),
    _rule(
        "token",
        rf"(?P<open><{{2,4}}|[«《])(?=\s{{0,2}}/?\s{{0,2}}(?:sys|inst|{any_of(['system', 'user', 'assistant'])})"
        rf"{_WHO_TAIL}\s{{0,2}}(?P<close>>{{2,4}}|[»》]))",
    ),
    _rule("token", rf"(?P<open>\{{\{{)(?=\s?[#/~]\s?{any_of(['system', 'user', 'assistant'])})"),
    # Our own frame lines, marks and labels.
    _rule("frame", rf"(?P<open>[{_SQ}{_AO}{{])(?=\s{{0,3}}{any_of(_TITLES)})"),
    *(_rule("request", f"{_loose(head)}{_BETWEEN}(?P<seam>){_loose(tail)}") for head, tail in _REQUESTS),
    _rule("label", rf"(?P<paren>[(（])(?=\s{{0,3}}{any_of(_LABELS)}\s{{0,3}}(?P<unparen>[)）])?)"),
    _rule("mark", rf"(?P<open>〈)(?=\s{{0,2}}/?{any_of(MARK_ROLES)}\s{{0,2}}(?P<close>[{_AC}]))"),
    # Words of authority in brackets.
    _rule("bracket", rf"(?P<open>[{_SQ}])(?={_DECOR}(?:{_WHO}{_WHO_TAIL}|{_WHO_ZH}){_STOP})", excuse="code"),
    _rule(
        "bracket",
        rf"(?P<open>[{_SQ}])(?={_DECOR}(?P<word>{any_of(['system', 'important', 'instruction', 'override'])}|sys)"
        rf"{_BLANK}{_TEXT_TO_CLOSE})",
        caps="word",
        excuse="code",
    ),
    _rule("bracket", rf"(?P<open>[{_SQ}])(?={_DECOR}{spread('系统')}{_BLANK}{_TEXT_TO_CLOSE})", excuse="code"),
    _rule("bracket", rf"(?P<open>\[)(?={_DECOR}{spread('重要')}(?:{any_of(AUTHORITY_NOUNS_ZH)}){{0,3}}{_STOP})"),
    _rule(
        "tag",
        rf"(?P<open>[{_AO}])(?=\s{{0,3}}/?\s{{0,3}}(?!(?:developer|admin)\s?[/>〉])(?:{_WHO}{_WHO_TAIL}|{_WHO_ZH})"
        rf"\s{{0,3}}/?\s?[{_AC}])",
        excuse="code",
    ),
    _rule(
        "tag",
        rf"(?P<open>[{_AO}])(?=/?(?!(?:developer|admin)\s?[/>〉])(?:{_WHO}{_WHO_TAIL}|{_WHO_ZH})(?:[\s：=]|:(?!\w{{1,40}}\s?/?>)){_TEXT_TO_CLOSE})",
        excuse="code",
    ),
    # Turns that a line claims.
    _rule(
        "turn",
        rf"{_LINE}(?P<lead>{_LEAD})(?P<open>[{_SQ}{_AO}])\s{{0,2}}{any_of(PLAIN_ROLES)}\s{{0,2}}(?P<close>[{CLOSERS}])",
        excuse="record",
    ),
    _rule("turn", rf"{_LINE}(?P<lead>{_LABEL_LEAD})(?P<who>{_LABEL_WHO}){_LABEL_END}", excuse="entry"),
    _rule("turn", rf"#(?<!##)#++{_BLANK}{{0,3}}(?:{_LABEL_WHO}|{any_of(HEADED_ROLES)}){_LABEL_END}"),
    _rule("turn", rf"(?P<word>i(?<![a-z0-9_]i)nstructions?){_LABEL_END}", caps="word"),
    _rule("turn", rf"(?P<word>a(?<![a-z0-9_]a)ssistant){_LABEL_END}", caps="word"),
    _rule(
        "banner",
        rf"{_LINE}(?:{_BLANK}|>)*+(?P<open>[#=*~_+<>-]{{3,40}}+){_BLANK}{{0,3}}"
        rf"(?:(?:{any_of(BEFORE_AUTHORITY)}[\s_-]{{0,2}}){{0,4}}"
        rf"(?:{any_of(['system', 'assistant', 'user input', 'user prompt', 'user message', 'user query'])}"
        rf"{_END}{_WHO_TAIL}|{_WHO_ZH}))[!！.:：]{{0,3}}{_BLANK}{{0,3}}(?P<close>[#=*~_+<>-]{{3,40}}+)",
    ),
)

# Most texts hold none of this. A quick look at each finds what every rule needs: a sign that opens something and,
# behind it, a word of any list. Only texts in which it finds one are read rule by rule. Each look starts with one
# literal sign, which the engine finds at the speed of memory.
_OPENED = [
    *(BEFORE_AUTHORITY + AUTHORITY + AUTHORITY_ZH + PIPE_NAMES + SQUARE_TOKENS + PLAIN_ROLES + MARK_ROLES),
    *(word for word in ANGLE_TOKENS if len(word) > 3),
    *("重要", "reserved", "extra", "special", "unused", "seed", *_TITLES),
]
_CLAIMED = SPEAKERS + ROLES + ROLES_ZH + SPEAKERS_ZH
_WORD_AHEAD = rf"[\s/!#*_=~|^@$&+·{_SYMBOLS}-]{{0,8}}{any_of(_OPENED)}"
_ANGLED = rf"(?:{_WORD_AHEAD}|\|[^\s|<>]{{1,48}}\||\s{{0,2}}/?\s{{0,2}}[a-z]{{1,3}}\s{{0,2}}/?\s?[{_AC}])"
_LOOKS = {
    "[": _WORD_AHEAD,
    "{": _WORD_AHEAD,
    "<": _ANGLED,
    **dict.fromkeys("(（", rf"\s{{0,3}}{any_of(_LABELS)}"),
    "#": rf"(?<!##)#++{_BLANK}{{0,3}}{any_of(_CLAIMED + HEADED_ROLES)}",
    "\n": rf"(?:{_LABEL_LEAD}{any_of(_CLAIMED)}[^{BREAKS}:：]{{0,120}}[:：]|"
    rf"(?:{_BLANK}|>)*+[#=*~_+<>-]{{3,40}}+{_BLANK}{{0,3}}{any_of(_OPENED + _CLAIMED)})",
}
_GATES = [(sign, re.escape(sign) + look) for sign, look in _LOOKS.items()]
_RARE_SIGNS = "【〔〖〚«《〈"
_RARE_GATE = f"[{_RARE_SIGNS}]{_ANGLED}"
# These need no sign before them, and start with a letter that few texts are searched long for.
_ANYWHERE = [rule for rule in RULES if rule.kind == "request" or (rule.kind == "turn" and rule.caps)]


def suspect(plain: str) -> bool:
    """Says whether a skeleton can hold a match of any rule; a quick look that may say yes where there is none."""
    for sign, gate in _GATES:
        if sign in plain and _compiled(gate).search(plain):
            return True
    if any(sign in plain for sign in _RARE_SIGNS) and _compiled(_RARE_GATE).search(plain):
        return True
    return any(rule.pattern.search(plain) for rule in _ANYWHERE)
