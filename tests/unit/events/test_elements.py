import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events.elements import (
    Element,
    extract_elements,
    format_chain,
    parse_chain,
    parse_sent_elements,
)
from hedgerow.ingestion.parsing.event import sanitize_event
from hedgerow.lib.jsonio import decode, encode
from tests.unit.generated import JSON, bounded

BUTTON = {
    "tag_name": "button",
    "$el_text": "Buy now",
    "attr__class": "red big",
    "attr__id": "buy",
    "attr__data-plan": "pro",
    "nth_child": 2,
    "nth_of_type": 1,
}
BUTTON_LINK = (
    'button.big.red:attr__class="red big"attr__data-plan="pro"attr__id="buy"attr_id="buy"'
    'nth-child="2"nth-of-type="1"text="Buy now"'
)
PLAIN_LINK = 'div:nth-child="0"nth-of-type="0"'

CHAINS: list[tuple[list[Any], str]] = [
    ([BUTTON], BUTTON_LINK),
    ([BUTTON, {"tag_name": "div"}], f"{BUTTON_LINK};{PLAIN_LINK}"),
    ([{}], ':nth-child="0"nth-of-type="0"'),
    (
        [{"tag_name": "a", "attr__href": "/x"}],
        'a:attr__href="/x"href="/x"nth-child="0"nth-of-type="0"',
    ),
    ([{"tag_name": "div", "$el_text": ""}], PLAIN_LINK),
    ([{"tag_name": "div", "attr__class": ""}], f'div:attr__class=""{PLAIN_LINK[4:]}'),
    (
        [{"tag_name": "b", "$el_text": 'say "hi"'}],
        'b:nth-child="0"nth-of-type="0"text="say \\"hi\\""',
    ),
    (
        [{"tag_name": "b", "$el_text": "C:\\"}],
        'b:nth-child="0"nth-of-type="0"text="C:\\\\"',
    ),
    (
        [{"tag_name": "b", "attr__class": ["z", 'a"b', "c;d"]}],
        'b.ab.cd.z:attr__class="[\\"z\\",\\"a\\\\\\"b\\",\\"c;d\\"]"nth-child="0"nth-of-type="0"',
    ),
    ([{"tag_name": "div", "nth_child": "3"}], 'div:nth-child="3"nth-of-type="0"'),
    ([{"tag_name": "div", "nth_child": True}], PLAIN_LINK),
    ([{"tag_name": "div", "nth_child": -1, "nth_of_type": 10**30}], PLAIN_LINK),
    ([{"tag_name": "div", "nth_child": [1]}, None, 5, "div"], PLAIN_LINK),
    ([], ""),
]


@pytest.mark.parametrize(("elements", "chain"), CHAINS)
def test_elements_are_formatted_as_a_chain(elements: list[Any], chain: str) -> None:
    assert format_chain(parse_sent_elements(elements)) == chain


def test_long_texts_and_links_are_truncated() -> None:
    (element,) = parse_sent_elements([{"$el_text": "ä" * 500, "attr__href": "b" * 3000}])
    assert element.text == "ä" * 400
    assert element.href == "b" * 2048


@pytest.mark.parametrize("elements", [None, {}, "a", 5, {"tag_name": "a"}])
def test_other_values_than_lists_have_no_elements(elements: Any) -> None:
    assert parse_sent_elements(elements) == ()


def test_chain_is_parsed_into_elements() -> None:
    shown = decode(encode(parse_chain(f"{BUTTON_LINK};{PLAIN_LINK}")))
    assert shown == [
        {
            "event": None,
            "text": "Buy now",
            "tag_name": "button",
            "attr_class": ["big", "red"],
            "href": None,
            "attr_id": "buy",
            "nth_child": 2,
            "nth_of_type": 1,
            "attributes": {"attr__class": "red big", "attr__data-plan": "pro", "attr__id": "buy"},
            "order": 0,
        },
        {
            "event": None,
            "text": None,
            "tag_name": "div",
            "attr_class": None,
            "href": None,
            "attr_id": None,
            "nth_child": 0,
            "nth_of_type": 0,
            "attributes": {},
            "order": 1,
        },
    ]


FOREIGN_CHAINS: list[tuple[str, list[Element]]] = [
    ("", []),
    (";;", []),
    ("div", [Element(tag_name="div")]),
    ("div:", [Element(tag_name="div")]),
    (".big", [Element(attr_class=["big"])]),
    ("a..b", [Element(tag_name="a", attr_class=["b"])]),
    ('a:text=""', [Element(tag_name="a", text="")]),
    ('a:text="1;2"', [Element(tag_name="a", text="1;2")]),
    ('a:text="C:\\dir"', [Element(tag_name="a", text="C:\\dir")]),
    ('a:text="never ends', [Element(tag_name="a", text="never ends")]),
    ('a:text="never ends\\', [Element(tag_name="a", text="never ends\\")]),
    ('a:text="never ends\\"', [Element(tag_name="a", text='never ends"')]),
    ('a:nth-child="x"', [Element(tag_name="a")]),
    ('a:own="1"', [Element(tag_name="a", attributes={"own": "1"})]),
    ('a"1"', [Element(tag_name="a")]),
    ('a:="1"', [Element(tag_name="a")]),
    ('a:text="1"rest', [Element(tag_name="a", text="1")]),
    ('a.hover:x:own="1"', [Element(tag_name="a", attr_class=["hover:x"], attributes={"own": "1"})]),
    ('a:attr__@x:y="1"', [Element(tag_name="a", attributes={"attr__@x:y": "1"})]),
]


@pytest.mark.parametrize(("chain", "elements"), FOREIGN_CHAINS)
def test_foreign_chains_are_parsed(chain: str, elements: list[Element]) -> None:
    assert parse_chain(chain) == elements


NAMES = st.text(st.characters(exclude_characters='.;":= \\', exclude_categories=["Cs", "Z", "Cc"]))
TEXTS = st.text() | st.text('";\\:=.a', max_size=20)
ELEMENTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "tag_name": NAMES,
            "$el_text": TEXTS,
            "attr__class": st.lists(NAMES).map(" ".join) | st.lists(NAMES),
            "attr__href": TEXTS,
            "attr__id": TEXTS,
            "attr__data:x.y": TEXTS,
            "attr__": TEXTS,
            "nth_child": st.integers(0, 1000),
            "nth_of_type": st.integers(0, 1000),
        },
    )
)


@bounded
@given(ELEMENTS)
def test_elements_round_trip(elements: list[dict[str, Any]]) -> None:
    sent = parse_sent_elements(elements)
    assert parse_chain(format_chain(sent)) == sent


KEYS = st.sampled_from([*BUTTON, "attr__href"]) | st.text().map(lambda end: f"attr__{end}")


@bounded
@given(st.lists(JSON | st.dictionaries(KEYS, JSON)))
def test_any_sent_value_has_a_chain(sent_with: list[Any]) -> None:
    elements = sanitize_event({"$elements": sent_with})["$elements"]
    sent = parse_sent_elements(elements)
    assert len(sent) == sum(isinstance(each, dict) for each in elements)
    assert isinstance(format_chain(sent), str)


@bounded
@given(st.text() | st.text('a.:=";\\'))
def test_any_chain_can_be_parsed(chain: str) -> None:
    assert len(parse_chain(chain)) <= chain.count(";") + 1


@pytest.mark.parametrize(
    "part", ['"\\"', '":', ":", 'a="\\', ";", ":a", 'a:b="', '\\"', ":attr__", "a.", '"']
)
def test_hostile_chain_takes_linear_time(part: str) -> None:
    chain = (part * 100_000)[:200_000]
    started = time.process_time()
    parse_chain(chain)
    assert time.process_time() - started < 10  # quadratic time would be minutes


def test_elements_are_removed_from_properties() -> None:
    properties = {"$elements": [{"tag_name": "div"}], "plan": "pro"}
    assert extract_elements(properties) == (PLAIN_LINK, {"plan": "pro"})
    assert properties.keys() == {"$elements", "plan"}


def test_chain_takes_precedence_over_a_list() -> None:
    properties = {"$elements": [{"tag_name": "div"}], "$elements_chain": "a:", "plan": "pro"}
    assert extract_elements(properties) == ("a:", {"plan": "pro"})


@pytest.mark.parametrize(
    ("properties", "chain"),
    [
        ({"$elements_chain": 5, "$elements": [{"tag_name": "div"}]}, PLAIN_LINK),
        ({"$elements_chain": ["a"]}, ""),
        ({"$elements": "div"}, ""),
        ({"$elements_chain": "", "$elements": [{"tag_name": "div"}]}, PLAIN_LINK),
    ],
)
def test_invalid_elements_are_dropped(properties: dict[str, Any], chain: str) -> None:
    assert extract_elements(properties) == (chain, {})


def test_event_without_elements_keeps_its_properties() -> None:
    properties = {"plan": "pro"}
    chain, rest = extract_elements(properties)
    assert chain == ""
    assert rest is properties
