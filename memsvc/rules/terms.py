"""Text becomes terms: the words, characters and pairs of characters that recall looks up.

Chinese has no spaces, so it is read as single characters and as overlapping pairs; Latin words are folded and
stemmed; `C盘`, `API配置` and `v2.3` are found whole and in parts. Function words of both languages are no terms.
A term is a plain string and its kind can be read off it, so nothing but the string need be kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from operator import add

import snowballstemmer

from memsvc.rules import dates
from memsvc.rules.text import view

MAX_TERMS_RUN = 2_000
"""Distinct terms one run may bring into the index; what its input says comes first."""
MAX_TERMS_HEAD = 600
"""Distinct terms the beginning of an answer may add, and"""
MAX_TERMS_TAIL = 200
"""its end, which sums up."""
MAX_TERMS_QUERY = 64
"""Distinct terms one query may look up; the heaviest kinds first, then those nearest to its ends."""

_MAX_CHARACTERS = 65_536  # of each text; long before that, running Chinese has used up MAX_TERMS_RUN
_TAIL_CHARACTERS = 1_000  # of a long answer that are read once more from its end
_MAX_QUERY_END = 4_096  # characters of a long query that are read at either end
_PIECE_CHARACTERS = 256  # of a run of Chinese that are turned into terms at a time
_REMEMBERED_PAIRS = 65_536  # neighbours in Chinese whose terms are remembered: ten megabytes
_MAX_WORD = 64  # characters; a longer "word" is a key, a blob or an attack, and is looked up by its beginning

# Scripts written without spaces: kana, Han with its extensions, Hangul syllables.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_FIRST_CJK = "\u3040"
_WORD = rf"[^\W_{_CJK}]+(?:'[^\W_{_CJK}]+)*"
_TOKEN = re.compile(rf"[{_CJK}]+|{_WORD}(?:[.\-_/+#@&:]{_WORD})*(?:\+\+|#)?")
_PART = re.compile(_WORD)
_PIECE = re.compile(r"\d+|[^\W\d_]+(?:'[^\W\d_]+)*")
_IS_CJK = re.compile(rf"[{_CJK}]")
_ALL_CJK = re.compile(rf"[{_CJK}]+")

_stemmer = snowballstemmer.stemmer("english")
_stem: Callable[[str], str] = _stemmer.stemWord

_STOP_WORDS = frozenset(
    """a about after all also am an and any are aren't as at be because been before being between both but by can
    can't could couldn't did didn't do does doesn't doing don't down each few for from had has have having he he'd
    he'll he's her here hers him his how i i'd i'll i'm i've if in into is isn't it it's its just let let's me more
    most my no nor not of off on once only or other our ours out over own please same she she'd she'll she's should
    shouldn't so some such than that that's the their theirs them then there there's these they they're they've this
    those through to too under until up us very was wasn't we we'd we'll we're we've were weren't what what's when
    where which while who who's whom whose why will with won't would wouldn't yes you you'd you'll you're you've
    your yours s t d ll m re ve""".split()
)
# Words of English questions that are seldom what is asked about: light verbs, nouns that stand for any other. They are
# terms, and a question that has them looks them up, but they say less.
_LIGHT_WORDS = frozenset(
    _stem(word)
    for word in """many much kind type sort way thing something anything everything someone might may must long often
    usually currently recently still ever since until mention say said tell told talk get got go went gone make made
    take took use want like think know happen done give gave name come back""".split()
)
# The same in Chinese, and the words that everyday talk is full of whatever it is about: a scope of such talk need not
# show first how common they are. They count as little as a pair with a function word.
_LIGHT_PAIRS = frozenset(
    """种类 类型 方式 方法 东西 事情 情况 问题 内容 名字 名称 意思 提到 说过 谈到 使用 想要 喜欢 认为 发生 出现 进行
    最近 目前 通常 一般 经常 仍然 起来 可能 一起 开始 成为 推荐 建议 工作 学习 生活 今天 明天 昨天 今年 明年 去年
    今晚 早上 晚上 下午 上午 天气 时间 公司 朋友 家人 孩子 学校 电影 音乐 运动 旅行 旅游 周末 上次 下次 选择 希望
    感觉 计划 安排 准备 帮助 提供 分享 心情 放松 健康 身体 压力 看看 试试 中国 世界 国家 参加 认识 开心 高兴 享受
    尝试 保持 提高 努力 经历 方面 活动 第一 每天 最好 最后 晚饭 吃饭 回家 出去 电话 手机 电脑 爱好 兴趣 城市 年轻
    特别 当然 谢谢 相关 知识 目标 变化 影响 关系 结果 原因 作用 部分 一定 许多""".split()
)
# Characters of grammar, seldom of a topic: none is a term, nor are two of them; with another one it is a weak pair.
_STOP_CHARS = frozenset(
    "的了是在我你他她它们这那有和与及或就也都不没很吗呢吧啊呀哦嘛么什哪谁怎"
    "把被给让从到对向跟会能要想可以为之其而所等着过得地个些"
)
_STOP_PAIRS = frozenset(
    """如何 为何 何时 何地 请问 一个 一些 一下 一种 多少 几个 时候 因为 所以 但是 如果 虽然 然后 还是 还有 以及
    并且 而且 或者 关于 现在 是否 知道 告诉 帮我 请帮 觉得 应该 需要 已经 非常 比较 这样 那样 这里 那里
    自己 大家""".split()
)


class Kind(StrEnum):
    """What a term is; how common such terms are in general follows from it (see ranking)."""

    WORD = "word"  # a Latin word or a mixed token
    SHORT = "short"  # one Latin letter, or a number of one or two digits
    PAIR = "pair"  # two adjacent characters, or a word and the character it touches
    LOOSE = "loose"  # a pair of which one is a function word, or any word that says little
    CHAR = "char"  # a single character
    DATE = "date"  # the day or month on which a run ended (see dates)


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A term of a query and what kind it is."""

    term: str
    kind: Kind


def count_terms(*texts: str) -> dict[str, int]:
    """Returns the terms of `texts` with how often each occurs, in order of first occurrence.

    At most `MAX_TERMS_RUN` distinct ones: when they are used up, reading stops. The first text may bring them all; each
    other one, an answer, `MAX_TERMS_HEAD` from its beginning and, where that is not all of it, `MAX_TERMS_TAIL` from
    its end. Never raises.
    """
    counts: Counter[str] = Counter()
    for text in texts[:1]:
        _count(counts, text[:_MAX_CHARACTERS], MAX_TERMS_RUN)
    for text in texts[1:]:
        if not _count(counts, text[:_MAX_CHARACTERS], len(counts) + MAX_TERMS_HEAD):
            _count(counts, text[-_TAIL_CHARACTERS:], len(counts) + MAX_TERMS_TAIL)
    return dict(counts)


def run_terms(own_input: str, output: str, ended_us: int, zone: tzinfo) -> dict[str, int]:
    """Returns what a completed run brings into the index: the terms of its texts and of the day on which it ended."""
    return count_terms(own_input, output) | dict.fromkeys(dates.of_time(ended_us, zone), 1)


def _count(counts: Counter[str], text: str, most: int) -> bool:
    """Adds the terms of a text until there are `most`; tells whether it was read to its end."""
    most = min(most, MAX_TERMS_RUN)
    for terms in _terms(_folded(text)):
        if len(counts) + len(terms) <= most:
            counts.update(terms)
            continue
        for term in terms:
            if term in counts:
                counts[term] += 1
            elif len(counts) < most:
                counts[term] = 1
            else:
                return False
    return True


def query_terms(text: str) -> tuple[QueryTerm, ...]:
    """Returns what to look up for `text`: at most `MAX_TERMS_QUERY` distinct terms, none for function words alone.

    Of a long text both ends are read, because that is where people put the question. A date that it names is looked up
    as such, beside the words it is written with.
    """
    if len(text) > 2 * _MAX_QUERY_END:
        text = text[:_MAX_QUERY_END] + "\n" + text[-_MAX_QUERY_END:]
    folded = _folded(text)
    terms = list(dict.fromkeys(chain(dates.mentioned(folded), *_terms(folded))))
    if len(terms) > MAX_TERMS_QUERY:
        last = len(terms) - 1
        order = sorted(range(len(terms)), key=lambda i: (_READ_FIRST[kind_of(terms[i])], min(i, last - i)))
        terms = [terms[i] for i in sorted(order[:MAX_TERMS_QUERY])]
    return tuple(map(_query_term, terms))


@lru_cache(maxsize=65_536)
def _query_term(term: str) -> QueryTerm:
    return QueryTerm(term, kind_of(term))


_READ_FIRST = {Kind.DATE: 0, Kind.WORD: 0, Kind.PAIR: 0, Kind.SHORT: 1, Kind.LOOSE: 2, Kind.CHAR: 3}


def kind_of(term: str) -> Kind:
    """Returns the kind of a term that this module, or `dates`, made."""
    if term[0] == dates.SIGN:
        return Kind.DATE
    if len(term) == 1:
        return Kind.CHAR if _IS_CJK.match(term) else Kind.SHORT
    if _IS_CJK.match(term[0]) or _IS_CJK.match(term[-1]):
        loose = term[0] in _STOP_CHARS or term[-1] in _STOP_CHARS or term in _LIGHT_PAIRS
        return Kind.LOOSE if loose else Kind.PAIR
    if len(term) == 2 and term.isdecimal():
        return Kind.SHORT
    return Kind.LOOSE if term in _LIGHT_WORDS else Kind.WORD


def is_function_character(character: str) -> bool:
    """Tells whether a character is one of grammar, which is no term by itself."""
    return character in _STOP_CHARS


def is_cjk(term: str) -> bool:
    """Tells whether a term is made of characters written without spaces, and of nothing else."""
    return _ALL_CJK.fullmatch(term) is not None


def _folded(text: str) -> str:
    """Returns a text as it is read for terms: however its letters are put together, and without accents on Latin ones.

    What a Mac's file names or a phone's keyboard send as two characters is the same letter to whoever looks for it.
    """
    if text.isascii():
        return view(text).text.casefold()
    if not unicodedata.is_normalized("NFC", text) or _HALF_WIDTH_MARK.search(text):
        text = unicodedata.normalize("NFKC", text)  # before the view, which looks at one character at a time
    folded = view(text).text.casefold().replace("’", "'")
    return folded.translate(_unaccented) if _ACCENTED.search(folded) else folded


_HALF_WIDTH_MARK = re.compile("[\uff9e\uff9f]")  # of Japanese, a character of its own behind the one it marks
_ACCENTED = re.compile("[\u00e0-\u024f\u0300-\u036f\u1e00-\u1eff]")


class _Unaccented(dict[int, str]):
    """Latin letters without their accents; ø and æ, which are letters of their own, stay."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if _ACCENTED.match(char):
            char = "".join(c for c in unicodedata.normalize("NFD", char) if unicodedata.category(c) != "Mn")
        if len(self) < _REMEMBERED_PAIRS:
            self[code] = char
        return char


_unaccented = _Unaccented()


def _terms(folded: str) -> Iterator[list[str]]:
    """Yields the terms in order, some hundreds at a time, so that whoever has enough need not read to the end."""
    terms: list[str] = []
    end, last, last_chinese = -1, "", False
    for match in _TOKEN.finditer(folded):
        token = match.group()
        start = match.start()
        # People write both `API配置` and `API 配置`: where the scripts meet, one space joins.
        touches = last and (start == end or (start == end + 1 and folded[end] == " "))
        if token[0] >= _FIRST_CJK and _IS_CJK.match(token):
            if touches and not last_chinese:
                terms.append(last + token[0])
            terms += _chinese[token[0]]
            for at in range(1, len(token), _PIECE_CHARACTERS):
                if at > 1:
                    yield terms
                    terms = []
                pairs = map(add, token[at - 1 :], token[at : at + _PIECE_CHARACTERS])
                terms += chain.from_iterable(map(_terms_of, pairs))
            last, last_chinese = token[-1], True
        else:
            word = token[:_MAX_WORD]
            if touches and last_chinese:
                terms.append(last + word)
            terms += _latin(word)
            last, last_chinese = word, False
        end = match.end()
        if len(terms) >= _PIECE_CHARACTERS:
            yield terms
            terms = []
    yield terms


class _Chinese(dict[str, tuple[str, ...]]):
    """The terms that a character brings: given alone where a text begins with it, else behind the one before it."""

    def __missing__(self, pair: str) -> tuple[str, ...]:
        char = pair[-1]
        weak = char in _STOP_CHARS
        terms: tuple[str, ...] = () if weak else (char,)
        if len(pair) == 2 and not (weak and pair[0] in _STOP_CHARS) and pair not in _STOP_PAIRS:
            terms = (*terms, pair)
        if len(self) < _REMEMBERED_PAIRS:
            self[pair] = terms
        return terms


_chinese = _Chinese()
_terms_of = _chinese.__getitem__


@lru_cache(maxsize=65_536)
def _latin(token: str) -> tuple[str, ...]:
    """The terms of one token. Cached: real texts repeat their words, and the stemmer takes 15 µs for each."""
    parts = _PART.findall(token)
    terms = []
    if len(parts) > 1 or (token != parts[0] and token not in _STOP_WORDS):
        terms.append(token)
    for part in parts:
        pieces = _PIECE.findall(part)
        for word in (part, *pieces) if len(pieces) > 1 else (part,):
            if word not in _STOP_WORDS:
                terms.append(_stem(word))
    return tuple(terms)
