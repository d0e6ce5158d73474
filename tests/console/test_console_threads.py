"""The conversations in a browser: the list, a thread as a chat, and what can be done with it."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import NewPage
from tests.console.world import Corner
from tests.fakes.provider import by_kind, says
from tests.review import nothing
from tests.talk import CANCELLED, FAILED

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_goes_on_with_the_latest_active_conversation(page: Page, corner: Corner) -> None:
    for title in ("第一份试卷", "第二份试卷", "第三份试卷"):
        await corner.talk().record(title)
    await page.goto(corner.at("/conversations"))
    await expect(page.get_by_role("heading", name="第三份试卷")).to_be_visible()
    await expect(page.locator(".thread-list .thread-title")).to_have_text(["第三份试卷", "第二份试卷", "第一份试卷"])
    await page.get_by_role("button", name="更多").or_(page.get_by_text("更多")).click()
    await page.get_by_role("button", name="归档").click()
    await expect(page.locator(".toast")).to_contain_text("已归档")
    await page.goto(corner.at("/conversations"))
    await expect(page.get_by_role("heading", name="第二份试卷")).to_be_visible()
    await expect(page.locator(".thread-list .thread-title")).to_have_text(["第二份试卷", "第一份试卷"])
    await page.get_by_role("link", name="显示已归档").click()
    await page.get_by_role("link", name="第三份试卷").click()
    await page.get_by_text("更多").click()
    await page.get_by_role("button", name="取消归档").click()
    await page.goto(corner.at("/conversations"))
    await expect(page.get_by_role("heading", name="第三份试卷")).to_be_visible()


async def test_a_thread_shows_its_newest_turns_first_marks_them_and_says_what_the_summary_covers(
    page: Page, corner: Corner
) -> None:
    talk = corner.talk()
    corner.world.provider.behave = by_kind(says("用户与助手讨论了试卷的安排。"))
    for number in range(1, 24):
        await talk.record(f"第{number}个问题")
    await talk.record("做不到的事", "内部错误", FAILED)
    await talk.record("做到一半的事", "做到一", CANCELLED)
    await corner.world.running.settle()
    corner.world.provider.behave = nothing()
    await page.goto(corner.at(f"/conversations/{talk.thread_id}"))
    numbers = page.locator(".turn-head span:first-child")
    await expect(numbers).to_have_text([f"第 {number} 轮" for number in range(6, 26)])
    await expect(page.locator(".turn-2 .badge")).to_have_text("未成功")
    await expect(page.locator(".turn-3 .badge")).to_have_text("中途停止")
    covered = (await talk.thread()).summarized_run_count
    assert covered > 6
    await expect(page.locator(".mark")).to_have_text(f"以上 {covered} 轮已收入前情摘要")
    await page.get_by_text("前情摘要", exact=True).click()
    await expect(page.get_by_text("用户与助手讨论了试卷的安排。")).to_be_visible()
    await page.get_by_role("link", name="更早").click()
    await expect(numbers).to_have_text([f"第 {number} 轮" for number in range(1, 6)])
    await page.get_by_role("link", name="回到最新").click()
    await expect(numbers).to_have_count(20)


async def test_a_thread_is_renamed_searched_for_and_deleted_unless_taken_back(page: Page, corner: Corner) -> None:
    talk = corner.talk()
    await talk.record("出一份关于红黑树的试卷")
    await corner.talk().record("另一件事")
    await page.goto(corner.at("/conversations"))
    await page.get_by_label("搜索标题和内容").fill("红黑树")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="出一份关于红黑树的试卷").click()
    await page.get_by_text("更多").click()
    await page.get_by_label("标题", exact=True).fill("树的试卷")
    await page.get_by_role("button", name="改名").click()
    await expect(page.get_by_role("heading", name="树的试卷")).to_be_visible()
    await page.get_by_text("更多").click()
    await page.get_by_role("button", name="删除", exact=True).click()
    await expect(page.get_by_role("heading", name="另一件事")).to_be_visible()
    await expect(page.get_by_role("link", name="树的试卷")).to_have_count(0)
    await page.locator(".toast").get_by_role("button", name="撤回").click()
    await page.goto(corner.at(f"/conversations/{talk.thread_id}"))
    await page.get_by_text("更多").click()
    await page.get_by_role("button", name="删除", exact=True).click()
    await expect(page.get_by_role("heading", name="另一件事")).to_be_visible()
    await corner.world.console.takebacks.flush()
    await page.goto(corner.at("/conversations?list=1"))
    await expect(page.locator(".thread-list .thread-title")).to_have_text(["另一件事"])


async def test_a_turn_is_deleted_from_its_thread(page: Page, corner: Corner) -> None:
    talk = corner.talk()
    for said in ("头一句", "第二句"):
        await talk.record(said)
    await page.goto(corner.at(f"/conversations/{talk.thread_id}"))
    await page.get_by_role("button", name="删除这一轮: 第 1 轮").click()
    await expect(page.locator(".bubble-user")).to_have_text(["用户: 第二句"])
    await corner.world.console.takebacks.flush()
    assert (await talk.thread()).run_count == 1


async def test_a_new_conversation_has_an_id_and_leaves_nothing_until_it_is_used(page: Page, corner: Corner) -> None:
    await page.goto(corner.at("/conversations?list=1"))
    await expect(page.get_by_text("还没有会话")).to_be_visible()
    await page.get_by_role("link", name="新建会话").click()
    thread_id = await page.get_by_label("会话编号").input_value()
    assert thread_id.startswith("th_")
    talk = corner.talk()
    talk.thread_id = thread_id
    await talk.record("第一句话")
    await page.goto(corner.at("/conversations"))
    await expect(page).to_have_url(corner.at(f"/conversations/{thread_id}#latest"))


async def test_a_hundred_threads_come_a_page_at_a_time(page: Page, corner: Corner) -> None:
    for number in range(45):
        await corner.talk().record(f"会话{number}")
    await page.goto(corner.at("/conversations?list=1"))
    links = page.locator(".thread-list a")
    await expect(links).to_have_count(20)
    await page.get_by_role("link", name="下一页").click()
    await expect(links.first).to_contain_text("会话24")
    await page.get_by_role("link", name="下一页").click()
    await expect(links).to_have_count(5)


async def test_without_a_script_a_page_asks_before_a_thread_goes(new_page: NewPage, corner: Corner) -> None:
    page = await new_page(java_script_enabled=False)
    talk = corner.talk()
    await talk.record("要删的会话")
    await page.goto(corner.at(f"/conversations/{talk.thread_id}"))
    await page.get_by_text("更多").click()
    await page.get_by_role("button", name="删除", exact=True).click()
    await expect(page.get_by_role("heading", name="删除这个会话？")).to_be_visible()
    await page.get_by_role("button", name="删除").click()
    await expect(page.get_by_text("还没有会话")).to_be_visible()
