"""A document of a product: the shared part, the differences, and what it means for one
environment.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.flags.as_code.document import build_document, build_product_document, parse_document
from hedgerow.flags.as_code.overrides import EnvironmentChoice
from hedgerow.flags.model import Flag, FlagDefinitions
from tests.unit.flags.as_code.flag_documents import make_document
from tests.unit.flags.factories import MATCH_ALL, make_flag
from tests.unit.generated import thorough

NAMES = ("dev", "stage", "live")
LIVE = EnvironmentChoice(name="live", known=NAMES)


def define(*flags: Flag) -> FlagDefinitions:
    return FlagDefinitions(generation=1, flags=flags, cohorts=(), group_types={}, timezone="UTC")


FLAGS = st.builds(
    lambda key, filters, **fields: make_flag(filters, "ab".index(key) + 1, key=key, **fields),
    key=st.sampled_from(["a", "b"]),
    active=st.booleans(),
    name=st.sampled_from(["", "One", "Two"]),
    tags=st.sampled_from([(), ("x",), ("x", "y")]),
    filters=st.dictionaries(
        st.sampled_from(["payloads", "multivariate", "aggregation_group_type_index"]),
        st.sampled_from([None, {}, {"true": "1"}, 0]),
    ).map(lambda rest: {**MATCH_ALL, **rest}),
)
PROJECTS = st.lists(FLAGS, max_size=2, unique_by=lambda flag: flag.key)


@thorough
@given(st.tuples(PROJECTS, PROJECTS, PROJECTS))
def test_export_read_for_an_environment_has_its_flags(found: Any) -> None:
    environments = {name: define(*flags) for name, flags in zip(NAMES, found, strict=True)}
    document = build_product_document(environments).document
    for name, definitions in environments.items():
        specs = parse_document(document, EnvironmentChoice(name=name, known=NAMES))
        expected = parse_document(build_document(definitions).document)
        assert [(each.key, each.fields, each.filters) for each in specs] == [
            (each.key, each.fields, each.filters) for each in expected
        ]


def test_shared_part_is_the_commonest_and_absence_is_said() -> None:
    on, off = make_flag(MATCH_ALL, key="f", name="N"), make_flag(MATCH_ALL, key="f", active=False)
    stores = [define(on), define(off), define(off), define()]
    document = build_product_document(dict(zip("abcd", stores, strict=True))).document
    assert document["flags"] == [
        {
            "key": "f",
            "active": False,
            "filters": MATCH_ALL,
            "environments": {"a": {"name": "N", "active": True}, "d": {"absent": True}},
        }
    ]


@pytest.mark.parametrize(
    ("overrides", "place", "problem"),
    [
        ([], ": environments", "Expected an object with the names"),
        ({"prod": {}}, ": environments", 'There is no environment "prod" in the product. It has'),
        ({"live": []}, ": environments.live", "Expected an object with the fields that differ."),
        ({"dev": {"colour": 1}}, ": environments.dev", "Unknown field `colour`."),
        ({"dev": {"absent": 1}}, ": environments.dev.absent", "Must be true or false."),
        ({"dev": {"absent": True, "active": True}}, ": environments.dev", "has no other fields"),
        ({"dev": {"filters": []}}, ": environments.dev.filters", "Expected an object with the pa"),
        ({"live": {"active": "yes"}}, ": active", "Must be true or false."),
    ],
)
def test_wrong_override_is_refused_by_path(overrides: Any, place: str, problem: str) -> None:
    document = make_document({"key": "f", "filters": MATCH_ALL, "environments": overrides})
    with pytest.raises(Invalid) as error:
        parse_document(document, LIVE)
    assert error.value.attr == f"flags[0] (f){place}"
    assert problem in error.value.detail


def test_overrides_need_a_product() -> None:
    document = make_document({"key": "f", "filters": MATCH_ALL, "environments": {"live": {}}})
    with pytest.raises(Invalid, match="The project is not an environment of a product"):
        parse_document(document)
