from datetime import timedelta

import pytest

from hedgerow.projects.model import ProjectToken
from tests.unit.fake_time import START
from tests.unit.projects.factories import ONE


@pytest.mark.parametrize(
    ("left_s", "valid"), [(None, True), (1.0, True), (0.0, False), (-1.0, False)]
)
def test_token_is_valid_until_it_expires(left_s: float | None, valid: bool) -> None:
    expires_at = None if left_s is None else START + timedelta(seconds=left_s)
    token = ProjectToken(value="phc_x", project_id=ONE, expires_at=expires_at)
    assert token.is_valid(START) is valid
