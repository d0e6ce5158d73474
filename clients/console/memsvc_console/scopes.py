"""Whose memory a page shows, as a part of its address: /s/tenant/agent/user, with `~` for nobody in particular."""

from __future__ import annotations

import re

from memsvc_client import Scope

NAME = re.compile(r"[A-Za-z0-9._\-:@]{1,128}")
NOBODY = "~"
"""Stands for the empty user, and before the names `.` and `..`, which browsers take out of an address. No name of the
contract contains it."""


def parse_scope(tenant: str, agent: str, user: str = "") -> Scope | None:
    """The scope of three names; None where one of them is no name of the contract."""
    if not NAME.fullmatch(tenant) or not NAME.fullmatch(agent) or (user and not NAME.fullmatch(user)):
        return None
    return Scope(tenant, agent, user)


def scope_path(scope: Scope) -> str:
    """The address that all pages of a scope begin with."""
    return "/s/" + encode_scope(scope)


def encode_scope(scope: Scope) -> str:
    """A scope in one word, as an address and a cookie hold it."""
    names = (scope.tenant_id, scope.agent_id, scope.user_id)
    return "/".join(NOBODY + name if name in {"", ".", ".."} else name for name in names)


def decode_scope(word: str) -> Scope | None:
    """The scope of such a word; None where it is none."""
    parts = [part.removeprefix(NOBODY) for part in word.split("/")]
    return parse_scope(*parts) if len(parts) == 3 else None
