import pytest

from hedgerow.errors import (
    AppError,
    AuthenticationFailed,
    Invalid,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    Throttled,
    Unavailable,
)
from tests.unit.error_family import ERROR_FAMILY

# The types of PostHog's error answers, and the statuses that each may come with.
STATUSES = {
    "validation_error": {400},
    "invalid_request": {400, 404, 405, 406, 408, 409, 413, 415, 431},
    "authentication_error": {401, 403},
    "throttled_error": {429},
    "server_error": {500, 503},
}


def test_the_family_is_as_large_as_the_list_of_statuses() -> None:
    assert {kind.status for kind in ERROR_FAMILY} == set().union(*STATUSES.values())


@pytest.mark.parametrize("field", ["status", "type", "code", "default_detail"])
def test_the_base_has_no_default_that_a_kind_could_forget_to_change(field: str) -> None:
    assert not hasattr(AppError, field)


@pytest.mark.parametrize("kind", ERROR_FAMILY)
def test_each_kind_names_its_own_status_type_code_and_words(kind: type[AppError]) -> None:
    assert {"status", "type", "code", "default_detail"} <= vars(kind).keys()
    assert kind.__doc__


@pytest.mark.parametrize("kind", ERROR_FAMILY)
def test_each_kind_pairs_its_type_with_a_status_of_that_type(kind: type[AppError]) -> None:
    assert kind.status in STATUSES[kind.type]
    assert kind.default_detail.endswith(".")


def test_no_two_kinds_share_a_code() -> None:
    codes = [kind.code for kind in ERROR_FAMILY]
    assert sorted(codes) == sorted(set(codes))


def test_an_error_says_the_default_unless_told_otherwise() -> None:
    error = NotFound()
    assert (error.detail, error.attr, error.code, error.headers) == (
        "Not found.",
        None,
        "not_found",
        {},
    )
    assert str(error) == "Not found."


def test_an_error_may_have_words_a_field_and_a_code_of_its_own() -> None:
    error = Invalid("No such plugin.", attr="plugin", code="does_not_exist")
    assert (error.detail, error.attr, error.code) == ("No such plugin.", "plugin", "does_not_exist")
    assert Invalid.code == "invalid_input"


@pytest.mark.parametrize("kind", [NotAuthenticated, AuthenticationFailed])
def test_an_error_of_authentication_names_the_scheme(kind: type[NotAuthenticated]) -> None:
    assert kind().headers == {"WWW-Authenticate": "Bearer"}


def test_a_refused_method_is_told_with_those_allowed() -> None:
    error = MethodNotAllowed("PUT", ["GET", "HEAD", "OPTIONS"])
    assert error.detail == 'Method "PUT" not allowed.'
    assert error.headers == {"Allow": "GET, HEAD, OPTIONS"}


@pytest.mark.parametrize(("wait_s", "words"), [(1, "1 second."), (35, "35 seconds.")])
def test_a_throttled_caller_is_told_how_long_to_wait(wait_s: int, words: str) -> None:
    error = Throttled(wait_s)
    assert error.detail == f"Request was throttled. Expected available in {words}"
    assert error.headers == {"Retry-After": str(wait_s)}


def test_what_is_away_says_when_to_try_again() -> None:
    assert Unavailable().headers == {"Retry-After": "1"}
    assert Unavailable("Away.", retry_after_s=7).headers == {"Retry-After": "7"}
    assert Unavailable("Away.").detail == "Away."
