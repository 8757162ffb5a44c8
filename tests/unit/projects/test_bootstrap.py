from uuid import UUID

from hedgerow.lib.tokens import token_hash
from hedgerow.projects.bootstrap import first_keys, installation
from tests.unit.fake_time import START
from tests.unit.projects.world import KEY, TOKEN


def test_the_keys_that_were_asked_for_are_taken() -> None:
    keys = first_keys(TOKEN, KEY)
    assert (keys.project_key, keys.personal_key) == (TOKEN, KEY)


def test_without_a_wish_keys_are_random() -> None:
    first, second = first_keys("", ""), first_keys("", "")
    assert first.project_key.startswith("phc_")
    assert first.personal_key.startswith("phx_")
    assert first.project_key != second.project_key
    assert first.personal_key != second.personal_key


def test_one_key_may_be_wished_and_the_other_left_to_chance() -> None:
    assert first_keys(TOKEN, "").project_key == TOKEN
    assert first_keys(TOKEN, "").personal_key.startswith("phx_")
    assert first_keys("", KEY).personal_key == KEY


def test_a_new_installation_has_the_default_project_and_a_key_for_everything() -> None:
    first = installation(first_keys(TOKEN, KEY), START)
    assert first.project.name == "Default project"
    assert first.project.timezone == "UTC"
    assert first.project.api_token == TOKEN
    assert first.key.scopes == ("*",)
    assert first.key.is_unrestricted
    assert first.key.user_id == first.owner.id
    assert first.key.created_at == START
    assert first.key.last_used_at is None


def test_the_first_key_is_kept_as_hash_and_mask_only() -> None:
    key = installation(first_keys(TOKEN, KEY), START).key
    assert key.hash == token_hash(KEY)
    assert key.mask == "phx_...ests"
    assert KEY not in repr(key)


def test_every_installation_has_its_own_identity() -> None:
    one, two = (installation(first_keys(TOKEN, KEY), START) for _ in range(2))
    assert UUID(one.organization.id) != UUID(two.organization.id)
    assert UUID(one.owner.uuid) != UUID(two.owner.uuid)
    assert one.key.id != two.key.id
    assert one.owner.organization == one.organization
