"""The regular expressions that are compiled before a definition is stored."""

import pytest

from hedgerow.filters.patterns import compile_search
from hedgerow.filters.validate import MAX_PATTERNS, check_patterns, collect_patterns


def test_patterns_at_any_depth_are_collected() -> None:
    leaf = {"key": "email", "operator": "not_regex", "value": "a+"}
    cohort = {"type": "OR", "values": [{"type": "AND", "values": [leaf]}]}
    flag = {"groups": [{"properties": [leaf, {"key": "plan", "value": "b+"}]}]}
    assert collect_patterns(cohort) == collect_patterns(flag) == ["a+"]


@pytest.mark.parametrize(
    "definition", [None, "regex", [[]], {"operator": "regex"}, {"operator": "regex", "value": 3}]
)
def test_other_values_have_no_patterns(definition: object) -> None:
    assert collect_patterns(definition) == []


def test_no_more_patterns_are_collected_than_a_definition_may_have() -> None:
    filters = [{"operator": "regex", "value": str(number)} for number in range(2 * MAX_PATTERNS)]
    assert len(collect_patterns(filters)) == MAX_PATTERNS


def test_checked_patterns_are_compiled() -> None:
    compile_search.cache_clear()
    assert check_patterns(["(?=a)b", "(", "c.d"]) == 1
    before = compile_search.cache_info().misses
    compile_search("(?=a)b")
    assert compile_search.cache_info().misses == before
