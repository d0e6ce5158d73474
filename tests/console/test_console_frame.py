"""The house of the console in a browser: whose memory, language, appearance, reading by ear and by key."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import NewPage
from tests.console.world import Corner

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_first_page_asks_whose_memory_and_then_shows_it(page: Page, corner: Corner) -> None:
    await page.goto(corner.world.url)
    await page.get_by_label("租户").fill(corner.scope.tenant_id)
    await page.get_by_label("智能体").fill(corner.scope.agent_id)
    await page.get_by_label("用户").fill(corner.scope.user_id)
    await page.get_by_role("button", name="打开").click()
    await expect(page).to_have_url(corner.at("/memory"))
    await page.goto(corner.world.url)
    await expect(page).to_have_url(corner.at("/memory"))
    await page.get_by_role("link", name="换一份记忆").click()
    await expect(page.get_by_role("link", name=corner.scope.tenant_id)).to_be_visible()


async def test_the_page_speaks_the_browsers_language_until_another_is_chosen(new_page: NewPage, corner: Corner) -> None:
    page = await new_page(locale="en-GB")
    await page.goto(corner.at("/memory"))
    await expect(page.get_by_role("heading", name="Memory", exact=True)).to_be_visible()
    await page.locator("summary", has_text="Preferences").click()
    await page.get_by_label("Language").select_option("zh")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="记忆", exact=True)).to_be_visible()
    assert await page.locator("html").get_attribute("lang") == "zh-CN"
    await page.goto(corner.at("/conversations?list=1"))
    await expect(page.get_by_text("还没有会话")).to_be_visible()


async def test_light_and_dark_follow_the_system_until_one_is_chosen(new_page: NewPage, corner: Corner) -> None:
    page = await new_page(color_scheme="dark")
    await page.goto(corner.at("/memory"))
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    assert await page.evaluate(paper) == "rgb(20, 23, 26)"
    await page.locator("summary", has_text="偏好").click()
    await page.get_by_label("外观").select_option("light")
    await page.get_by_role("button", name="保存").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert await page.evaluate(paper) == "rgb(246, 244, 238)"


async def test_the_first_tab_skips_the_navigation_and_every_control_has_a_name(page: Page, corner: Corner) -> None:
    await corner.propose("用户偏好黑色封面")
    await corner.review.create("用户教高二数学")
    talk = corner.talk()
    await talk.record("出一份试卷")
    await page.goto(corner.at("/memory"))
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="跳到正文")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    nameless = """() => [...document.querySelectorAll('a[href], button, input:not([type=hidden]), textarea, summary')]
        .filter(e => !(e.textContent || e.ariaLabel || '').trim() && !(e.labels || []).length)
        .map(e => e.outerHTML)"""
    ids = "() => [...document.querySelectorAll('[id]')].map(e => e.id)"
    for path in ("/memory", f"/conversations/{talk.thread_id}", "/conversations?list=1", "/conversations/new"):
        await page.goto(corner.at(path))
        assert await page.evaluate(nameless) == []
        found = await page.evaluate(ids)
        assert sorted(set(found)) == sorted(found)
        assert await page.locator("h1").count() == 1
    await expect(page.locator("#toasts")).to_have_attribute("aria-live", "polite")


async def test_nothing_moves_for_those_who_asked_for_rest(new_page: NewPage, corner: Corner) -> None:
    page = await new_page(reduced_motion="reduce")
    await corner.review.create("用户教高二数学")
    await page.goto(corner.at("/memory"))
    await page.get_by_role("button", name="删除").click()
    clock = page.locator(".toast-clock")
    await expect(clock).to_be_attached()
    assert await clock.evaluate("e => getComputedStyle(e).animationName") == "none"
