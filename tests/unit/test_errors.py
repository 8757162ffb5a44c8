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
from tests.unit.error_family import ERROR_FAMILY, WIRE_FIELDS

# The types of PostHog's error responses, and the statuses of each.
STATUSES = {
    "validation_error": {400},
    "invalid_request": {400, 404, 405, 406, 408, 409, 413, 415, 431},
    "authentication_error": {401, 403},
    "throttled_error": {429},
    "server_error": {500, 503},
}


def test_error_family_covers_all_statuses() -> None:
    assert {error_class.status for error_class in ERROR_FAMILY} == set().union(*STATUSES.values())


@pytest.mark.parametrize("field", ["status", "type", "code", "default_detail"])
def test_base_class_has_no_defaults(field: str) -> None:
    assert not hasattr(AppError, field)


@pytest.mark.parametrize("error_class", ERROR_FAMILY)
def test_each_error_defines_its_status_type_code_and_detail(error_class: type[AppError]) -> None:
    assert vars(error_class).keys() >= WIRE_FIELDS
    assert error_class.__doc__


@pytest.mark.parametrize("error_class", ERROR_FAMILY)
def test_each_error_type_matches_its_status(error_class: type[AppError]) -> None:
    assert error_class.status in STATUSES[error_class.type]
    assert error_class.default_detail.endswith(".")


def test_error_codes_are_unique() -> None:
    codes = [error_class.code for error_class in ERROR_FAMILY]
    assert sorted(codes) == sorted(set(codes))


def test_error_has_default_details() -> None:
    error = NotFound()
    assert (error.detail, error.attr, error.code, error.headers) == (
        "Not found.",
        None,
        "not_found",
        {},
    )
    assert str(error) == "Not found."


def test_error_can_override_detail_attr_and_code() -> None:
    error = Invalid("No such plugin.", attr="plugin", code="does_not_exist")
    assert (error.detail, error.attr, error.code) == ("No such plugin.", "plugin", "does_not_exist")
    assert Invalid.code == "invalid_input"


@pytest.mark.parametrize("error_class", [NotAuthenticated, AuthenticationFailed])
def test_authentication_errors_name_the_scheme(error_class: type[NotAuthenticated]) -> None:
    assert error_class().headers == {"WWW-Authenticate": "Bearer"}


def test_method_not_allowed_lists_allowed_methods() -> None:
    error = MethodNotAllowed("PUT", ["GET", "HEAD", "OPTIONS"])
    assert error.detail == 'Method "PUT" not allowed.'
    assert error.headers == {"Allow": "GET, HEAD, OPTIONS"}


@pytest.mark.parametrize(("wait_s", "detail"), [(1, "1 second."), (35, "35 seconds.")])
def test_throttled_contains_the_wait(wait_s: int, detail: str) -> None:
    error = Throttled(wait_s)
    assert error.detail == f"Request was throttled. Expected available in {detail}"
    assert error.headers == {"Retry-After": str(wait_s)}


def test_unavailable_contains_retry_after() -> None:
    assert Unavailable().headers == {"Retry-After": "1"}
    assert Unavailable("Away.", retry_after_s=7).headers == {"Retry-After": "7"}
    assert Unavailable("Away.").detail == "Away."
