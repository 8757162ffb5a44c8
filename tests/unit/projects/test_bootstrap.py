from uuid import UUID

from hedgerow.lib.tokens import hash_token
from hedgerow.projects.bootstrap import build_installation, generate_initial_keys
from tests.unit.fake_time import START
from tests.unit.projects.factories import KEY, TOKEN


def test_configured_keys_are_used() -> None:
    keys = generate_initial_keys(TOKEN, KEY)
    assert (keys.project_key, keys.personal_key) == (TOKEN, KEY)


def test_keys_are_random_by_default() -> None:
    first, second = generate_initial_keys("", ""), generate_initial_keys("", "")
    assert first.project_key.startswith("phc_")
    assert first.personal_key.startswith("phx_")
    assert first.project_key != second.project_key
    assert first.personal_key != second.personal_key


def test_one_key_can_be_configured_alone() -> None:
    assert generate_initial_keys(TOKEN, "").project_key == TOKEN
    assert generate_initial_keys(TOKEN, "").personal_key.startswith("phx_")
    assert generate_initial_keys("", KEY).personal_key == KEY


def test_only_generated_keys_are_shown() -> None:
    keys = generate_initial_keys(TOKEN, KEY)
    assert TOKEN not in keys.describe()
    assert KEY not in keys.describe()
    assert keys.generated_personal_key is None
    generated = generate_initial_keys("", "")
    assert generated.describe().count(generated.project_key) == 1
    assert generated.describe().count(generated.personal_key) == 1
    assert generated.generated_personal_key == generated.personal_key


def test_new_installation_has_a_default_project_and_an_unrestricted_key() -> None:
    first = build_installation(generate_initial_keys(TOKEN, KEY), START)
    assert first.project.name == "Default project"
    assert first.project.timezone == "UTC"
    assert first.project.api_token == TOKEN
    assert first.key.scopes == ("*",)
    assert first.key.project_ids == ()
    assert first.key.user_id == first.owner.id
    assert first.key.created_at == START
    assert first.key.last_used_at is None


def test_first_key_is_stored_as_hash_and_mask() -> None:
    key = build_installation(generate_initial_keys(TOKEN, KEY), START).key
    assert key.hash == hash_token(KEY)
    assert key.mask == "phx_...ests"
    assert KEY not in repr(key)


def test_each_installation_has_new_ids() -> None:
    one, two = (build_installation(generate_initial_keys(TOKEN, KEY), START) for _ in range(2))
    assert UUID(one.organization.id) != UUID(two.organization.id)
    assert UUID(one.owner.uuid) != UUID(two.owner.uuid)
    assert one.key.id != two.key.id
    assert one.owner.organization == one.organization
