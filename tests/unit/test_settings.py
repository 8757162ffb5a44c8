from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from hedgerow.settings import (
    Origin,
    SettingError,
    Settings,
    load,
    unknown_variables,
    variable,
    without_password,
)

PROJECT_KEY = "phc_0123456789-b_DEF"
PERSONAL_KEY = "phx_0123456789-b_DEF"
NAMES = [entry.name for entry in fields(Settings)]

GOOD: list[tuple[str, str, Any]] = [
    ("host", "0.0.0.0", "0.0.0.0"),
    ("port", "0", 0),
    ("port", " 65535 ", 65535),
    ("data", "/srv/hedgerow", Path("/srv/hedgerow")),
    ("data", "~/flags", Path.home() / "flags"),
    ("database_url", "", ""),
    ("database_url", " postgres://u:p@db/x ", "postgres://u:p@db/x"),
    ("database_url", "postgresql://db", "postgresql://db"),
    ("database_pool_size", "200", 200),
    ("database_timeout_s", "0.1", 0.1),
    ("clickhouse_url", "", ""),
    ("clickhouse_url", " https://u:p@ch:8443/x ", "https://u:p@ch:8443/x"),
    ("inbox_max_events", "1", 1),
    ("min_free_mb", "0", 0),
    ("read_wait_s", "0", 0.0),
    ("delivery_days", "14", 14),
    ("dead_delivery_days", "1", 1),
    ("delivered_days", "7", 7),
    ("exports_folder", "~/out", "~/out"),
    ("imports_folder", "in", "in"),
    ("allow_private_destinations", "yes", True),
    ("public_url", "https://flags.example.com/", "https://flags.example.com"),
    ("server_url", "https://flags.example.com/", "https://flags.example.com"),
    ("notification_url", " https://example.com/hook/?a=b ", "https://example.com/hook/?a=b"),
    ("notification_url", "", ""),
    ("notification_secret", "whsec_c2VjcmV0", "whsec_c2VjcmV0"),
    ("personal_key", "phx_0123456789abcdef", "phx_0123456789abcdef"),
    ("project_key", "phc_0123456789abcdef", "phc_0123456789abcdef"),
    ("public_url", "", ""),
    ("trusted_proxies", "", ()),
    (
        "trusted_proxies",
        "10.0.0.1, 192.168.7.9/16,fd00::/8",
        (ip_network("10.0.0.1"), ip_network("192.168.0.0/16"), ip_network("fd00::/8")),
    ),
    ("max_body_bytes", "1024", 1024),
    ("body_timeout_s", "3600", 3600.0),
    ("sealing_keys", "newest,older", "newest,older"),
    ("geoip_file", "/srv/GeoLite2-City.mmdb", "/srv/GeoLite2-City.mmdb"),
    ("sdk_scripts", "/srv/scripts", "/srv/scripts"),
    ("rate_limits", "On", True),
    ("rate_limits", "yes", True),
    ("rate_limits", "0", False),
    ("rate_limits", "", False),
    ("log_level", " DEBUG ", "debug"),
    ("log_format", "json", "json"),
    ("shutdown_grace_s", "0", 0.0),
    ("bootstrap_project_key", PROJECT_KEY, PROJECT_KEY),
    ("bootstrap_personal_key", "", ""),
    ("bootstrap_personal_key", f" {PERSONAL_KEY} ", PERSONAL_KEY),
]

PORT = "a whole number from 0 to 65535"
POSTGRES = "postgresql://user:password@host:5432/name, or nothing for SQLite"
ADDRESS = "an address such as https://flags.example.com, or nothing"
NETWORKS = "addresses or networks with commas between, such as 10.0.0.0/8"

BAD: list[tuple[str, str, str]] = [
    ("port", "", PORT),
    ("port", "eighty", PORT),
    ("port", "-1", PORT),
    ("port", "--5", PORT),
    ("port", "65536", PORT),
    ("port", "80.0", PORT),
    ("port", "9" * 5000, PORT),
    ("data", " ", "the path of a folder"),
    ("data", "~no-such-person/flags", "the path of a folder"),
    ("database_url", "mysql://db/x", POSTGRES),
    ("database_url", "flags.db", POSTGRES),
    ("database_url", "postgresql://[db/x", POSTGRES),
    ("database_url", "postgresql://db:port/x", POSTGRES),
    ("database_pool_size", "0", "a whole number from 1 to 200"),
    ("database_timeout_s", "0", "a number of seconds from 0.1 to 300"),
    ("database_timeout_s", "nan", "a number of seconds from 0.1 to 300"),
    ("clickhouse_url", "clickhouse://ch", "http://user:password@host:8123/database"),
    ("inbox_max_events", "0", "a whole number from 1 to"),
    ("min_free_mb", "-1", "a whole number from 0 to"),
    ("read_wait_s", "61", "a number of seconds from 0 to 60"),
    ("delivery_days", "0", "a whole number from 1 to 365"),
    ("dead_delivery_days", "0", "a whole number from 1 to 3650"),
    ("delivered_days", "0", "a whole number from 1 to 3650"),
    ("allow_private_destinations", "some", "true or false"),
    ("public_url", "flags.example.com", ADDRESS),
    ("server_url", "flags.example.com", ADDRESS),
    ("notification_url", "example.com", "an address such as https://example.com/hook"),
    ("notification_url", "http://", "an address such as https://example.com/hook"),
    ("personal_key", "phc_0123456789abcdef", "phx_ and at least 16 more characters"),
    ("project_key", "phx_0123456789abcdef", "phc_ and at least 16 more characters"),
    ("public_url", "ftp://flags.example.com", ADDRESS),
    ("public_url", "https://", ADDRESS),
    ("public_url", "http://[::1", ADDRESS),
    ("trusted_proxies", "proxy.example.com", NETWORKS),
    ("trusted_proxies", "10.0.0.0/33", NETWORKS),
    ("max_body_bytes", "10MB", "a whole number from 1024 to 1073741824"),
    ("body_timeout_s", "soon", "a number of seconds from 0.1 to 3600"),
    ("body_timeout_s", "inf", "a number of seconds from 0.1 to 3600"),
    ("rate_limits", "maybe", "true or false"),
    ("log_level", "loud", "one of debug, info, warning, error"),
    ("log_format", "xml", "one of auto, human, json"),
    ("shutdown_grace_s", "-0.5", "a number of seconds from 0 to 600"),
    ("bootstrap_project_key", PROJECT_KEY[:-1], "phc_ and at least 16 more characters, or nothing"),
    ("bootstrap_project_key", PERSONAL_KEY, "phc_ and at least 16 more characters, or nothing"),
    ("bootstrap_project_key", "phc_sixteen more chars", "phc_ and letters, digits, _ or - only"),
    ("bootstrap_personal_key", "phx_sixteen/more/chars", "phx_ and letters, digits, _ or - only"),
    ("bootstrap_personal_key", "phx_ünïcödé_chars_00", "phx_ and at least 16 more characters"),
]


def origin_of(name: str, environment: dict[str, str], **overrides: Any) -> Origin:
    _, origins = load(environment, overrides)
    return next(origin for origin in origins if origin.variable == variable(name))


def refusal(name: str, raw: str) -> str:
    with pytest.raises(SettingError) as raised:
        load({variable(name): raw})
    return str(raised.value)


def test_every_setting_is_tried_with_a_good_value_and_all_but_free_text_with_a_bad_one() -> None:
    assert {name for name, _, _ in GOOD} == set(NAMES)
    free = {
        "exports_folder",
        "geoip_file",
        "host",
        "imports_folder",
        "notification_secret",
        "sdk_scripts",
        "sealing_keys",
    }
    assert {name for name, _, _ in BAD} == set(NAMES) - free


@pytest.mark.parametrize(("name", "raw", "value"), GOOD)
def test_a_good_value_is_taken_from_its_variable(name: str, raw: str, value: Any) -> None:
    settings, _ = load({variable(name): raw})
    assert getattr(settings, name) == value
    assert origin_of(name, {variable(name): raw}).source == "environment"


@pytest.mark.parametrize(("name", "raw", "wanted"), BAD)
def test_a_bad_value_is_refused_by_variable_with_what_it_takes(
    name: str, raw: str, wanted: str
) -> None:
    assert refusal(name, raw).startswith(f"{variable(name)} takes {wanted}")


@pytest.mark.parametrize(("name", "raw", "wanted"), BAD)
def test_a_refusal_shows_the_value_unless_it_is_a_secret(name: str, raw: str, wanted: str) -> None:
    message = refusal(name, raw)
    if name in ("database_url", "clickhouse_url", "personal_key", "bootstrap_personal_key"):
        assert message.endswith(", not the value given.")
        assert raw not in message
    else:
        assert message.endswith(f", not {raw!r}.")


@pytest.mark.parametrize("name", NAMES)
def test_without_a_variable_the_default_holds(name: str) -> None:
    settings, _ = load({})
    assert getattr(settings, name) == getattr(Settings(), name)
    assert origin_of(name, {}).source == "default"


def test_every_setting_has_an_origin_in_order_with_a_sentence_of_help() -> None:
    _, origins = load({})
    assert [origin.variable for origin in origins] == [variable(name) for name in NAMES]
    assert all(origin.help.endswith(".") for origin in origins)


def test_the_command_line_beats_the_environment() -> None:
    settings, _ = load({"HEDGEROW_PORT": "9000"}, {"port": 0})
    assert settings.port == 0
    assert origin_of("port", {"HEDGEROW_PORT": "9000"}, port=0).source == "command line"


def test_an_option_that_was_not_given_overrides_nothing() -> None:
    origin = origin_of("port", {"HEDGEROW_PORT": "9000"}, port=None)
    assert (origin.shown, origin.source) == ("9000", "environment")


@pytest.mark.parametrize(
    ("name", "raw", "shown"),
    [
        ("rate_limits", "on", "true"),
        ("trusted_proxies", "10.0.0.0/8, ::1", "10.0.0.0/8,::1/128"),
        ("data", "/srv/x", "/srv/x"),
        ("bootstrap_personal_key", PERSONAL_KEY, "***"),
        ("bootstrap_personal_key", "", ""),
        ("bootstrap_project_key", PROJECT_KEY, PROJECT_KEY),
        ("database_url", "postgresql://ann:sesame@db:5432/x", "postgresql://ann:***@db:5432/x"),
    ],
)
def test_a_value_is_shown_as_it_could_be_typed_and_secrets_are_not(
    name: str, raw: str, shown: str
) -> None:
    assert origin_of(name, {variable(name): raw}).shown == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:sesame@db/x",
        "postgresql://:sesame@db/x",
        "postgresql://ann:sesame%40@db:5432/x?sslmode=require",
        "postgresql://db/x?user=ann&password=sesame",
        "postgresql://ann@db/x?sslmode=require&sslpassword=sesame",
    ],
)
def test_a_database_address_is_shown_without_any_password(url: str) -> None:
    assert "sesame" not in without_password(url)
    assert "sesame" not in origin_of("database_url", {"HEDGEROW_DATABASE_URL": url}).shown


@pytest.mark.parametrize("url", ["postgresql://db/x", "postgresql://ann@db/x?sslmode=require"])
def test_a_database_address_without_a_password_is_shown_whole(url: str) -> None:
    assert without_password(url) == url


def test_an_unknown_variable_is_told_with_the_name_that_was_probably_meant() -> None:
    environment = {
        "HEDGEROW_PROT": "9000",
        "HEDGEROW_DATABASEURL": "",
        "HEDGEROW_PORT": "8000",
        "PATH": "/bin",
    }
    assert unknown_variables(environment) == {
        "HEDGEROW_DATABASEURL": "HEDGEROW_DATABASE_URL",
        "HEDGEROW_PROT": "HEDGEROW_PORT",
    }


@pytest.mark.parametrize("name", ["HEDGEROW_ZZZ", "HEDGEROW_BANANA", "HEDGEROW_"])
def test_a_variable_like_none_of_ours_gets_no_far_fetched_suggestion(name: str) -> None:
    """That it begins with HEDGEROW_ makes it like all of them."""
    assert unknown_variables({name: ""}) == {name: None}


def test_the_database_file_lies_in_the_data_folder() -> None:
    assert Settings(data=Path("/srv/x")).sqlite_path == Path("/srv/x/hedgerow.db")
