"""The memory page in a browser: confirm, reword, replace, reject, edit, delete, take back; by mouse, by key, without a
script.
"""

from __future__ import annotations

import asyncio

import pytest
from memsvc_client import RoleDenied, Scope
from playwright.async_api import Locator, Page, Route, expect

from tests.console.conftest import NewPage
from tests.console.world import Corner

pytestmark = pytest.mark.asyncio(loop_scope="session")

BLACK = "用户偏好黑色封面"
GRADE = "用户教高二数学"


def pending(page: Page, text: str) -> Locator:
    """The card of a candidate."""
    return page.get_by_role("region", name="待确认").get_by_role("listitem").filter(has_text=text)


def confirmed(page: Page, text: str) -> Locator:
    """The row of a fact."""
    return page.get_by_role("region", name="已确认").get_by_role("listitem").filter(has_text=text)


async def test_one_click_confirms_and_the_persons_name_goes_along(page: Page, corner: Corner) -> None:
    await corner.propose(BLACK)
    await page.goto(corner.at("/memory"))
    await page.get_by_text("偏好 ·").click()
    await page.get_by_label("您的名字").fill("王老师")
    await page.get_by_role("button", name="保存").click()
    await expect(page.locator(".toast")).to_contain_text("已保存")
    await pending(page, BLACK).get_by_role("button", name="确认", exact=True).click()
    await expect(confirmed(page, BLACK)).to_contain_text("王老师 确认")
    await expect(pending(page, BLACK)).to_have_count(0)
    await expect(page.get_by_text("1 / 30")).to_be_visible()
    await expect(page.get_by_text("没有要确认的")).to_be_visible()
    (fact,) = await corner.review.facts()
    assert (fact.text, fact.confirmed_by) == (BLACK, "王老师")


async def test_a_person_corrects_the_wording_while_confirming(page: Page, corner: Corner) -> None:
    await corner.propose(BLACK)
    await page.goto(corner.at("/memory"))
    card = pending(page, BLACK)
    await card.get_by_text("改措辞").click()
    await card.get_by_label("用您的话说").fill("用户偏好深灰色封面")
    await card.get_by_role("button", name="按此确认").click()
    await expect(confirmed(page, "用户偏好深灰色封面")).to_be_visible()
    assert await corner.review.texts() == ["用户偏好深灰色封面"]


async def test_what_is_being_written_outlasts_a_decision_on_something_else(page: Page, corner: Corner) -> None:
    await corner.review.create(GRADE)
    await corner.propose(BLACK, "用户喜欢喝茶", said=f"{BLACK}；用户喜欢喝茶")
    await page.goto(corner.at("/memory"))
    row, other = confirmed(page, GRADE), pending(page, "用户喜欢喝茶")
    await page.locator("summary", has_text="写下一条").click()
    await page.get_by_label("写下一条").fill("用户住在苏州")
    await other.get_by_text("改措辞").click()
    await other.get_by_label("用您的话说").fill("用户喜欢喝绿茶")
    await row.get_by_text("编辑").click()
    await row.get_by_label("用您的话说").fill("用户教高二物理")
    await pending(page, BLACK).get_by_role("button", name="确认", exact=True).click()
    await expect(confirmed(page, BLACK)).to_be_visible()
    await expect(page.get_by_label("写下一条")).to_have_value("用户住在苏州")
    await expect(other.get_by_label("用您的话说")).to_have_value("用户喜欢喝绿茶")
    await expect(row.get_by_label("用您的话说")).to_have_value("用户教高二物理")


async def test_a_slow_decision_is_told_although_the_list_was_read_anew_meanwhile(page: Page, corner: Corner) -> None:
    await corner.propose(BLACK, "用户喜欢喝茶", said=f"{BLACK}；用户喜欢喝茶")
    (slow,) = [each for each in await corner.review.candidates() if each.text == BLACK]
    answered = asyncio.Event()

    async def late(route: Route) -> None:
        response = await route.fetch()
        await answered.wait()
        await route.fulfill(response=response)

    await page.route(f"**/{slow.candidate_id}/confirm", late)
    await page.goto(corner.at("/memory"))
    await pending(page, BLACK).get_by_role("button", name="确认", exact=True).click()
    async with page.expect_response(lambda each: each.request.method == "GET" and each.url.endswith("/memory")):
        await pending(page, "用户喜欢喝茶").get_by_role("button", name="确认", exact=True).click()
    answered.set()
    await expect(page.locator(".toast", has_text=BLACK)).to_be_visible()
    await expect(confirmed(page, BLACK)).to_be_visible()
    await expect(confirmed(page, "用户喜欢喝茶")).to_be_visible()


async def test_what_a_candidate_would_replace_is_shown_and_named_again_when_it_is_gone(
    page: Page, corner: Corner
) -> None:
    await corner.review.create(GRADE)
    newer = {"fact": "用户教高三数学", "confidence": 0.8, "run": 1, "supersedes": 1}
    await corner.propose(newer)
    await page.goto(corner.at("/memory"))
    card = pending(page, "用户教高三数学")
    await expect(card.locator("del")).to_have_text(GRADE)
    await expect(card.locator("ins")).to_have_text("用户教高三数学")
    await expect(card).to_contain_text("把握 80%")
    await card.get_by_role("button", name="确认", exact=True).click()
    await expect(page.locator(".toast")).to_contain_text(f"它取代了：{GRADE}")
    assert await corner.review.texts() == ["用户教高三数学"]


async def test_at_the_capacity_the_page_says_which_fact_gives_way_before_and_after(page: Page, corner: Corner) -> None:
    for number in range(30):
        await corner.review.create(f"用户的第{number}条习惯")
    await corner.propose(BLACK)
    await page.goto(corner.at("/memory"))
    await expect(page.get_by_text("30 / 30")).to_be_visible()
    last = (await corner.review.texts())[-1]
    await expect(page.locator(".note")).to_contain_text(last)
    await pending(page, BLACK).get_by_role("button", name="确认", exact=True).click()
    await expect(page.locator(".toast")).to_contain_text(f"为它让位的是：{last}")


async def test_a_rejection_waits_in_the_console_and_can_be_taken_back(page: Page, corner: Corner) -> None:
    await corner.propose(BLACK)
    await page.goto(corner.at("/memory"))
    await pending(page, BLACK).get_by_role("button", name="不要").click()
    await expect(pending(page, BLACK)).to_have_count(0)
    assert [each.text for each in await corner.review.candidates()] == [BLACK]
    await page.reload()
    await expect(pending(page, BLACK)).to_have_count(0)
    await page.locator(".toast").get_by_role("button", name="撤回").click()
    await expect(pending(page, BLACK)).to_be_visible()
    await expect(page.locator(".toast")).to_contain_text("已撤回")
    await corner.world.console.takebacks.flush()
    assert [each.text for each in await corner.review.candidates()] == [BLACK]


async def test_a_rejection_is_sent_although_the_tab_was_closed(page: Page, corner: Corner) -> None:
    await corner.propose(BLACK)
    await page.goto(corner.at("/memory"))
    await pending(page, BLACK).get_by_role("button", name="不要").click()
    await expect(page.locator(".toast")).to_contain_text(BLACK)
    await page.close()
    await corner.world.console.takebacks.flush()
    assert await corner.review.candidates() == []


async def test_a_fact_is_edited_and_deleted_and_a_deletion_is_taken_back(page: Page, corner: Corner) -> None:
    await corner.review.create(GRADE)
    await page.goto(corner.at("/memory"))
    row = confirmed(page, GRADE)
    await row.get_by_text("编辑").click()
    await row.get_by_label("用您的话说").fill("用户教高三物理")
    await row.get_by_role("button", name="保存").click()
    row = confirmed(page, "用户教高三物理")
    await row.get_by_role("button", name="删除").click()
    await expect(row).to_have_count(0)
    await page.locator(".toast[data-left]").get_by_role("button", name="撤回").click()
    await expect(row).to_be_visible()
    await row.get_by_role("button", name="删除").click()
    await expect(row).to_have_count(0)
    await corner.world.console.takebacks.flush()
    assert await corner.review.texts() == []


async def test_a_red_line_is_explained_where_a_person_writes_a_fact(new_page: NewPage, corner: Corner) -> None:
    page = await new_page()
    await page.goto(corner.at("/memory"))
    await page.locator("summary", has_text="写下一条").click()
    await page.get_by_label("写下一条").fill("用户的身份证号是 11010519491231002X")
    await page.get_by_role("button", name="记住").click()
    await expect(page.locator(".toast-problem")).to_contain_text("红线：记忆里不得保存证件号码")
    await expect(page.get_by_label("写下一条")).to_have_value("用户的身份证号是 11010519491231002X")
    new_page.complaints.clear()  # type: ignore[attr-defined]  # Chromium complains of every 422.
    assert await corner.review.texts() == []


async def test_the_source_is_one_click_away_and_the_same_click_hides_it(page: Page, corner: Corner) -> None:
    await corner.propose(BLACK, said="用户偏好黑色封面，请记住这一点")
    await page.goto(corner.at("/memory"))
    card = pending(page, BLACK)
    await card.get_by_role("link", name="来源").click()
    await expect(card.locator(".bubble-user")).to_contain_text("请记住这一点")
    await card.get_by_role("link", name="来源").click()
    await expect(card.locator(".bubble-user")).to_have_count(0)


async def test_the_keyboard_does_it_all(page: Page, corner: Corner) -> None:
    await corner.propose(
        {"fact": "用户偏好黑色封面", "confidence": 0.9, "run": 1, "supersedes": None},
        {"fact": "用户教高二数学", "confidence": 0.8, "run": 1, "supersedes": None},
        {"fact": "用户喜欢先看大纲", "confidence": 0.7, "run": 1, "supersedes": None},
    )
    await page.goto(corner.at("/memory"))
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("看来源")
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("c")
    await expect(confirmed(page, "黑色封面")).to_be_visible()
    await expect(pending(page, "高二数学")).to_be_focused()
    await page.keyboard.press("r")
    await expect(pending(page, "高二数学")).to_have_count(0)
    await expect(pending(page, "先看大纲")).to_be_focused()
    await page.keyboard.press("u")
    await expect(pending(page, "高二数学")).to_be_visible()
    await expect(pending(page, "先看大纲")).to_be_focused()
    await page.keyboard.press("k")
    await expect(pending(page, "高二数学")).to_be_focused()
    await page.keyboard.press("e")
    await expect(pending(page, "高二数学").get_by_label("用您的话说")).to_be_focused()
    await page.keyboard.type("和物理")
    await page.keyboard.press("Escape")
    await expect(pending(page, "高二数学")).to_be_focused()
    assert await corner.review.texts() == [BLACK]


async def test_without_a_script_one_reads_and_decides_all_the_same(new_page: NewPage, corner: Corner) -> None:
    page = await new_page(java_script_enabled=False)
    await corner.propose(BLACK, GRADE, "用户喜欢先看大纲", said="用户偏好黑色封面；用户教高二数学；用户喜欢先看大纲")
    await page.goto(corner.at("/memory"))
    await pending(page, BLACK).get_by_role("button", name="确认", exact=True).click()
    await expect(page.locator(".toast")).to_contain_text(f"记住了：{BLACK}")
    await pending(page, GRADE).get_by_role("button", name="不要").click()
    await expect(page.get_by_role("heading", name="不要这一条？")).to_be_visible()
    await expect(page.get_by_text(GRADE)).to_be_visible()
    await page.get_by_role("link", name="取消").click()
    await pending(page, GRADE).get_by_role("button", name="不要").click()
    await page.get_by_role("button", name="不要").click()
    await expect(page.locator(".toast")).to_contain_text(f"已拒绝：{GRADE}")
    card = pending(page, "先看大纲")
    await card.get_by_text("改措辞").click()
    await card.get_by_label("用您的话说").fill("用户总是先看大纲")
    await card.get_by_role("button", name="按此确认").click()
    await expect(confirmed(page, "用户总是先看大纲")).to_be_visible()
    await confirmed(page, BLACK).get_by_role("link", name="来源").click()
    await expect(page.get_by_text("用户偏好黑色封面；用户教高二数学")).to_be_visible()
    await page.get_by_role("link", name="记忆", exact=True).first.click()
    await confirmed(page, BLACK).get_by_role("button", name="删除").click()
    await page.get_by_role("button", name="删除").click()
    await expect(confirmed(page, BLACK)).to_have_count(0)
    assert await corner.review.texts() == ["用户总是先看大纲"]


async def test_what_waits_for_a_word_comes_a_page_at_a_time(page: Page, corner: Corner) -> None:
    for first in range(0, 24, 6):
        await corner.propose(*(f"用户喜欢第{number}种颜色的粉笔" for number in range(first, first + 6)))
    await page.goto(corner.at("/memory"))
    cards = page.get_by_role("region", name="待确认").locator("[data-item]")
    await expect(cards).to_have_count(20)
    await page.get_by_role("link", name="下一页").click()
    await expect(cards).to_have_count(4)
    await page.get_by_role("link", name="第一页").click()
    await expect(cards).to_have_count(20)


async def test_after_ten_seconds_the_toast_goes_and_what_could_not_be_sent_is_told(page: Page, corner: Corner) -> None:
    async def refused() -> None:
        raise RoleDenied("no")

    await corner.propose(BLACK)
    await page.clock.install()
    await page.goto(corner.at("/memory"))
    await pending(page, BLACK).get_by_role("button", name="不要").click()
    await expect(page.locator(".toast[data-left]")).to_be_visible()
    takebacks = corner.world.console.takebacks
    takebacks.hold(Scope.from_message(corner.scope), "reject", "c_x", "不要：另一条", refused)
    await takebacks.flush()
    await page.clock.run_for(10_000)
    await expect(page.locator(".toast[data-left]")).to_have_count(0)
    await page.clock.run_for(2_500)
    await expect(page.locator(".toast-problem")).to_contain_text("不要：另一条 — 权限不够")


async def test_a_fact_that_is_to_go_makes_the_room_and_no_other_gives_way(page: Page, corner: Corner) -> None:
    for number in range(30):
        await corner.review.create(f"用户的第{number}条习惯")
    await corner.propose(BLACK)
    await page.goto(corner.at("/memory"))
    await confirmed(page, "用户的第29条习惯").get_by_role("button", name="删除").click()
    await expect(page.get_by_text("29 / 30")).to_be_visible()
    await pending(page, BLACK).get_by_role("button", name="确认", exact=True).click()
    await expect(page.locator(".toast-done")).to_contain_text(f"记住了：{BLACK}")
    texts = await corner.review.texts()
    assert sorted(texts) == sorted([BLACK, *(f"用户的第{number}条习惯" for number in range(29))])
