"""Every page also works after every other page, in one installation."""

from pathlib import Path

import pytest

from tests.acceptance.readers import new_reader
from tests.support.guides import guide_pages
from tests.support.postgres import PostgresTestServer

PAGES = guide_pages()


@pytest.mark.parametrize("pages", [PAGES, PAGES[::-1]], ids=["in order", "in reverse order"])
def test_all_pages_work_one_after_the_other(
    pages: list[str], tmp_path: Path, postgres: PostgresTestServer
) -> None:
    with new_reader(tmp_path, postgres) as reader:
        for page in pages:
            reader.follow(page)
