"""The language of wire vectors detects wrong responses."""

from typing import Any

import pytest

from hedgerow.http.payload.layers import decode
from hedgerow.http.payload.limits import INLINE_LIMITS
from hedgerow.http.payload.raw import RawPayload
from tests.contract.api.exchange import LAYERS, encode_layers
from tests.contract.api.shape import find_format_errors
from tests.contract.api.wire import find_differences, select_path, substitute

BASE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": [1, None, True]}, {"a": [1, None, True]}),
        ("<uuid>", "01234567-89ab-cdef-0123-456789abcdef"),
        ("<time>", "2026-01-02T03:04:05.678901Z"),
        ("<token phc>", "phc_" + "a" * 35),
        ("in <number> seconds (<text>)", "in 35 seconds (or so)"),
        ("<base>/api/?a=1", "http://127.0.0.1:1/api/?a=1"),
        ("<2 items>", [1, 2]),
        (["a", "<more>"], ["a", "b", "c"]),
        ("<int>", 5),
        ({"a": "<any>"}, {"a": {"b": 1}}),
    ],
)
def test_matching_values_have_no_differences(expected: Any, actual: Any) -> None:
    assert list(find_differences(expected, actual, BASE)) == []


@pytest.mark.parametrize(
    ("expected", "actual", "where"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, "body.b is not expected"),
        ({"a": 1, "b": 2}, {"a": 1}, "body.b is missing"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, "body.a.0.b is 2"),
        ([1], [1, 2], "body holds 2 and not 1 items"),
        (["a", "<more>"], ["b", "a"], "body.0 is 'b'"),
        (["a", "<more>"], [], "body holds 0"),
        (1, True, "body is True"),
        (0, None, "body is None"),
        (None, "", "body is ''"),
        ("<int>", "5", "body is '5'"),
        ("<int>", True, "body is True"),
        ("<time>", "2026-01-02T03:04:05Z", "body is"),
        ("<token phx>", "phc_" + "a" * 35, "body is"),
        ("<text>", "", "body is ''"),
        ("<2 items>", [1], "body is"),
        ("a.c", "abc", "body is"),
        ("<base>/", "http://elsewhere/", "body is"),
    ],
)
def test_differences_name_the_path(expected: Any, actual: Any, where: str) -> None:
    assert any(line.startswith(where) for line in find_differences(expected, actual, BASE))


def test_variables_keep_their_type() -> None:
    known = {"id": 5, "a.token": "phc_x"}
    sent = {"n": "{id}", "path": "/api/{id}/?t={a.token}", "raw": '{"id": 1}', "empty": "{}"}
    assert substitute(sent, known) == {
        "n": 5,
        "path": "/api/5/?t=phc_x",
        "raw": '{"id": 1}',
        "empty": "{}",
    }
    with pytest.raises(KeyError):
        substitute("{unknown}", known)


def test_select_path_finds_nested_values() -> None:
    response = {"body": {"results": [{"id": 5}]}}
    assert select_path(response, "body.results.0.id") == 5
    assert select_path(response, "body.results.7.id") is None
    assert select_path(response, "body.nothing.0") is None


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (500, "application/json", b'{"type":"server_error","code":"e","detail":"d","attr":null}'),
        (404, "text/plain", b'{"type":"invalid_request","code":"c","detail":"d","attr":null}'),
        (404, "application/json", b'{"detail":"Not Found"}'),
        (
            404,
            "application/json",
            b'{"type":"validation_error","code":"c","detail":"d","attr":null}',
        ),
        (400, "application/json", b'{"type":"invalid_request","code":"","detail":"d","attr":null}'),
        (400, "application/json", b'{"type":"invalid_request","code":"c","detail":1,"attr":null}'),
        (400, "application/json", b'{"type":"invalid_request","code":"c","detail":"d","attr":[]}'),
        (
            400,
            "application/json",
            b'{"code":"c","type":"invalid_request","detail":"d","attr":null}',
        ),
        (400, "application/json", b"[]"),
        (
            400,
            "application/json",
            b'{"type":"validation_error","code":"c","detail":"d","attr":"a__b[0].c"}',
        ),
    ],
)
def test_a_malformed_error_is_reported(status: int, content_type: str, body: bytes) -> None:
    assert list(find_format_errors(status, content_type, body))


def test_a_well_formed_error_is_accepted() -> None:
    body = b'{"type":"validation_error","code":"required","detail":"d","attr":"name"}'
    assert not list(find_format_errors(400, "application/json", body))


@pytest.mark.parametrize("layer", sorted(LAYERS.keys() - {"half", "form with compression"}))
def test_the_server_decodes_every_layer(layer: str) -> None:
    value = {"distinct_id": "ü+/=& 😀"}
    hint = layer if layer in ("lz64", "deflate") else ""
    packed = encode_layers(value, [layer])
    assert packed != encode_layers(value, [])
    assert decode(RawPayload(data=packed, compression=hint), INLINE_LIMITS) == value
