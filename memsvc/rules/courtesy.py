"""Inputs that only keep a conversation going: 好的, 谢谢, OK, thanks. They ask for nothing that could be recalled.

Without this an acknowledgement would bring back runs whose answers happen to begin with the same word. Who searches for
such a word means it; who says it to an agent does not.
"""

from __future__ import annotations

import re
import unicodedata

MAX_CHARACTERS = 60
"""A longer input says something."""

_TOKEN = re.compile(r"[\u3400-\u9fff]+|[^\W_]+(?:['’][^\W_]+)*")
_WORDS = frozenset(
    """ok okay k kk sure yes yeah yep yup no nope nah fine great good nice cool perfect awesome excellent thanks thank
    you so very much thx ty cheers got it that's understood noted right alright all sounds hello hi hey morning
    afternoon evening night bye goodbye welcome you're please continue go on ahead done lol haha""".split()
)
_PHRASES = frozenset(
    """好 好的 好吧 好啊 好呀 好嘞 好哒 好了 行 行吧 可以 可以的 没问题 对 对的 没错 是 是的 嗯 哦 噢 喔 啊
    收到 明白 明白了 知道了 了解 了解了 懂了 清楚了 谢谢 谢谢你 谢谢您 谢谢啦 多谢 感谢 非常感谢 辛苦了
    不客气 你好 您好 你好啊 嗨 早安 早上好 上午好 下午好 晚上好 晚安 再见 拜拜 继续 请继续 接着说 不 不用
    不用了 不是 不对 没有 没有了 没事 太好了 很好 非常好 挺好 真好 不错 很不错 棒 太棒了 真棒 厉害 哈 呵 嘿""".split()
)
_LONGEST = max(map(len, _PHRASES))


def is_courtesy(text: str) -> bool:
    """Says whether `text` holds such words and no other; an input without any word is none."""
    if len(text) > MAX_CHARACTERS:
        return False
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    return bool(tokens) and all(token in _WORDS or _is_phrases(token) for token in tokens)


def _is_phrases(token: str) -> bool:
    at = 0
    while at < len(token):
        length = next((n for n in range(_LONGEST, 0, -1) if token[at : at + n] in _PHRASES), 0)
        if not length:
            return False
        at += length
    return True
