"""The certificate that the daemon shows, and the authorities that its callers must come from: files, looked at again at
every new connection, so that a renewed certificate needs no restart.

What is taken has shaken hands with itself first: certificate and key fit, nothing has expired, the authorities are
there. A change that does not pass leaves what was good in force, and the log says why, once.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from memsvc.config import Settings, variable
from memsvc.errors import SettingWrong

log = structlog.get_logger()

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Papers:
    """What a server shows, as PEM, and until when it is good; with `client_ca`, only callers of these get in."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None
    until: datetime


class Certificates:
    """The papers in force. `open` reads them; `renewed` says whether there are new ones."""

    def __init__(self, read: Callable[[], Papers], stamp: Callable[[], Stamp], papers: Papers, seen: Stamp) -> None:
        self._read, self._stamp = read, stamp
        self.papers, self._seen = papers, seen

    @classmethod
    def open(cls, settings: Settings) -> Certificates | None:
        """Reads the files that the settings name; None where they name none. SettingWrong."""
        if not settings.tls_certificate:
            return None
        paths = {
            name: Path(str(getattr(settings, name)))
            for name in ("tls_certificate", "tls_key", "tls_client_ca")
            if getattr(settings, name)
        }

        def stamp() -> Stamp:
            return tuple(_stamp(path) for path in paths.values())

        seen = stamp()
        papers = _read(paths)
        log.info("tls", certificate_until=papers.until.isoformat(), client_certificates=papers.client_ca is not None)
        return cls(lambda: _read(paths), stamp, papers, seen)

    def renewed(self) -> Papers | None:
        """Returns the papers where they are others than before. Called at each handshake, on a thread of gRPC's."""
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        # Remembered whatever comes of it: files that are half written change again, and are read again then.
        self._seen = stamp
        try:
            self.papers = self._read()
        except SettingWrong as error:
            log.error("certificate_refused", why=error.message, in_force_until=self.papers.until.isoformat())
            return None
        log.info("certificate_renewed", certificate_until=self.papers.until.isoformat())
        return self.papers


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _read(paths: dict[str, Path]) -> Papers:
    """Reads and tries the files. What is complained of is named by its setting; no byte of a file is quoted."""
    data = {name: _bytes(name, path) for name, path in paths.items()}
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty passphrase fits no key that has one; without any, the library would ask at the terminal.
        server.load_cert_chain(paths["tls_certificate"], paths["tls_key"], password="")
    except ssl.SSLError as error:
        mismatch = "KEY_VALUES_MISMATCH" in (error.reason or "")
        raise _wrong(
            "tls_key" if mismatch else "tls_certificate",
            "is not the key of the certificate"
            if mismatch
            else "and tls_key are not a PEM certificate and its plain key",
        ) from None
    except (OSError, ValueError) as error:
        raise _wrong("tls_certificate", f"cannot be used: {type(error).__name__}") from None
    if "tls_client_ca" in data:
        _check_authorities(data["tls_client_ca"])
    until = _shake_hands(server, data["tls_certificate"])
    return Papers(data["tls_certificate"], data["tls_key"], data.get("tls_client_ca"), until)


def _bytes(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _wrong(name, f"{path} cannot be read: {error.strerror}") from None


def _check_authorities(pem: bytes) -> None:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        trust.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise _wrong("tls_client_ca", "holds no PEM certificates") from None
    if not trust.cert_store_stats()["x509_ca"]:
        raise _wrong("tls_client_ca", "holds no certificate of an authority")


def _shake_hands(server: ssl.SSLContext, pem: bytes) -> datetime:
    """Lets the certificate be looked at by a client that trusts it; returns when it expires."""
    client = trusting(pem.decode("ascii"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (server.wrap_bio(to_server, to_client, server_side=True), client.wrap_bio(to_client, to_server))
    done: set[int] = set()
    while len(done) < len(ends):
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                done.add(number)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as error:
                raise _wrong("tls_certificate", f"would be refused by callers: {error.verify_message}") from None
            except ssl.SSLError as error:
                raise _wrong("tls_certificate", f"cannot be used: {error.reason}") from None
    shown: dict[str, Any] = ends[1].getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(shown["notAfter"]), UTC)


def trusting(pem: str) -> ssl.SSLContext:
    """A client's context that trusts these certificates themselves, whoever issued them and whatever their name."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=pem)
    return client


def _wrong(name: str, why: str) -> SettingWrong:
    return SettingWrong(variable(name), why)
