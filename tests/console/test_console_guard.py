"""What stands around the pages, and the pages without a browser: refusals, the door, a daemon that is away, the log."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from memsvc_console.app import create_app
from memsvc_console.passwords import hash_password
from memsvc_console.settings import Settings
from memsvc_console.view import Console, View, route
from starlette.responses import Response

from tests.console.world import Corner, client

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOWHERE = "127.0.0.1:9"
HASH = hash_password("开门")
FACTS = "/s/school/agent/wang/memory/facts"


@pytest_asyncio.fixture(loop_scope="session")
async def web(corner: Corner) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser without a window, before the console of the world."""
    async with client(corner.world.app) as opened:
        yield opened


def word(answer: httpx2.Response) -> str:
    """The session's secret word, as a form has it."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', answer.text)
    assert found
    return found[1]


async def test_only_our_own_page_may_change_anything(web: httpx2.AsyncClient, corner: Corner) -> None:
    csrf = word(await web.get(corner.base + "/memory"))
    url, good = corner.base + "/memory/facts", {"csrf": csrf, "text": "用户教高二数学"}
    for headers, form in (
        ({}, {"text": "用户教高二数学"}),
        ({}, good | {"csrf": "0" * 64}),
        ({}, good | {"csrf": "é"}),
        ({"origin": "http://evil.example"}, good),
        ({"origin": "null"}, good),
        ({"origin": ""}, good),
        ({"origin": "http://["}, good),
        ({"origin": "ftp://localhost:8080"}, good),
        ({"origin": "http://localhost:9999"}, good),
        ({"sec-fetch-site": "cross-site"}, good),
        ({"sec-fetch-site": "same-site"}, good),
    ):
        answer = await web.post(url, data=form, headers=headers)
        assert answer.status_code == 403, (headers, form)
        assert "The request was refused" in answer.text
    as_json = await web.post(url, content=b"{}", headers={"content-type": "application/json", "x-csrf-token": csrf})
    assert as_json.status_code == 403
    web.cookies.clear()
    assert (await web.post(url, data=good)).status_code == 403
    assert await corner.review.texts() == []


async def test_the_same_form_from_our_own_page_is_taken(web: httpx2.AsyncClient, corner: Corner) -> None:
    csrf = word(await web.get(corner.base + "/memory"))
    headers = {"origin": "http://localhost:8080", "sec-fetch-site": "same-origin"}
    form = {"csrf": csrf, "text": "用户教高二数学"}
    answer = await web.post(corner.base + "/memory/facts", data=form, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, corner.base + "/memory")
    assert await corner.review.texts() == ["用户教高二数学"]


async def test_behind_a_proxy_its_address_is_ours(corner: Corner) -> None:
    daemon = corner.world.console.settings.daemon
    app = create_app(Settings(daemon=daemon, origin="https://memory.example.org", password_hash=HASH))
    async with client(app) as web:
        for host in ("memory.example.org", "localhost:8080"):
            page = await web.get("/login", headers={"host": host})
            assert "; Secure" in page.headers["set-cookie"]
            web.cookies.clear()
            headers = {
                "host": host,
                "origin": "https://memory.example.org",
                "cookie": page.headers["set-cookie"].split(";")[0],
            }
            answer = await web.post("/login", data={"csrf": word(page), "password": "开门"}, headers=headers)
            assert answer.status_code == 303
            refused = await web.post(
                "/login", data={"csrf": word(page)}, headers=headers | {"origin": "https://x.example"}
            )
            assert refused.status_code == 403
        assert (await web.get("/login", headers={"host": "x.example"})).status_code == 421
    await app.state.console.memory.close()


async def test_who_may_list_memories_chooses_among_them_a_page_at_a_time(
    web: httpx2.AsyncClient, corner: Corner
) -> None:
    await asyncio.gather(*(corner.world.corner().talk().record("一句话") for _ in range(55)))
    first = await web.get("/scopes")
    links = re.findall(r'href="(/s/[^"]+/memory)"', first.text)
    assert len(set(links)) == 50
    following = re.findall(r'href="(/scopes\?page=[^"]+)"', first.text)
    second = await web.get(following[0].replace("&amp;", "&"))
    others = re.findall(r'href="(/s/[^"]+/memory)"', second.text)
    assert others
    assert not set(others) & set(links)


@pytest.mark.parametrize(
    "name", ["", "nothing.css", "%2e%2e/app.py", "..%2fapp.py", "/etc/passwd", "%00", "app.js%00.css"]
)
async def test_a_file_that_is_not_there_is_missing_and_no_fault(web: httpx2.AsyncClient, name: str) -> None:
    answer = await web.get(httpx2.URL("http://localhost:8080", raw_path=f"/static/{name}".encode()))
    assert (answer.status_code, answer.text) == (404, "")
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8080", "localhost.evil.example", ""])
async def test_a_name_that_only_points_at_us_is_not_ours(web: httpx2.AsyncClient, corner: Corner, host: str) -> None:
    answer = await web.get(corner.base + "/memory", headers={"host": host})
    assert answer.status_code == 421
    assert "Not this address" in answer.text


async def test_every_answer_says_what_a_browser_may_do(web: httpx2.AsyncClient, corner: Corner) -> None:
    for path, status in (("/memory", 200), ("/nowhere", 404), ("/memory/facts/x/delete", 404)):
        answer = await web.get(corner.base + path)
        assert answer.status_code == status
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]* src=)| style=| on[a-z]+=|javascript:", answer.text)
    (static,) = set(re.findall(r"/static/base\.css\?v=[0-9a-f]+", answer.text))
    kept = await web.get(static)
    assert "immutable" in kept.headers["cache-control"]
    assert "set-cookie" not in kept.headers


async def test_the_cookie_is_for_this_site_and_no_script(web: httpx2.AsyncClient, corner: Corner) -> None:
    cookie = (await web.get(corner.base + "/memory")).headers.get_list("set-cookie")
    assert len(cookie) == 2
    for each in cookie:
        assert "httponly" in each.lower()
        assert "samesite=lax" in each.lower()


async def test_a_body_has_a_bound(web: httpx2.AsyncClient, corner: Corner) -> None:
    csrf = word(await web.get(corner.base + "/memory"))

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    headers = {"content-type": "application/x-www-form-urlencoded", "x-csrf-token": csrf}
    for body in (b"x" * (2 * 1024 * 1024 + 1), endless()):
        answer = await web.post(corner.base + "/memory/facts", content=body, headers=headers)
        assert answer.status_code == 413
    many = await web.post(corner.base + "/memory/facts", content=b"&".join([b"a=1"] * 200), headers=headers)
    assert many.status_code == 400


async def test_off_loopback_the_console_has_a_door(corner: Corner) -> None:
    app = create_app(Settings(listen="0.0.0.0:8080", daemon=corner.world.console.settings.daemon, password_hash=HASH))
    async with client(app) as web:
        turned_away = await web.get(corner.base + "/memory")
        assert turned_away.status_code == 303
        assert turned_away.headers["location"].startswith("/login?next=/s/")
        for referer, back in (
            ("http://localhost:8080/s/a/b/c/memory?page=x", "/s/a/b/c/memory%3Fpage%3Dx"),
            ("", "/"),
            ("http://localhost:8080", "/"),
            ("http://[", "/"),
        ):
            asked = {"hx-request": "true", "referer": referer}
            assert (await web.get("/scopes", headers=asked)).headers["hx-redirect"] == f"/login?next={back}"
        page = await web.get(turned_away.headers["location"])
        before = dict(web.cookies)
        form = {"csrf": word(page), "next": corner.base + "/memory"}
        assert (await web.post("/login", data=form | {"password": "开 门"})).status_code == 401
        let_in = await web.post("/login", data=form | {"password": "开门"})
        assert (let_in.status_code, let_in.headers["location"]) == (303, corner.base + "/memory")
        assert dict(web.cookies) != before
        inside = await web.get(corner.base + "/memory")
        assert inside.status_code == 200
        await web.post("/logout", data={"csrf": word(inside)})
        assert (await web.get(corner.base + "/memory")).status_code == 303


async def test_the_password_cannot_be_tried_for_long(corner: Corner) -> None:
    app = create_app(Settings(listen="0.0.0.0:8080", daemon=NOWHERE, password_hash=HASH))
    async with client(app) as web:
        form = {"csrf": word(await web.get("/login"))}
        tried = [(await web.post("/login", data=form | {"password": f"p{n}"})).status_code for n in range(6)]
        assert tried == [401] * 5 + [429]
        assert (await web.post("/login", data=form | {"password": "开门"})).status_code == 429


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "\n"]
)
async def test_the_way_back_leads_nowhere_else(web: httpx2.AsyncClient, corner: Corner, target: str) -> None:
    csrf = word(await web.get(corner.base + "/memory"))
    answer = await web.post("/preferences", data={"csrf": csrf, "theme": "dark", "next": target})
    assert answer.headers["location"] == "/"


async def test_the_way_back_may_hold_any_letter(web: httpx2.AsyncClient, corner: Corner) -> None:
    csrf = word(await web.get(corner.base + "/memory"))
    for headers, where in (({}, "location"), ({"hx-request": "true"}, "hx-redirect")):
        form = {"csrf": csrf, "theme": "dark", "next": "/s/学校?q=词&x=1#甲"}
        answer = await web.post("/preferences", data=form, headers=headers)
        assert answer.headers[where] == "/s/%E5%AD%A6%E6%A0%A1?q=%E8%AF%8D&x=1#%E7%94%B2"


async def test_a_daemon_that_is_away_is_explained_on_every_page() -> None:
    app = create_app(Settings(daemon=NOWHERE))
    console: Console = app.state.console
    async with client(app, **{"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}) as web:
        base = "/s/school/agent/wang"
        paths = ("/memory", "/conversations", "/conversations/th_x", "/runs/r", "/context", "/cost")
        toast, *answers = await asyncio.gather(
            web.get(base + "/memory", headers={"hx-request": "true"}), *(web.get(base + path) for path in paths)
        )
    for answer in answers:
        assert answer.status_code == 503
        assert f"在 {NOWHERE} 上没有记忆服务应答" in answer.text
        assert "memsvc serve" in answer.text
        assert "重试" in answer.text
    assert toast.headers["hx-retarget"] == "#toasts"
    assert "连不上记忆服务" in toast.text
    await console.memory.close()


async def test_a_wrong_token_and_a_runners_token_are_explained(corner: Corner, tmp_path: Path) -> None:
    from memsvc import app as daemon_app
    from memsvc.auth import make_token
    from memsvc.config import Settings as DaemonSettings

    token, token_hash = make_token()
    credentials = [{"name": "runner", "role": "runner", "tenants": ["school"], "token_hash": token_hash}]
    values = {"listen": "127.0.0.1:0", "database": tmp_path / "own.db", "credentials": credentials}
    async with daemon_app.running(DaemonSettings.model_validate(values)) as daemon:
        for given, path, status, told in (
            ("msv_wrong", "/s/school/agent/wang/memory", 502, "MEMSVC_CONSOLE_TOKEN_FILE"),
            (token, "/s/school/agent/wang/memory", 403, "reviewer"),
            (token, "/s/other/agent/wang/conversations", 403, "tenant"),
        ):
            app = create_app(Settings(daemon=daemon.address, token=given))
            async with client(app) as web:
                answer = await web.get(path)
                assert (answer.status_code, told in answer.text) == (status, True)
            await app.state.console.memory.close()


async def test_the_log_holds_no_content(
    web: httpx2.AsyncClient, corner: Corner, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        csrf = word(await web.get(corner.base + "/memory"))
        await web.get(corner.base + "/conversations?list=1&q=秘密的词")
        await web.post(corner.base + "/memory/facts", data={"csrf": csrf, "text": "用户的秘密"})
        await web.get(corner.base + "/秘密的路")
    ours = [record.getMessage() for record in caplog.records if record.name == "memsvc_console"]
    assert len(ours) == 4
    for line in ours:
        assert "秘密" not in line
        assert "%E7" not in line
        assert corner.scope.tenant_id not in line


async def test_a_fault_of_ours_tells_its_place_and_not_what_it_saw(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(_: View) -> Response:
        raise ValueError("用户的秘密")

    app = create_app(Settings(daemon=NOWHERE))
    app.router.routes.insert(0, route("/fails", fails))
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8080") as web:
        answer = await web.get("/fails")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"
    assert "The console failed" in answer.text
    ours = [record.getMessage() for record in caplog.records if record.name == "memsvc_console"]
    assert any("ValueError" in line and "test_console_guard.py" in line for line in ours)
    assert "秘密" not in answer.text + "".join(ours)


@pytest.mark.parametrize(
    "path",
    [
        "/memory?page=garbage",
        "/memory?page=" + "x" * 9000,
        "/conversations?page=%00&q=%F0%28%8C%28",
        "/conversations?q=" + "字" * 300,
        "/conversations?q=%00",
        "/conversations/th_nowhere",
        "/conversations/%00%FF",
        "/conversations/" + "x" * 2000,
        "/conversations/..%2F..%2Fetc%2Fpasswd",
        "/runs/" + "r" * 300,
        "/runs/%E2%80%AE",
        "/sources",
        "/sources?run=&run=%00&" + "&".join(f"run=r{n}" for n in range(50)),
        "/memory/candidates/c_none/reject",
        "/memory/facts/f_none/delete",
        "/runs/none/delete",
        "/context?thread=%00",
        "/cost?thread=garbage&days=-1&span=x",
        "/chat?thread=garbage",
        "/nothing",
    ],
)
async def test_no_address_makes_the_console_stumble(web: httpx2.AsyncClient, corner: Corner, path: str) -> None:
    answer = await web.get(corner.base + path)
    assert answer.status_code in {200, 303, 404, 410, 422}, answer.text
    assert "<main" in answer.text or answer.status_code == 303


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/memory/facts", {"text": ""}),
        ("/memory/facts", {"text": "一\n二"}),
        ("/memory/facts", {"text": "x" * 300}),
        ("/memory/facts", {}),
        ("/memory/facts/f_none/edit", {"text": "用户教书"}),
        ("/memory/facts/f_none/delete", {}),
        ("/memory/candidates/c_none/confirm", {}),
        ("/memory/candidates/c_none/reject", {}),
        ("/conversations/th_none/rename", {"title": ""}),
        ("/conversations/th_none/archive", {}),
        ("/conversations/th_none/unarchive", {}),
        ("/conversations/th_none/delete", {}),
        ("/runs/none/delete", {}),
        ("/context", {"input": "\x00", "budget": "-1"}),
    ],
)
async def test_no_form_makes_the_console_stumble(
    web: httpx2.AsyncClient, corner: Corner, path: str, form: dict[str, str]
) -> None:
    csrf = word(await web.get(corner.base + "/memory"))
    for headers in ({}, {"hx-request": "true"}):
        answer = await web.post(corner.base + path, data=form | {"csrf": csrf}, headers=headers)
        assert answer.status_code in {200, 404, 410, 422}, answer.text


@pytest.mark.parametrize(
    "base", ["/s/a", "/s/a/b", "/s/a/b/c%20d", "/s/~/b/c", "/s/a/%3Cscript%3E/c", "/s/a/b/" + "c" * 129]
)
async def test_an_address_of_no_memory_is_not_found(web: httpx2.AsyncClient, base: str) -> None:
    answer = await web.get(base + "/memory")
    assert answer.status_code == 404
    assert "There is no such page" in answer.text
