"""README.md, docs/start.md and every guide work from top to bottom in a fresh installation."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.readers import (
    HAS_NODE,
    NODE_PAGES,
    PAGES,
    follow_page,
    list_fresh_pages,
    new_reader,
)
from tests.support.guides import answer_matches, blocks_of
from tests.support.postgres import PostgresTestServer

# Blocks that cannot run in a test. Keep them few: nothing else proves that they are right.
MAX_NOT_TESTED = 11
RECORD_ID = re.compile(r"configs/\d|(?:flags|experiments|cohorts|surveys|persons)/\d")


# test_guides_second_half.py has the others.
@pytest.mark.parametrize("page", list_fresh_pages(half=0))
def test_page_works_in_a_fresh_installation(
    page: str, tmp_path: Path, postgres: PostgresTestServer
) -> None:
    follow_page(page, tmp_path, postgres)


@pytest.mark.parametrize("page", NODE_PAGES)
def test_page_works_with_its_node_examples(
    page: str, tmp_path: Path, postgres: PostgresTestServer
) -> None:
    if not HAS_NODE:
        pytest.skip("Node packages missing: tests/npm/install installs them")
    with new_reader(tmp_path, postgres, has_source=False) as reader:
        reader.run_node = True
        reader.follow(page)


def test_few_blocks_are_not_tested(tell: Callable[[str], None]) -> None:
    blocks = [block for page in PAGES for block in blocks_of(page)]
    not_tested = [f"{block}: {block.not_tested}" for block in blocks if block.not_tested]
    tell(f"Guides: {len(blocks)} blocks, {len(not_tested)} not tested: {'; '.join(not_tested)}")
    assert len(not_tested) <= MAX_NOT_TESTED


@pytest.mark.parametrize("page", PAGES)
def test_page_names_no_record_by_a_fixed_id(page: str) -> None:
    assert [str(block) for block in blocks_of(page) if RECORD_ID.search(block.code)] == []


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_answers(page: str) -> None:
    assert any(block.answer for block in blocks_of(page))


@pytest.mark.parametrize(
    ("shown", "actual", "matches"),
    [
        ('{"a": 1}', '{"a":1}', True),
        ('{"a": 1}', '{"a":1}{"b":2}', False),
        ('{"a": 1…}', '{"a":1,"b":2}', True),
        ("…b…", "a\nb\nc", True),
        ("…b…", "a\nc", False),
        ("a.c", "abc", False),
    ],
)
def test_answer_matches(shown: str, actual: str, matches: bool) -> None:
    assert answer_matches(shown, actual) is matches
