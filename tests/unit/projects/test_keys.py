from dataclasses import replace

import pytest

from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.tokens import hash_token, mask_token
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.directory import Directory
from hedgerow.projects.keys import MAX_LABEL_CHARS, KeyRequest, Keys, build_key, generate_key_value
from hedgerow.projects.model import KeyId, ProjectId
from tests.unit.fake_time import START, FakeTime
from tests.unit.projects.factories import (
    KEY,
    ONE,
    OWNER,
    TWO,
    FakeProjectStore,
    make_directory,
    make_key,
)

REQUEST = KeyRequest(label="ci", scopes=("plugin:write",), project_ids=(ONE,))
ID = KeyId("key-1")


@pytest.fixture
def store() -> FakeProjectStore:
    return FakeProjectStore(make_key())


@pytest.fixture
async def directory(store: FakeProjectStore, fake_time: FakeTime) -> Directory:
    return await make_directory(store, fake_time)


@pytest.fixture
def keys(store: FakeProjectStore, directory: Directory) -> Keys:
    return Keys(store, directory)


def test_key_values_are_random_in_posthogs_format() -> None:
    values = {generate_key_value() for _ in range(100)}
    assert len(values) == 100
    assert all(value.startswith("phx_") and len(value) >= 4 + 27 for value in values)


def test_key_stores_hash_and_mask_but_not_the_value() -> None:
    key = build_key(REQUEST, OWNER.id, KEY, START)
    assert key.hash == hash_token(KEY)
    assert key.mask == mask_token(KEY)
    assert KEY not in repr(key)
    assert (key.label, key.scopes, key.project_ids) == ("ci", ("plugin:write",), (ONE,))
    assert (key.created_at, key.last_used_at, key.last_rolled_at) == (START, None, None)


def test_project_ids_are_sorted_and_unique() -> None:
    key = build_key(replace(REQUEST, project_ids=(TWO, ONE, TWO)), OWNER.id, KEY, START)
    assert key.project_ids == (ONE, TWO)


async def test_issued_key_works_immediately(keys: Keys, directory: Directory) -> None:
    issued = await keys.issue(REQUEST, OWNER, COMMAND_LINE, START)
    assert directory.find_key(issued.value) == issued.key
    assert issued.key.hash == hash_token(issued.value)


@pytest.mark.parametrize(
    ("request_", "code", "attr"),
    [
        (replace(REQUEST, project_ids=(ONE, ProjectId(999))), "does_not_exist", "scoped_teams"),
        (replace(REQUEST, scopes=()), "empty", "scopes"),
        (replace(REQUEST, scopes=("plugin:admin",)), "invalid_input", "scopes"),
        (replace(REQUEST, label=""), "blank", "label"),
        (replace(REQUEST, label="x" * (MAX_LABEL_CHARS + 1)), "max_length", "label"),
    ],
    ids=["unknown project", "no scope", "unknown scope", "no label", "long label"],
)
async def test_invalid_key_is_not_stored(
    keys: Keys, store: FakeProjectStore, request_: KeyRequest, code: str, attr: str
) -> None:
    """The command line has the same rules as the API."""
    with pytest.raises(Invalid) as raised:
        await keys.issue(request_, OWNER, COMMAND_LINE, START)
    assert (raised.value.code, raised.value.attr) == (code, attr)
    assert store.calls == []


async def test_unknown_project_is_refused_with_the_known_ones(keys: Keys) -> None:
    with pytest.raises(Invalid, match=r"^There is no project 999\. Expected one of: 1 \("):
        await keys.change(
            ID,
            label=None,
            scopes=None,
            project_ids=(ProjectId(999),),
            actor=COMMAND_LINE,
            now=START,
        )


async def test_change_keeps_other_fields(
    keys: Keys, store: FakeProjectStore, directory: Directory
) -> None:
    changed = await keys.change(
        ID, label="laptop", scopes=None, project_ids=None, actor=COMMAND_LINE, now=START
    )
    assert changed == replace(make_key(), label="laptop")
    assert directory.find_key(KEY) == changed
    assert "edit_key updated" in store.calls


async def test_change_can_restrict_and_widen_a_key(keys: Keys) -> None:
    narrow = await keys.change(
        ID, label=None, scopes=("plugin:read",), project_ids=(ONE,), actor=COMMAND_LINE, now=START
    )
    assert (narrow.scopes, narrow.project_ids) == (("plugin:read",), (ONE,))
    wide = await keys.change(
        ID, label=None, scopes=("*",), project_ids=(), actor=COMMAND_LINE, now=START
    )
    assert wide.project_ids == ()
    assert wide.scopes == ("*",)


async def test_unknown_scope_is_refused_before_any_store_call(
    keys: Keys, store: FakeProjectStore
) -> None:
    with pytest.raises(Invalid, match="Invalid scope: nonsense"):
        await keys.change(
            ID, label=None, scopes=("nonsense",), project_ids=None, actor=COMMAND_LINE, now=START
        )
    assert store.calls == []


async def test_rolling_replaces_the_value(
    keys: Keys, store: FakeProjectStore, directory: Directory
) -> None:
    issued = await keys.roll(ID, COMMAND_LINE, START)
    assert directory.find_key(KEY) is None
    assert directory.find_key(issued.value) == issued.key
    assert issued.key.id == ID
    assert issued.key.mask == mask_token(issued.value)
    assert issued.key.last_rolled_at == START
    assert "edit_key rolled" in store.calls


async def test_revoking_ends_a_key_immediately(keys: Keys, directory: Directory) -> None:
    await keys.revoke(ID, COMMAND_LINE, START)
    assert directory.find_key(KEY) is None
    with pytest.raises(NotFound):
        await keys.revoke(ID, COMMAND_LINE, START)
