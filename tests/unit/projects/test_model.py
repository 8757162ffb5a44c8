from datetime import timedelta

import pytest

from hedgerow.projects.model import ProjectToken
from tests.unit.fake_time import START
from tests.unit.projects.factories import ONE, TWO, make_key


def test_key_without_projects_has_access_to_all() -> None:
    key = make_key()
    assert key.is_unrestricted
    assert key.may_see(ONE)
    assert key.may_see(TWO)


def test_key_with_projects_has_access_to_those_only() -> None:
    key = make_key(project_ids=(TWO,))
    assert not key.is_unrestricted
    assert not key.may_see(ONE)
    assert key.may_see(TWO)


@pytest.mark.parametrize(
    ("left_s", "valid"), [(None, True), (1.0, True), (0.0, False), (-1.0, False)]
)
def test_token_is_valid_until_it_expires(left_s: float | None, valid: bool) -> None:
    expires_at = None if left_s is None else START + timedelta(seconds=left_s)
    token = ProjectToken(value="phc_x", project_id=ONE, expires_at=expires_at)
    assert token.is_valid(START) is valid
