"""A conversation with memory and without a model: two threads, nine turns by a script, one daemon that is killed in the
middle. Prints each context block as an agent would be given it. `--address` uses a daemon that runs already.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memsvc_client import Context, Memory, MemsvcError, Outcome, Scope

START_LIMIT_S = 30
FOLD_LIMIT_S = 30


@dataclass(frozen=True)
class Turn:
    """What the user says, and what the agent would answer if there were one."""

    thread: str
    user: str
    assistant: str
    outcome: Outcome = Outcome.COMPLETED


BEFORE_THE_CRASH = (
    Turn(
        "试卷",
        "出一份数据结构试卷，60分钟，总分100分，高二用。",
        "试卷已拟好：选择题10道（40分，栈、队列、链表），填空题5道（20分，二叉树遍历），简答题4道（40分，排序与查找）。",
    ),
    Turn(
        "试卷",
        "简答题换两道，不要考排序。",
        "已把第1、3道简答题换成：哈希冲突的两种解决办法；用栈判断括号是否匹配。其余两道不变，总分仍为100分。",
    ),
    Turn("试卷", "选择题里加一道图的深度优先遍历。", "已用第10题换成图的深度优先遍历，给出邻接表，问访问次序。"),
    Turn(
        "lesson",
        "Plan a 45 minute lesson on linked lists; my class has no computers.",
        "Plan: 10 min paper chain as a linked list, 20 min inserting and deleting nodes by hand in pairs, 10 min "
        "comparison with arrays, 5 min exit ticket. No computers needed.",
    ),
    Turn("试卷", "再写一份答案和评分标准。", "答案与评分标准：一、选择题每题4分，1. B 2. C 3. A", Outcome.CANCELLED),
)
AFTER_THE_CRASH = (
    Turn("试卷", "接着写，评分标准只要简答题的。", "简答题每题10分：要点正确6分，举例2分，表述清楚2分。"),
    Turn(
        "lesson",
        "Make the pair work shorter and add homework.",
        "Pair work is now 15 minutes. Homework: draw the list after three deletions and say which pointers changed.",
    ),
    Turn("lesson", "What did we say about computers?", "Your class has none, so everything is done on paper."),
    Turn(
        "试卷",
        "现在这份卷子是什么样的？",
        "选择题10道（含图的深度优先遍历）、填空题5道、简答题4道（哈希、括号匹配等），"
        "60分钟，100分，并附简答题评分标准。",
    ),
)


@dataclass
class Daemon:
    """A daemon of our own on a free port, with a database and a log in a folder that goes away at the end."""

    folder: Path
    address: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, again on the same file after `kill`."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MEMSVC_")}
        environment |= {"MEMSVC_LISTEN": self.address, "MEMSVC_DATABASE": str(self.folder / "memory.db")}
        with (self.folder / "daemon.log").open("ab") as log:
            command = [sys.executable, "-m", "memsvc", "serve"]
            self.process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        """As a power cut would: no warning, no chance to put anything in order."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """As a supervisor does."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def wait_until_it_answers(self, memory: Memory, scope: Scope) -> None:
        """Returns once it serves; ends the demo with its log when it does not."""
        ends = time.monotonic() + START_LIMIT_S
        while True:
            try:
                memory.get_context(scope, preview=True, timeout_s=1)
                return
            except MemsvcError as error:
                dead = self.process is not None and self.process.poll() is not None
                if dead or time.monotonic() > ends:
                    log = (self.folder / "daemon.log").read_text(errors="replace")
                    raise SystemExit(f"the daemon does not answer: {error}\n{log}") from None


@contextmanager
def own_daemon() -> Iterator[Daemon]:
    """A daemon that is stopped and forgotten at the end, whatever happens in between."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="memsvc-demo-") as folder:
        daemon = Daemon(Path(folder), address)
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.stop()


@dataclass
class Demo:
    """The conversation as it goes, and what there will be to sum up."""

    memory: Memory
    scope: Scope
    contexts: list[Context] = field(default_factory=list)

    def play(self, turn: Turn) -> None:
        """One turn as a runner has it, with the script in the agent's place."""
        with self.memory.run(self.scope, input=turn.user, thread_key=turn.thread) as run:
            self.contexts.append(run.context)
            title(f"Turn {len(self.contexts)} · thread “{turn.thread}”")
            show_context(run.context)
            say("user", turn.user)
            run.output = turn.assistant
            run.outcome = turn.outcome
        say("agent", turn.assistant + (" ^C (stopped by the user)" if turn.outcome is Outcome.CANCELLED else ""))

    def wait_for_folding(self) -> None:
        """Returns once nothing is left to fold; a real runner never waits for this."""
        ends = time.monotonic() + FOLD_LIMIT_S
        while (status := self.memory.ops.worker_status(self.scope)).unfolded_runs or status.pending_jobs:
            if time.monotonic() > ends:
                raise SystemExit(f"still {status.unfolded_runs} runs to fold after {FOLD_LIMIT_S} s")
            time.sleep(0.05)

    def summarize(self, killed: bool) -> None:
        """What was shown."""
        threads = list(self.memory.threads.list(self.scope))
        title("What you saw")
        for thread in threads:
            print(f"  {thread.title}: {thread.run_count} runs, {thread.summarized_run_count} of them in the summary")
        most = max(self.contexts, key=lambda context: context.token_count)
        print(f"  {len(self.contexts)} context blocks, the largest {most.token_count} of {most.token_limit} tokens")
        if killed:
            print("  one kill -9 in the middle, after which the conversation went on where it was")


def title(text: str) -> None:
    """A line that separates what comes from what was."""
    print("\n" + bold(f"──── {text} ────"))


def show_context(context: Context) -> None:
    """The block as the agent is given it, between bars, and what it costs."""
    parts = ", ".join(f"{section.kind.name.lower()} {section.token_count}" for section in context.sections)
    print(f"context: {context.token_count} of {context.token_limit} tokens{f' ({parts})' if parts else ''}")
    for line in context.text.splitlines():
        print(f"  {dim('│')} {line}")


def say(who: str, text: str) -> None:
    """One side of the conversation."""
    print(bold(f"{who}:".ljust(8)), text)


def bold(text: str) -> str:
    """Bold on a terminal."""
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def dim(text: str) -> str:
    """Faint on a terminal."""
    return f"\033[2m{text}\033[0m" if sys.stdout.isatty() else text


def play_all(memory: Memory, daemon: Daemon | None) -> None:
    """The whole of it; the daemon is killed only where it is our own."""
    # A user of its own, so that a daemon that runs already shows nothing of what it knows.
    demo = Demo(memory, Scope("demo", "teaching-assistant", f"user-{uuid.uuid4().hex[:8]}"))
    if daemon is not None:
        daemon.wait_until_it_answers(memory, demo.scope)
    for turn in BEFORE_THE_CRASH:
        demo.play(turn)
    if daemon is not None:
        daemon.kill()
        title("kill -9; the daemon starts again on the same file")
        daemon.start()
        daemon.wait_until_it_answers(memory, demo.scope)
    for turn in AFTER_THE_CRASH:
        demo.wait_for_folding()
        demo.play(turn)
    demo.wait_for_folding()
    demo.summarize(killed=daemon is not None)


def main() -> None:
    """Reads the options and plays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="a daemon that runs already, as 127.0.0.1:50051; it is not killed")
    options = parser.parse_args()
    if options.address:
        with Memory(options.address, token=os.environ.get("MEMSVC_TOKEN", "")) as memory:
            play_all(memory, None)
    else:
        with own_daemon() as daemon, Memory(daemon.address) as memory:
            play_all(memory, daemon)


if __name__ == "__main__":
    main()
