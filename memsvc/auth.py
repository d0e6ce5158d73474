"""Who may call what: bearer tokens, three roles, tenants. Fail-closed: what is not granted here is denied.

Only hashes of tokens are kept. Every token is compared with every hash, in constant time, so that an answer's delay
tells nothing about either.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memsvc.config import Credential
from memsvc.errors import RoleDenied, ScopeDenied, SettingWrong, Unauthenticated

PACKAGE = "/memsvc.v1."
CREDENTIALS = "credentials.toml"
"""What `memsvc token init` calls the file that the daemon reads."""

_RUNNER = {
    "MemoryService": {"GetContext", "RecordRun"},
    "RecallService": {"Search"},
    "ThreadService": {
        "GetThread",
        "ListThreads",
        "ListRuns",
        "GetRun",
        "RenameThread",
        "ArchiveThread",
        "UnarchiveThread",
    },
}
_REVIEWER = {
    "ThreadService": {"DeleteThread", "DeleteRun"},
    "CoreService": {
        "ListFacts",
        "CreateFact",
        "UpdateFact",
        "DeleteFact",
        "ListCandidates",
        "ConfirmCandidate",
        "RejectCandidate",
    },
    "OpsService": {"GetUsage", "ListMemoryOps", "GetWorkerStatus", "ListNotices", "AcknowledgeNotice"},
}
_RANKS = {"runner": 0, "reviewer": 1, "admin": 2}


def _least_ranks() -> dict[str, int]:
    return {
        f"{PACKAGE}{service}/{method}": rank
        for rank, table in enumerate((_RUNNER, _REVIEWER))
        for service, methods in table.items()
        for method in methods
    }


_LEAST_RANK = _least_ranks()
"""The least rank that may call a method. One that is not listed is the admin's."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the credential's name, role and tenants."""

    name: str
    role: str
    tenants: tuple[str, ...]

    def check_method(self, method: str) -> None:
        """RoleDenied unless the role may call `method` (`/memsvc.v1.Service/Method`)."""
        least = _LEAST_RANK.get(method, _RANKS["admin"])
        if _RANKS[self.role] < least:
            raise RoleDenied(next(role for role, rank in _RANKS.items() if rank == least))

    def check_tenant(self, tenant_id: str) -> None:
        """ScopeDenied unless the tenant is one of the caller's."""
        if "*" not in self.tenants and tenant_id not in self.tenants:
            raise ScopeDenied

    @property
    def sees_all(self) -> bool:
        """Whether the caller may ask about the whole daemon."""
        return "*" in self.tenants


EVERYONE = Caller("", "admin", ("*",))
"""Who calls a daemon without credentials, which listens on loopback only."""


class Gate:
    """Tells a caller by its token. The credentials can be replaced while calls are under way."""

    def __init__(self, credentials: Sequence[Credential]) -> None:
        self.replace(credentials)

    def replace(self, credentials: Sequence[Credential]) -> None:
        """Takes these credentials from the next call on."""
        self._callers = [
            (bytes.fromhex(c.token_hash.removeprefix("sha256:")), Caller(c.name, c.role, c.tenants))
            for c in credentials
        ]

    @property
    def open(self) -> bool:
        """Whether there are no credentials at all, and every caller is granted every role."""
        return not self._callers

    def caller(self, authorization: str | None) -> Caller:
        """Returns whose token the `authorization` header bears. Unauthenticated."""
        if not self._callers:
            return EVERYONE
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated
        digest = hashlib.sha256(token.strip().encode()).digest()
        found = None
        for known, caller in self._callers:
            if hmac.compare_digest(known, digest):
                found = found or caller
        if found is None:
            raise Unauthenticated
        return found


def make_token() -> tuple[str, str]:
    """Returns a new token and the hash of it that a credential bears."""
    token = "msv_" + secrets.token_urlsafe(32)
    return token, "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def entry(role: str, tenants: Sequence[str], token_hash: str) -> str:
    """Returns the [[credentials]] entry of a role, named after it. Tenants are names or `*`: nothing needs escaping."""
    listed = ", ".join(f'"{tenant}"' for tenant in tenants)
    return f'[[credentials]]\nname = "{role}"\nrole = "{role}"\ntenants = [{listed}]\ntoken_hash = "{token_hash}"\n'


def make_tokens(folder: Path, tenants: Sequence[str]) -> dict[str, Path] | None:
    """Makes a token of each role below `folder`, and `credentials.toml` that knows them; returns the file of each role.

    Each token stands in a folder of its own, `runner/token` and so on, so that a container can be given one of them and
    no other; nobody but the user who runs this can read it. `credentials.toml` comes last and whole: where it exists,
    the tokens do, nothing is touched, and None is returned. What an earlier attempt left without it is replaced. Of two
    that begin at once, one waits and then finds everything done. SettingWrong where the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with _alone_in(folder):
            if (folder / CREDENTIALS).exists():
                return None
            entries, files = [], {}
            for role in _RANKS:
                token, token_hash = make_token()
                files[role] = folder / role / "token"
                files[role].parent.mkdir(mode=0o700, exist_ok=True)
                _write(files[role], token + "\n", 0o600)
                entries.append(entry(role, tenants, token_hash))
            _write(folder / CREDENTIALS, "\n".join(entries), 0o644)
    except OSError as error:
        raise SettingWrong("--directory", f"{error.filename or folder} cannot be written: {error.strerror}") from None
    return files


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, which goes with the process, however it ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(path: Path, text: str, mode: int) -> None:
    """Puts a file there whole or not at all, and durably: under another name first, its mode from its first byte on."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
