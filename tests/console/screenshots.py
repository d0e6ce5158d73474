"""Takes pictures of the console: `python -m tests.console.screenshots` makes those of the README, `--all FOLDER` one of
every page in both themes, languages and widths, to be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any

from memsvc_client import Scope
from memsvc_console.chat_settings import ChatSettings
from playwright.async_api import Browser, async_playwright

from memsvc.v1 import memory_pb2 as pb
from tests.console import story
from tests.console.conftest import ARGUMENTS, CHROMIUM
from tests.console.world import Corner, World, world
from tests.fakes.provider import Answer, Behaviour, Request, by_kind, says
from tests.review import Review, proposes

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


async def fill(made: World, chinese: bool, threads: int) -> Corner:
    """A teacher's memory: facts, proposals, one long conversation, and many that came before."""
    scope = pb.Scope(tenant_id="school-7", agent_id="prep-assistant", user_id="wang" if chinese else "ada")
    corner = Corner(made, scope)

    def pick(name: str) -> Any:
        return getattr(story, f"{name}_{'ZH' if chinese else 'EN'}")

    made.provider.behave = by_kind(says(pick("SUMMARY")))
    titles, answer = pick("TITLES"), pick("ANSWERS")
    for number in range(threads):
        title = titles[number % len(titles)] + (f"（{number // len(titles) + 1}）" if number >= len(titles) else "")
        talk = corner.talk()
        await talk.record(title, answer, model="small")
        if number % 4 == 0:
            await talk.record(
                "再短一点。" if chinese else "Shorter, please.", answer[: len(answer) // 2], model="small"
            )
    review = Review(made.running, scope, actor="王老师" if chinese else "ada")
    for text in pick("FACTS"):
        await review.create(text)
    talk = corner.talk()
    for at, (said, output, outcome) in enumerate(pick("TALK")):
        usage = pb.Usage(input_tokens=900 + 260 * at, output_tokens=220, cost_micros=1_500 + 400 * at)
        await talk.record(said, output, outcome, usage=usage, model="small", context_token_count=300 + 210 * at)
        await made.running.settle()
    proposed = [dict(each) for each in pick("PROPOSED")]
    await corner.propose(*proposed, said="；".join(str(each["fact"]) for each in proposed))
    old, newer = pick("REPLACED")
    made.provider.behave = replaces(old, newer)
    await corner.talk().record(newer, "好的。" if chinese else "Noted.")
    await made.running.settle()
    return corner


def replaces(old: str, newer: str) -> Behaviour:
    """Proposes `newer` in place of the known fact `old`, by the number that the prompt gives it."""

    def answer(request: Request) -> Answer:
        found = re.search(r"([0-9]+)[^0-9\n]{1,4}" + re.escape(old), request.text)
        number = int(found[1]) if found else None
        return proposes({"fact": newer, "confidence": 0.86, "run": 1, "supersedes": number})(request)

    return answer


async def take(browser: Browser, url: str, path: Path, language: str, theme: str, width: int, whole: bool) -> None:
    """One picture; complains where the page is wider than the window."""
    context = await browser.new_context(
        locale="zh-CN" if language == "zh" else "en-GB",
        color_scheme="dark" if theme == "dark" else "light",
        viewport={"width": width, "height": 800},
    )
    page = await context.new_page()
    page.on("console", lambda said: print(f"{path.name}: {said.text}"))
    await page.goto(url)
    await page.wait_for_load_state("networkidle")
    wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        print(f"{path.name}: {wide} px wider than the window")
    await page.screenshot(path=path, full_page=whole)
    await context.close()


def pages(corner: Corner, thread_id: str, run_id: str) -> dict[str, str]:
    """Every page by a short name."""
    return {
        "memory": corner.at("/memory"),
        "thread": corner.at(f"/conversations/{thread_id}#latest"),
        "threads": corner.at("/conversations?list=1"),
        "context": corner.at("/context"),
        "cost": corner.at("/cost"),
        "curve": corner.at(f"/cost/threads/{thread_id}"),
        "calls": corner.at("/cost/calls"),
        "chat": corner.at("/chat"),
        "search": corner.at("/conversations?q=xyzzy&list=1"),
        "new": corner.at("/conversations/new"),
        "run": corner.at(f"/runs/{run_id}"),
        "scopes": corner.world.url + "/scopes",
        "missing": corner.at("/nowhere"),
        "empty": corner.world.url + "/s/school-7/prep-assistant/nobody/memory",
    }


async def main() -> None:
    """Fills a world and takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every page, to be looked at")
    parser.add_argument("--only", default="", help="with --all: the pages to take, with commas between")
    asked = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    if asked.all:
        asked.all.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # Nobody talks in a picture, so nothing listens at the address of the chat's model.
        chat = ChatSettings(base_url="http://127.0.0.1:9/v1", model="qwen2.5:3b", provider="cloud")
        async with world(Path(folder), actor="王老师", chat=chat) as made, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            for language in ("zh", "en"):
                corner = await fill(made, language == "zh", 100 if asked.all else 14)
                if asked.all:
                    await everything(browser, corner, asked.all, language, asked.only)
                else:
                    await for_the_readme(browser, corner, language)
            await browser.close()


async def for_the_readme(browser: Browser, corner: Corner, language: str) -> None:
    """Memory and a conversation in Chinese, the inspector in English; one of them in the dark."""
    if language == "zh":
        await take(browser, corner.at("/memory"), IMAGES / "console-memory.png", "zh", "light", 1280, whole=False)
        url = corner.at(f"/conversations/{(await longest(corner)).thread_id}#latest")
        await take(browser, url, IMAGES / "console-conversation.png", "zh", "dark", 1280, whole=False)
        return
    context = await browser.new_context(locale="en-GB", color_scheme="light", viewport={"width": 1280, "height": 1480})
    page = await context.new_page()
    await page.goto(corner.at("/context"))
    await page.locator("[name=input]").fill("Explain hashing without a computer, and shorten the exit ticket")
    await page.locator("[name=thread_id]").select_option((await longest(corner)).thread_id)
    await page.locator("main form button").first.click()
    await page.wait_for_load_state("networkidle")
    await page.locator("main").evaluate("main => { document.activeElement.blur(); scrollTo(0, 0); }")
    await page.screenshot(path=IMAGES / "console-context.png")
    await context.close()


async def longest(corner: Corner) -> pb.Thread:
    """The conversation with the most turns."""
    scope = Scope.from_message(corner.scope)
    threads = [thread async for thread in corner.world.console.memory.threads.list(scope, page_size=200)]
    return max(threads, key=lambda thread: thread.run_count)


async def everything(browser: Browser, corner: Corner, folder: Path, language: str, only: str) -> None:
    """Every page, in both themes and both widths."""
    thread = await longest(corner)
    scope = Scope.from_message(corner.scope)
    runs = [run async for run in corner.world.console.memory.threads.runs(scope, thread.thread_id)]
    for name, url in pages(corner, thread.thread_id, runs[0].run_id).items():
        if only and name not in only.split(","):
            continue
        for theme in ("light", "dark"):
            for width in (1280, 375):
                path = folder / f"{name}-{language}-{theme}-{width}.png"
                await take(browser, url, path, language, theme, width, whole=name not in {"thread"})


if __name__ == "__main__":
    asyncio.run(main())
