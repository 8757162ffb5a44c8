"""Every page also works after the pages before it, in one installation."""

from pathlib import Path

from tests.acceptance.readers import new_reader
from tests.support.guides import guide_pages
from tests.support.postgres import PostgresTestServer


def test_all_pages_work_one_after_the_other(tmp_path: Path, postgres: PostgresTestServer) -> None:
    with new_reader(tmp_path, postgres) as reader:
        for page in guide_pages():
            reader.follow(page)
