"""Who may call what: bearer tokens, three roles, tenants. Fail-closed: what is not granted here is denied.

Only hashes of tokens are kept. Every token is compared with every hash, in constant time, so that an answer's delay
tells nothing about either.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from memsvc.config import Credential
from memsvc.errors import RoleDenied, ScopeDenied, Unauthenticated

PACKAGE = "/memsvc.v1."

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
    """Returns a new token and the hash of it that memsvc.toml wants."""
    token = "msv_" + secrets.token_urlsafe(32)
    return token, "sha256:" + hashlib.sha256(token.encode()).hexdigest()
