"""Flags in the text of a query, and the tables of their values."""

import pickle

import pytest

from hedgerow.events.query.flag_values import build_values, encode_key, find_flag_keys
from hedgerow.lib import jsonio


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("select flag('a') from events", ["a"]),
        ("select FLAG ( 'a-b_9' ), flag('c'), flag('c')", ["a-b_9", "c"]),
        ("if(flag('a') = 'x',flag('b'), 1)", ["a", "b"]),
        ("myflag('a'), my_flag('b'), flag(event), flag, flag('')", []),
    ],
)
def test_flags_of_a_query(text: str, keys: list[str]) -> None:
    document = {"kind": "TrendsQuery", "series": [{"math_hogql": text}]}
    assert find_flag_keys(jsonio.encode(document)) == keys


def test_keys_are_escaped_and_unambiguous() -> None:
    assert encode_key(["ann"]) == b"ann\n"
    assert encode_key(["a\tb\\n\n\r"]) == b"a\\tb\\\\n\\n\\r\n"
    assert encode_key(["ü", ""]) == "2:ü0:\n".encode()
    assert encode_key(["1:a", "b"]) != encode_key(["1", ":ab"])


def test_the_most_frequent_value_is_the_default() -> None:
    values = build_values(3, ["distinct_id"], {"true": [b"a\n"], "false": [b"b\nc\n", b"d\n"]})
    assert values.table.default == "false"
    assert values.table.values == {"flag_3_0": "true"}
    assert values.tables.rows == {"flag_3_0": b"a\n"}
    assert build_values(0, [], {}).table.default == "false"


def test_rows_stay_in_their_process() -> None:
    values = build_values(0, ["distinct_id"], {"true": [b"a\n"], "x": [b"bcd\n"]})
    copy = pickle.loads(pickle.dumps(values))
    assert copy.table == values.table
    assert copy.tables.rows == {}
