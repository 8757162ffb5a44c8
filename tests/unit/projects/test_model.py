from datetime import timedelta

import pytest

from hedgerow.projects.model import ProjectToken
from tests.unit.fake_time import START
from tests.unit.projects.world import ONE, TWO, a_key


def test_a_key_without_projects_sees_them_all() -> None:
    key = a_key()
    assert key.is_unrestricted
    assert key.may_see(ONE)
    assert key.may_see(TWO)


def test_a_key_with_projects_sees_those_only() -> None:
    key = a_key(project_ids=(TWO,))
    assert not key.is_unrestricted
    assert not key.may_see(ONE)
    assert key.may_see(TWO)


@pytest.mark.parametrize(
    ("left_s", "valid"), [(None, True), (1.0, True), (0.0, False), (-1.0, False)]
)
def test_a_project_key_is_valid_until_the_moment_it_expires(
    left_s: float | None, valid: bool
) -> None:
    expires_at = None if left_s is None else START + timedelta(seconds=left_s)
    token = ProjectToken(value="phc_x", project_id=ONE, expires_at=expires_at)
    assert token.is_valid(START) is valid
