from dataclasses import replace

import pytest

from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.tokens import token_hash, token_mask
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.directory import Directory
from hedgerow.projects.keys import LABEL_MAX, Keys, KeyWish, draft_key, new_key_value
from hedgerow.projects.model import KeyId, ProjectId
from tests.unit.fake_time import START, FakeTime
from tests.unit.projects.world import KEY, ONE, OWNER, TWO, ListStore, a_directory, a_key

WISH = KeyWish(label="ci", scopes=("plugin:write",), project_ids=(ONE,))
ID = KeyId("key-1")


@pytest.fixture
def store() -> ListStore:
    return ListStore(a_key())


@pytest.fixture
async def directory(store: ListStore, fake_time: FakeTime) -> Directory:
    return await a_directory(store, fake_time)


@pytest.fixture
def keys(store: ListStore, directory: Directory) -> Keys:
    return Keys(store, directory)


def test_key_values_are_random_and_of_posthogs_form() -> None:
    values = {new_key_value() for _ in range(100)}
    assert len(values) == 100
    assert all(value.startswith("phx_") and len(value) >= 4 + 27 for value in values)


def test_a_draft_holds_the_hash_and_the_mask_and_never_the_value() -> None:
    key = draft_key(WISH, OWNER.id, KEY, START)
    assert key.hash == token_hash(KEY)
    assert key.mask == token_mask(KEY)
    assert KEY not in repr(key)
    assert (key.label, key.scopes, key.project_ids) == ("ci", ("plugin:write",), (ONE,))
    assert (key.created_at, key.last_used_at, key.last_rolled_at) == (START, None, None)


def test_projects_are_kept_sorted_and_once_each() -> None:
    key = draft_key(replace(WISH, project_ids=(TWO, ONE, TWO)), OWNER.id, KEY, START)
    assert key.project_ids == (ONE, TWO)


async def test_an_issued_key_works_at_once(keys: Keys, directory: Directory) -> None:
    issued = await keys.issue(WISH, OWNER.id, TERMINAL, START)
    assert directory.find_key(issued.value) == issued.key
    assert issued.key.hash == token_hash(issued.value)


@pytest.mark.parametrize(
    ("wish", "code", "attr"),
    [
        (replace(WISH, project_ids=(ONE, ProjectId(999))), "invalid_input", "scoped_teams"),
        (replace(WISH, scopes=()), "empty", "scopes"),
        (replace(WISH, scopes=("plugin:admin",)), "invalid_input", "scopes"),
        (replace(WISH, label=""), "blank", "label"),
        (replace(WISH, label="x" * (LABEL_MAX + 1)), "max_length", "label"),
    ],
    ids=["unknown project", "no scope", "unknown scope", "no label", "long label"],
)
async def test_a_key_that_breaks_a_rule_is_not_stored(
    keys: Keys, store: ListStore, wish: KeyWish, code: str, attr: str
) -> None:
    """Whoever asks: the terminal goes by the same rules as the API."""
    with pytest.raises(Invalid) as raised:
        await keys.issue(wish, OWNER.id, TERMINAL, START)
    assert (raised.value.code, raised.value.attr) == (code, attr)
    assert store.calls == []


async def test_an_unknown_project_is_refused_in_posthogs_words(keys: Keys) -> None:
    with pytest.raises(Invalid, match=r"^You must be a member of all teams"):
        await keys.change(
            ID,
            label=None,
            scopes=None,
            project_ids=(ProjectId(999),),
            actor=TERMINAL,
            now=START,
        )


async def test_a_change_leaves_alone_what_it_does_not_name(
    keys: Keys, store: ListStore, directory: Directory
) -> None:
    changed = await keys.change(
        ID, label="laptop", scopes=None, project_ids=None, actor=TERMINAL, now=START
    )
    assert changed == replace(a_key(), label="laptop")
    assert directory.find_key(KEY) == changed
    assert "edit_key updated" in store.calls


async def test_a_change_may_narrow_a_key_and_widen_it_again(keys: Keys) -> None:
    narrow = await keys.change(
        ID, label=None, scopes=("plugin:read",), project_ids=(ONE,), actor=TERMINAL, now=START
    )
    assert (narrow.scopes, narrow.project_ids) == (("plugin:read",), (ONE,))
    wide = await keys.change(
        ID, label=None, scopes=("*",), project_ids=(), actor=TERMINAL, now=START
    )
    assert wide.is_unrestricted
    assert wide.scopes == ("*",)


async def test_a_change_to_an_unknown_scope_is_refused_before_the_store_is_asked(
    keys: Keys, store: ListStore
) -> None:
    with pytest.raises(Invalid, match="Invalid scope: nonsense"):
        await keys.change(
            ID, label=None, scopes=("nonsense",), project_ids=None, actor=TERMINAL, now=START
        )
    assert store.calls == []


async def test_rolling_gives_a_new_value_and_ends_the_old_one(
    keys: Keys, store: ListStore, directory: Directory
) -> None:
    issued = await keys.roll(ID, TERMINAL, START)
    assert directory.find_key(KEY) is None
    assert directory.find_key(issued.value) == issued.key
    assert issued.key.id == ID
    assert issued.key.mask == token_mask(issued.value)
    assert issued.key.last_rolled_at == START
    assert "edit_key rolled" in store.calls


async def test_revoking_ends_a_key_at_once(keys: Keys, directory: Directory) -> None:
    await keys.revoke(ID, TERMINAL, START)
    assert directory.find_key(KEY) is None
    with pytest.raises(NotFound):
        await keys.revoke(ID, TERMINAL, START)
