"""One world and one browser for all tests of the console, and a fresh corner and a fresh page for each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.console.world import Corner, World, world

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
HAS_CHROMIUM = CHROMIUM.exists()
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

NewPage = Callable[..., Awaitable[Page]]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says where nobody can overlook it that there was no browser."""
    if not HAS_CHROMIUM:
        terminalreporter.write_line(f"NO BROWSER at {CHROMIUM}: the console was NOT tested in one", red=True)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with world(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture
def corner(everything: World) -> Corner:
    """A scope of this test's own."""
    return everything.corner()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium; a machine without it skips the tests that want one."""
    if not HAS_CHROMIUM:
        pytest.skip(f"no browser at {CHROMIUM}; `apt-get install chromium`, or name one in CHROMIUM")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="session")
async def new_page(browser: Browser) -> AsyncIterator[NewPage]:
    """Opens pages: `await new_page(locale="en", width=375, **context)`. None may complain in its console at the end."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    async def open_page(locale: str = "zh-CN", width: int = 1280, height: int = 800, **values: Any) -> Page:
        context = await browser.new_context(locale=locale, viewport={"width": width, "height": height}, **values)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = await context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    open_page.complaints = complaints  # type: ignore[attr-defined]  # Where a test expects one, it empties the list.
    yield open_page
    for context in contexts:
        await context.close()
    assert complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(new_page: NewPage) -> Page:
    """A Chinese browser, with a window of usual size."""
    return await new_page()
