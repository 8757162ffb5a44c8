"""Every second page of test_guides.py: pytest-xdist runs a file in one process, and all pages would
be its longest file."""

from pathlib import Path

import pytest

from tests.acceptance.readers import follow_page, list_fresh_pages
from tests.support.postgres import PostgresTestServer


@pytest.mark.parametrize("page", list_fresh_pages(half=1))
def test_page_works_in_a_fresh_installation(
    page: str, tmp_path: Path, postgres: PostgresTestServer
) -> None:
    follow_page(page, tmp_path, postgres)
