"""Every sentence of the console, Chinese and English side by side: key → (中文, English). A table for each area."""

from memsvc_console.texts import chat, common, context, conversations, cost, memory, problems

TEXTS: dict[str, tuple[str, str]] = {
    **common.TEXTS,
    **problems.TEXTS,
    **memory.TEXTS,
    **conversations.TEXTS,
    **context.TEXTS,
    **chat.TEXTS,
    **cost.TEXTS,
}
