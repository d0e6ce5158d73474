"""Thread ids prove whose they are; tags and tombstones are stable and tell nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.model import Scope
from memsvc.rules import ids

SECRET, OTHER_SECRET = b"s" * 32, b"o" * 32
names = st.binary(min_size=ids.NAME_BYTES, max_size=ids.NAME_BYTES)
parts = st.text("ab", min_size=0, max_size=3)
scopes = st.builds(Scope, parts, parts, parts)


@given(name=names, scope=scopes, stranger=scopes)
def test_an_id_is_good_for_its_scope_and_its_database_alone(name: bytes, scope: Scope, stranger: Scope) -> None:
    thread_id = ids.mint_thread_id(SECRET, scope, name)
    assert re.fullmatch(r"th_[a-z2-7]{24}", thread_id)
    assert ids.bears_scope(SECRET, scope, thread_id)
    assert ids.bears_scope(SECRET, stranger, thread_id) is (scope == stranger)
    assert not ids.bears_scope(OTHER_SECRET, scope, thread_id)


@given(name=names, at=st.integers(3, 26), char=st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"))
def test_an_id_with_a_changed_character_is_nobodys(name: bytes, at: int, char: str) -> None:
    scope = Scope("school-7", "exam")
    thread_id = ids.mint_thread_id(SECRET, scope, name)
    forged = thread_id[:at] + char + thread_id[at + 1 :]
    assert ids.bears_scope(SECRET, scope, forged) is (forged == thread_id)


@given(text=st.text(max_size=40))
def test_any_other_text_is_no_id(text: str) -> None:
    assert not ids.bears_scope(SECRET, Scope("a", "b"), text)
    assert not ids.bears_scope(SECRET, Scope("a", "b"), "th_" + text)


@pytest.mark.parametrize(
    "change", [str.upper, str.title, lambda s: s + "=", lambda s: " " + s, lambda s: s[:-1] + "１"]
)
def test_another_spelling_of_an_id_is_none(change: object) -> None:
    thread_id = ids.mint_thread_id(SECRET, Scope("a", "b"), b"0123456789")
    assert not ids.bears_scope(SECRET, Scope("a", "b"), change(thread_id))  # type: ignore[operator]


@given(first=scopes, second=scopes, key=parts, other_key=parts, generation=st.integers(0, 3))
def test_a_key_names_one_thread_a_scope_and_generation(
    first: Scope, second: Scope, key: str, other_key: str, generation: int
) -> None:
    def name(scope: Scope, key: str, generation: int) -> bytes:
        return ids.keyed_name(SECRET, scope, key, generation)

    assert name(first, key, generation) == name(first, key, generation)
    assert (name(first, key, 0) == name(second, other_key, generation)) is (
        (first, key, 0) == (second, other_key, generation)
    )


@given(first=scopes, second=scopes)
def test_a_tag_is_the_scopes_own(first: Scope, second: Scope) -> None:
    assert re.fullmatch(r"[0-9a-f]{6}", ids.tag(SECRET, first))
    assert ids.tag(SECRET, first) == ids.tag(SECRET, first)
    assert (ids.tag(SECRET, first) == ids.tag(SECRET, second)) is (first == second)


@given(name=st.text(max_size=20))
def test_a_tombstone_knows_its_name_again_by_kind(name: str) -> None:
    stone = ids.tombstone(SECRET, "run", name)
    assert stone == ids.tombstone(SECRET, "run", name)
    assert stone != ids.tombstone(SECRET, "thread", name)
    assert stone != ids.tombstone(OTHER_SECRET, "run", name)
    assert len(stone) == 16


@given(first=scopes, second=scopes)
def test_the_tombstones_of_each_scope_have_a_key_of_their_own(first: Scope, second: Scope) -> None:
    key = ids.tombstone_key(SECRET, first)
    assert len(key) == 32
    assert (key == ids.tombstone_key(SECRET, second)) is (first == second)
    assert key != ids.tombstone_key(OTHER_SECRET, first)
