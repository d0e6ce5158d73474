"""What a notice says: one sentence of what happened and one of what to do, in the language of the deployment."""

from __future__ import annotations

from memsvc.model import NoticeKind
from memsvc.rules.provider import BUILTIN

_TEXTS = {
    "zh": {
        NoticeKind.PROVIDER_CHANGE: "记忆整理改由“{to}”完成，而对话由“{origin}”提供。如不希望如此，请检查提供方设置。",
        NoticeKind.UNKNOWN_PROVIDER: (
            "对话使用了未配置的提供方“{origin}”，记忆整理改由“{to}”完成。请在 memsvc.toml 中配置它。"
        ),
        NoticeKind.ALLOWANCE_SPENT: "今日的记忆整理额度已用完，整理工作将在明日继续。对话本身不受影响。",
    },
    "en": {
        NoticeKind.PROVIDER_CHANGE: (
            "Memory work is done by “{to}”, while the conversations are served by “{origin}”. "
            "If that is not wanted, check the provider settings."
        ),
        NoticeKind.UNKNOWN_PROVIDER: (
            "Conversations name the provider “{origin}”, which is not configured; memory work is done by “{to}”. "
            "Configure it in memsvc.toml."
        ),
        NoticeKind.ALLOWANCE_SPENT: (
            "Today's allowance for memory work is spent; it goes on tomorrow. Conversations are not affected."
        ),
    },
}
_BUILTIN = {"zh": "内置摘要器", "en": "the builtin summarizer"}
_NOBODY = {"zh": "无", "en": "nobody"}


def text(kind: NoticeKind, from_provider: str, to_provider: str, locale: str) -> str:
    """Returns the text of a notice; provider names are configured ones or, where unknown, the runner's own.

    A runner's may hold anything: what cannot be printed becomes a replacement character, so a notice stays one line.
    """
    to = _BUILTIN[locale] if to_provider == BUILTIN else to_provider or _NOBODY[locale]
    return _TEXTS[locale][kind].format(origin="".join(c if c.isprintable() else "\ufffd" for c in from_provider), to=to)
