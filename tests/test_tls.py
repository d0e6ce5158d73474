"""TLS over the wire: who gets in, what a renewed certificate changes, and that a broken one changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from memsvc_client import AsyncMemory, Memory, Scope, Unavailable

from memsvc.__main__ import main
from memsvc.config import Settings
from memsvc.errors import SettingWrong
from memsvc.tls import Certificates
from memsvc.v1 import memory_service_pb2 as svc
from memsvc.v1 import memory_service_pb2_grpc as rpc
from tests.authority import Authority, Pair
from tests.child import spawn
from tests.conftest import Running, Start

SCOPE = Scope("school-7", "exam")
HOUSE, STRANGERS = Authority("house"), Authority("strangers")
SERVER = HOUSE.pair("127.0.0.1", "localhost")
CALLER, INTRUDER = HOUSE.pair(caller=True), STRANGERS.pair(caller=True)


@dataclass
class Files:
    """Where a daemon's certificate stands."""

    folder: Path

    def write(self, pair: Pair, client_ca: bytes = b"") -> dict[str, str]:
        """Puts a certificate there; returns the settings that name it."""
        names = {"tls_certificate": pair.certificate, "tls_key": pair.key, "tls_client_ca": client_ca}
        for name, data in names.items():
            (self.folder / name).write_bytes(data)
        return {name: str(self.folder / name) for name, data in names.items() if data}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    folder = tmp_path / "tls"
    folder.mkdir()
    return Files(folder)


async def gets_in(running: Running, trusted: bytes = HOUSE.certificate, caller: Pair | None = None) -> bool:
    """Whether somebody who connects now, trusts these and shows this is answered."""
    credentials = grpc.ssl_channel_credentials(
        trusted, caller.key if caller else None, caller.certificate if caller else None
    )
    # Of channels with the same credentials, gRPC would have the second use the connection of the first.
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(running.daemon.address, credentials, options) as channel:
        return await answered(channel)


async def answered(channel: grpc.aio.Channel) -> bool:
    call = rpc.MemoryServiceStub(channel).GetContext(svc.GetContextRequest(scope=SCOPE.to_message()))
    code = await call.code()
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
    return code is grpc.StatusCode.OK


async def test_with_a_certificate_the_daemon_speaks_tls_and_nothing_else(start: Start, files: Files) -> None:
    running = await start(**files.write(SERVER))
    assert await gets_in(running)
    assert not await gets_in(running, trusted=STRANGERS.certificate)
    assert not await answered(running.channel)  # in plain text


async def test_where_certificates_are_asked_for_only_callers_of_the_authority_get_in(
    start: Start, files: Files
) -> None:
    running = await start(**files.write(SERVER, client_ca=HOUSE.certificate))
    assert await gets_in(running, caller=CALLER)
    assert not await gets_in(running)
    assert not await gets_in(running, caller=INTRUDER)
    assert not await gets_in(running, caller=HOUSE.pair(caller=True, days=-1))


async def test_a_renewed_certificate_is_shown_to_whoever_connects_next_and_breaks_no_connection(
    start: Start, files: Files
) -> None:
    running = await start(**files.write(SERVER))
    credentials = grpc.ssl_channel_credentials(HOUSE.certificate)
    async with grpc.aio.secure_channel(running.daemon.address, credentials) as old:
        assert await answered(old)
        files.write(STRANGERS.pair("127.0.0.1"))
        assert await gets_in(running, trusted=STRANGERS.certificate)
        assert not await gets_in(running)
        assert await answered(old)


async def test_new_authorities_of_callers_are_taken_as_well(start: Start, files: Files) -> None:
    running = await start(**files.write(SERVER, client_ca=HOUSE.certificate))
    assert not await gets_in(running, caller=INTRUDER)
    files.write(SERVER, client_ca=STRANGERS.certificate)
    assert await gets_in(running, caller=INTRUDER)
    assert not await gets_in(running, caller=CALLER)


def breakages(files: Files) -> Iterator[str]:
    """Breaks the files in one way after another; each yields the setting that must be named."""
    good = HOUSE.pair("127.0.0.1")
    for pair, client_ca, named in (
        (Pair(good.certificate, SERVER.key), HOUSE.certificate, "TLS_KEY"),
        (Pair(b"", good.key), HOUSE.certificate, "TLS_CERTIFICATE"),
        (Pair(good.certificate[:200], good.key), HOUSE.certificate, "TLS_CERTIFICATE"),
        (Pair(good.certificate, good.key[:60]), HOUSE.certificate, "TLS_CERTIFICATE"),
        (Pair(good.certificate, good.locked()), HOUSE.certificate, "TLS_CERTIFICATE"),
        (Pair(good.key, good.certificate), HOUSE.certificate, "TLS_CERTIFICATE"),
        (Pair(b"\xff\x00" * 99, good.key), HOUSE.certificate, "TLS_CERTIFICATE"),
        (HOUSE.pair("127.0.0.1", days=-1), HOUSE.certificate, "TLS_CERTIFICATE"),
        (HOUSE.pair("127.0.0.1", caller=True), HOUSE.certificate, "TLS_CERTIFICATE"),
        (good, b"\xff nonsense", "TLS_CLIENT_CA"),
        (good, b"nonsense", "TLS_CLIENT_CA"),
        (good, good.key, "TLS_CLIENT_CA"),
        (good, CALLER.certificate, "TLS_CLIENT_CA"),
    ):
        files.write(pair, client_ca)
        yield named
    for name in ("tls_certificate", "tls_key", "tls_client_ca"):
        files.write(good, HOUSE.certificate)
        (files.folder / name).unlink()
        yield name.upper()


async def test_a_broken_certificate_leaves_the_old_one_in_force_and_the_log_says_why_once(
    start: Start, files: Files
) -> None:
    running = await start(**files.write(SERVER, client_ca=HOUSE.certificate))
    with structlog.testing.capture_logs() as said:
        for named in breakages(files):
            said.clear()
            for _ in range(2):
                assert await gets_in(running, caller=CALLER), named
            (line,) = [entry for entry in said if entry["event"] == "certificate_refused"]
            assert line["why"].startswith(f"MEMSVC_{named}: ")
        files.write(STRANGERS.pair("127.0.0.1"), client_ca=HOUSE.certificate)
        assert await gets_in(running, trusted=STRANGERS.certificate, caller=CALLER)
        assert said[-1]["event"] == "certificate_renewed"
    assert "PRIVATE" not in str(said)


def test_a_broken_certificate_is_no_beginning(files: Files) -> None:
    settings = files.write(SERVER, client_ca=HOUSE.certificate)
    for named in breakages(files):
        with pytest.raises(SettingWrong) as refused:
            Certificates.open(Settings.model_validate(settings))
        assert refused.value.message.startswith(f"MEMSVC_{named}: ")


async def test_a_daemon_that_cannot_have_its_certificate_says_so_in_one_line(tmp_path: Path, files: Files) -> None:
    files.write(Pair(SERVER.certificate, CALLER.key))
    paths = {f"MEMSVC_{name.upper()}": str(files.folder / name) for name in ("tls_certificate", "tls_key")}
    refused = await spawn(tmp_path, **paths)
    assert await refused.ended() == 78
    assert refused.said == ["memsvc: MEMSVC_TLS_KEY: is not the key of the certificate\n"]


ALIKE: list[Callable[[], Pair]] = [
    lambda: SERVER,
    lambda: HOUSE.pair("*.example.com"),
    lambda: HOUSE.pair("memsvc.internal", "10.1.2.3"),
    lambda: HOUSE.pair(common_name="only a name"),
]


@pytest.mark.parametrize("pair", ALIKE)
async def test_the_health_check_needs_no_trust_in_the_certificate(
    start: Start, files: Files, monkeypatch: pytest.MonkeyPatch, pair: Callable[[], Pair]
) -> None:
    settings = files.write(pair())
    running = await start(**settings)
    assert await health(monkeypatch, running, settings) == 0
    files.write(Pair(b"broken", b"broken"))  # under a daemon that keeps the old one
    assert await health(monkeypatch, running, settings) == 0


async def test_the_health_check_shows_its_own_certificate_where_one_is_asked_for(
    start: Start, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = files.write(SERVER, client_ca=HOUSE.certificate)
    running = await start(**settings)
    assert await health(monkeypatch, running, settings) == 1  # the daemon's own is for servers alone
    for caller, status in ((CALLER, 0), (INTRUDER, 1)):
        (files.folder / "caller.pem").write_bytes(caller.certificate)
        (files.folder / "caller.key").write_bytes(caller.key)
        shown = {
            "healthcheck_certificate": str(files.folder / "caller.pem"),
            "healthcheck_key": str(files.folder / "caller.key"),
        }
        assert await health(monkeypatch, running, settings | shown) == status


async def health(monkeypatch: pytest.MonkeyPatch, running: Running, settings: dict[str, str]) -> int:
    """Runs the command beside the daemon, with its settings."""
    for name, value in (settings | {"listen": running.daemon.address}).items():
        monkeypatch.setenv(f"MEMSVC_{name.upper()}", value)
    return await asyncio.to_thread(main, ["healthcheck", "--timeout", "2"])


async def test_the_python_clients_speak_tls_and_show_a_certificate(start: Start, files: Files) -> None:
    running = await start(**files.write(SERVER, client_ca=HOUSE.certificate))
    options: Any = {
        "root_certificates": HOUSE.certificate,
        "client_certificate": CALLER.certificate,
        "client_key": CALLER.key,
    }

    def blocking(**options: Any) -> None:
        with Memory(running.daemon.address, **options) as memory:
            memory.get_context(SCOPE, timeout_s=1.5)

    async with AsyncMemory(running.daemon.address, **options) as memory:
        assert (await memory.get_context(SCOPE)).thread_new
    await asyncio.to_thread(blocking, **options)
    with pytest.raises(Unavailable):
        await asyncio.to_thread(blocking, root_certificates=HOUSE.certificate)
    with pytest.raises(ValueError, match="go together"):
        Memory("127.0.0.1:1", client_certificate=CALLER.certificate)
