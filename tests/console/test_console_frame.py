"""The house of the console: language, appearance, whose memory, and what stands around every page."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

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
