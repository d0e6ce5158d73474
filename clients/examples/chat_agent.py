"""An agent that remembers, in one loop: ask memory, ask the model, tell memory. Any OpenAI-compatible endpoint will do;
Ctrl-C stops an answer, and what there was of it is remembered as such.

    python clients/examples/chat_agent.py --base-url http://127.0.0.1:11434/v1 --model qwen2.5:3b
    echo "出一份数据结构试卷" | python clients/examples/chat_agent.py --model … --thread-key exam
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from memsvc_client import Memory, MemsvcError, Scope
from openai import APIError, OpenAI
from openai.types.chat import ChatCompletionMessageParam

HELP = """/context [TEXT]   what the agent would remember for TEXT (or for your last message)
/threads          your conversations, the latest first
/open ID          go on with one of them
/new              start another one
/quit             leave (so does Ctrl-D)"""

TALKING = sys.stdin.isatty()


class Chat:
    """Where the conversation stands: whose it is, in which thread, and what was said last."""

    def __init__(self, memory: Memory, model: OpenAI, options: argparse.Namespace) -> None:
        self.memory = memory
        self.model = model
        self.options = options
        self.scope = Scope(options.tenant, options.agent, options.user)
        self.thread = ""
        self.thread_key = options.thread_key
        self.said = ""

    def answer(self, text: str) -> None:
        """One run: the block of memory before the input, the answer as it streams, the record when the block ends."""
        self.said = text
        with self.memory.run(self.scope, self.thread, text, thread_key="" if self.thread else self.thread_key) as run:
            run.provider, run.model = self.options.provider, self.options.model
            messages: list[ChatCompletionMessageParam] = [
                {"role": "system", "content": self.options.system},
                {"role": "user", "content": run.prompt},
            ]
            stream = self.model.chat.completions.create(
                model=run.model, messages=messages, stream=True, stream_options={"include_usage": True}
            )
            run.output = ""
            with stream:
                for chunk in stream:
                    if chunk.usage:
                        run.usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
                    for choice in chunk.choices:
                        piece = choice.delta.content or ""
                        run.output += piece
                        print(piece, end="", flush=True)
        self.thread = run.thread_id

    def command(self, line: str) -> None:
        """A line that is for this program and not for the agent."""
        name, _, rest = line.partition(" ")
        if name == "/context":
            asked = rest or self.said
            key = "" if self.thread else self.thread_key
            context = self.memory.get_context(self.scope, asked, thread_id=self.thread, thread_key=key, preview=True)
            print(context.text or "(nothing to remember)", f"\n({context.token_count} tokens)")
        elif name == "/threads":
            for thread in self.memory.threads.list(self.scope):
                print(f"{'*' if thread.thread_id == self.thread else ' '} {thread.thread_id}  {thread.title}")
        elif name == "/open":
            self.thread = self.memory.threads.get(self.scope, rest.strip()).thread_id
        elif name == "/new":
            self.thread = self.thread_key = ""
        else:
            print(HELP)


def lines() -> Iterator[str]:
    """What the user types, or what comes through the pipe, without empty lines."""
    while True:
        try:
            line = input("\n› " if TALKING else "").strip()
        except (EOFError, KeyboardInterrupt):
            return
        if line == "/quit":
            return
        if line:
            yield line


def talk(chat: Chat) -> int:
    """The loop. Returns the exit status: 1 when an answer failed and nobody was there to see it."""
    status = 0
    for line in lines():
        try:
            if line.startswith("/"):
                chat.command(line)
            else:
                chat.answer(line)
                print()
        except KeyboardInterrupt:
            print(" (stopped)")
            if not TALKING:
                return 130
        except (MemsvcError, APIError) as error:
            print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
            status = 0 if TALKING else 1
    return status


def main() -> int:
    """Reads the options and talks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="of the endpoint; by default OPENAI_BASE_URL, else OpenAI")
    parser.add_argument("--model", required=True)
    parser.add_argument("--provider", default="", help="the endpoint's name in the daemon's settings")
    parser.add_argument("--system", default="You are a helpful assistant. Answer in the user's language.")
    parser.add_argument("--memory", default="127.0.0.1:50051", help="address of memsvc (default: %(default)s)")
    parser.add_argument("--tenant", default="local")
    parser.add_argument("--agent", default="chat")
    parser.add_argument("--user", default="")
    parser.add_argument("--thread-key", default="", help="your own name of a conversation to go on with")
    options = parser.parse_args()
    # A local endpoint wants no key and the SDK wants one all the same.
    model = OpenAI(base_url=options.base_url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    with Memory(options.memory, token=os.environ.get("MEMSVC_TOKEN", "")) as memory:
        if TALKING:
            print("Talk, or /help. Ctrl-C stops an answer.")
        return talk(Chat(memory, model, options))


if __name__ == "__main__":
    sys.exit(main())
