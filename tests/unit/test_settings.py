from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from hedgerow.settings import (
    SettingError,
    SettingOrigin,
    Settings,
    find_renamed_variables,
    find_unknown_variables,
    load_settings,
    mask_password,
    variable_name,
)

PROJECT_KEY = "phc_0123456789-b_DEF"
PERSONAL_KEY = "phx_0123456789-b_DEF"
NAMES = [entry.name for entry in fields(Settings)]

GOOD: list[tuple[str, str, Any]] = [
    ("oidc_issuer", "https://login.example.com/", "https://login.example.com"),
    ("oidc_issuer", "http://[::1]:9000/realm", "http://[::1]:9000/realm"),
    ("oidc_client_id", "hedgerow", "hedgerow"),
    ("oidc_client_secret", "secret", "secret"),
    ("oidc_name", "Example Inc.", "Example Inc."),
    ("oidc_scopes", "openid email", "openid email"),
    ("oidc_domains", "Example.com, b.example", ("example.com", "b.example")),
    ("oidc_new_members", "1=viewer, 2=editor", ((1, "viewer"), (2, "editor"))),
    ("oidc_trust_emails", "true", True),
    ("password_login", "false", False),
    ("smtp_host", "mail.example.com", "mail.example.com"),
    ("smtp_port", "465", 465),
    ("smtp_tls", "TLS", "tls"),
    ("smtp_user", "hedgerow", "hedgerow"),
    ("smtp_password", "secret", "secret"),
    ("mail_from", "Hedgerow <hedgerow@example.com>", "Hedgerow <hedgerow@example.com>"),
    ("mail_from", "a+b@example.com", "a+b@example.com"),
    ("host", "0.0.0.0", "0.0.0.0"),
    ("port", "0", 0),
    ("port", " 65535 ", 65535),
    ("data_dir", "/srv/hedgerow", Path("/srv/hedgerow")),
    ("data_dir", "~/flags", Path.home() / "flags"),
    ("database_url", "", ""),
    ("database_url", " postgres://u:p@db/x ", "postgres://u:p@db/x"),
    ("database_url", "postgresql://db", "postgresql://db"),
    ("database_pool_size", "200", 200),
    ("database_timeout_s", "0.1", 0.1),
    ("clickhouse_url", "", ""),
    ("clickhouse_url", " https://u:p@ch:8443/x ", "https://u:p@ch:8443/x"),
    ("inbox_max_events", "1", 1),
    ("inbox_url", " nats://u:p@a:4222/events, tls://b ", "nats://u:p@a:4222/events,tls://b"),
    ("inbox_stream_max_mb", "16", 16),
    ("min_free_disk_mb", "0", 0),
    ("import_min_free_disk_mb", "2048", 2048),
    ("read_after_write_timeout_s", "0", 0.0),
    ("delivery_max_age_days", "14", 14),
    ("dead_letter_retention_days", "1", 1),
    ("delivered_retention_days", "7", 7),
    ("max_enabled_destinations", "500", 500),
    ("max_enabled_transformations", "1", 1),
    ("purge_interval_s", "60", 60.0),
    ("exports_dir", "~/out", "~/out"),
    ("imports_dir", "in", "in"),
    ("allow_private_destinations", "yes", True),
    ("public_url", "https://flags.example.com/", "https://flags.example.com"),
    ("server_url", "https://flags.example.com/", "https://flags.example.com"),
    ("project", " 3 ", 3),
    ("edge_keys", " phs_0123456789abcdef, ,phs_0123456789abcdef", ("phs_0123456789abcdef",)),
    ("edge_keys", "phx_0123456789abcdef:3", ("phx_0123456789abcdef:3",)),
    ("edge_poll_interval_s", "1", 1.0),
    ("edge_forward_timeout_s", "0", 0.0),
    ("edge_inbox_max_mb", "0", 0),
    ("edge_inbox_give_up_s", "1", 1.0),
    ("notification_url", " https://example.com/hook/?a=b ", "https://example.com/hook/?a=b"),
    ("notification_url", "", ""),
    ("notification_secret", "whsec_c2VjcmV0", "whsec_c2VjcmV0"),
    ("personal_key", "phx_0123456789abcdef", "phx_0123456789abcdef"),
    ("project_key", "phc_0123456789abcdef", "phc_0123456789abcdef"),
    ("public_url", "", ""),
    ("allowed_private_networks", "10.1.0.0/16", (ip_network("10.1.0.0/16"),)),
    ("trusted_proxies", "", ()),
    (
        "trusted_proxies",
        "10.0.0.1, 192.168.7.9/16,fd00::/8",
        (ip_network("10.0.0.1"), ip_network("192.168.0.0/16"), ip_network("fd00::/8")),
    ),
    ("max_connections", "500", 500),
    ("metrics_port", "9090", 9090),
    ("processes", "4", 4),
    ("metrics_host", "0.0.0.0", "0.0.0.0"),
    ("project_calls_per_s", "0", 0.0),
    ("project_events_per_s", "0.5", 0.5),
    ("address_calls_per_s", "50", 50.0),
    ("max_body_bytes", "1024", 1024),
    ("request_read_timeout_s", "3600", 3600.0),
    ("encryption_keys", "newest,older", "newest,older"),
    ("geoip_file", "/srv/GeoLite2-City.mmdb", "/srv/GeoLite2-City.mmdb"),
    ("sdk_scripts_dir", "/srv/scripts", "/srv/scripts"),
    ("rate_limits_enabled", "On", True),
    ("rate_limits_enabled", "yes", True),
    ("rate_limits_enabled", "0", False),
    ("rate_limits_enabled", "", False),
    ("log_level", " DEBUG ", "debug"),
    ("log_format", "json", "json"),
    ("shutdown_drain_s", "30", 30.0),
    ("shutdown_grace_s", "0", 0.0),
    ("bootstrap_project_key", PROJECT_KEY, PROJECT_KEY),
    ("bootstrap_personal_key", "", ""),
    ("bootstrap_personal_key", f" {PERSONAL_KEY} ", PERSONAL_KEY),
    ("bootstrap_owner_email", " Ann@Example.com ", "ann@example.com"),
    ("bootstrap_owner_password", " twelve chars", " twelve chars"),
]

PORT = "a whole number from 0 to 65535"
POSTGRES = "postgresql://user:password@host:5432/name, or an empty value for SQLite"
ADDRESS = "a URL such as https://flags.example.com, or an empty value"
NETWORKS = "comma-separated addresses or networks, such as 10.0.0.0/8"

BAD: list[tuple[str, str, str]] = [
    ("oidc_issuer", "login.example.com", "a URL that begins with https://, or an empty value"),
    ("oidc_issuer", "http://login.example.com", "a URL that begins with https://"),
    ("oidc_issuer", "http://127.0.0.1.example.com", "a URL that begins with https://"),
    ("oidc_domains", "example", "comma-separated domains"),
    ("oidc_new_members", "viewer", "comma-separated projects with their roles"),
    ("oidc_new_members", "1=", "comma-separated projects with their roles"),
    ("oidc_trust_emails", "perhaps", "true or false"),
    ("password_login", "perhaps", "true or false"),
    ("smtp_port", "0", "a whole number from 1 to 65535"),
    ("smtp_tls", "ssl", "one of starttls, tls, none"),
    ("mail_from", "hedgerow", "an email address such as"),
    ("mail_from", "hedgerow\nBcc: x", "an email address such as"),
    ("port", "", PORT),
    ("port", "eighty", PORT),
    ("port", "-1", PORT),
    ("port", "--5", PORT),
    ("port", "65536", PORT),
    ("port", "80.0", PORT),
    ("port", "9" * 5000, PORT),
    ("data_dir", " ", "the path of a directory"),
    ("data_dir", "~no-such-person/flags", "the path of a directory"),
    ("database_url", "mysql://db/x", POSTGRES),
    ("database_url", "flags.db", POSTGRES),
    ("database_url", "postgresql://[db/x", POSTGRES),
    ("database_url", "postgresql://db:port/x", POSTGRES),
    ("database_pool_size", "0", "a whole number from 1 to 200"),
    ("database_timeout_s", "0", "a number of seconds from 0.1 to 300"),
    ("database_timeout_s", "nan", "a number of seconds from 0.1 to 300"),
    ("clickhouse_url", "clickhouse://ch", "http://user:password@host:8123/database"),
    ("inbox_max_events", "0", "a whole number from 1 to"),
    ("inbox_url", "nats://a, http://b", "nats://user:password@host:4222"),
    ("inbox_stream_max_mb", "15", "a whole number from 16 to"),
    ("min_free_disk_mb", "-1", "a whole number from 0 to"),
    ("import_min_free_disk_mb", "1.5", "a whole number from 0 to"),
    ("read_after_write_timeout_s", "61", "a number of seconds from 0 to 60"),
    ("delivery_max_age_days", "0", "a whole number from 1 to 365"),
    ("dead_letter_retention_days", "0", "a whole number from 1 to 3650"),
    ("delivered_retention_days", "0", "a whole number from 1 to 3650"),
    ("max_enabled_destinations", "0", "a whole number from 1 to 100000"),
    ("max_enabled_transformations", "many", "a whole number from 1 to 100000"),
    ("purge_interval_s", "0", "a number of seconds from 1 to 604800"),
    ("allow_private_destinations", "some", "true or false"),
    ("public_url", "flags.example.com", ADDRESS),
    ("server_url", "flags.example.com", ADDRESS),
    ("metrics_host", "a b", "an address or a host name, such as 0.0.0.0"),
    ("host", "http://127.0.0.1", "an address or a host name, such as 0.0.0.0"),
    ("project", "shop", "a whole number from 0 to 2147483647"),
    ("edge_keys", "phc_0123456789abcdef", "secret keys (phs_…), or personal keys"),
    ("edge_keys", "phs_0123456789abcdef:3", "secret keys (phs_…), or personal keys"),
    ("edge_poll_interval_s", "0", "a number of seconds from 1 to 3600"),
    ("edge_forward_timeout_s", "61", "a number of seconds from 0 to 60"),
    ("edge_inbox_max_mb", "-1", "a whole number from 0 to 1000000000"),
    ("edge_inbox_give_up_s", "0", "a number of seconds from 1 to 86400"),
    ("notification_url", "example.com", "a URL such as https://example.com/hook"),
    ("notification_url", "http://", "a URL such as https://example.com/hook"),
    ("personal_key", "phc_0123456789abcdef", "phx_ and at least 16 more characters"),
    ("project_key", "phx_0123456789abcdef", "phc_ and at least 16 more characters"),
    ("public_url", "ftp://flags.example.com", ADDRESS),
    ("public_url", "https://", ADDRESS),
    ("public_url", "http://[::1", ADDRESS),
    ("allowed_private_networks", "private", NETWORKS),
    ("trusted_proxies", "proxy.example.com", NETWORKS),
    ("trusted_proxies", "10.0.0.0/33", NETWORKS),
    ("project_calls_per_s", "0.01", "a number from 0.1 to 1,000,000, or 0"),
    ("project_events_per_s", "many", "a number from 0.1 to 1,000,000, or 0"),
    ("address_calls_per_s", "nan", "a number from 0.1 to 1,000,000, or 0"),
    ("processes", "0", "a whole number from 1 to 64"),
    ("metrics_port", "65536", "a whole number from 0 to 65535"),
    ("max_connections", "-1", "a whole number from 0 to 1000000"),
    ("max_body_bytes", "10MB", "a whole number from 1024 to 1073741824"),
    ("request_read_timeout_s", "soon", "a number of seconds from 0.1 to 3600"),
    ("request_read_timeout_s", "inf", "a number of seconds from 0.1 to 3600"),
    ("rate_limits_enabled", "maybe", "true or false"),
    ("log_level", "loud", "one of debug, info, warning, error"),
    ("log_format", "xml", "one of auto, human, json"),
    ("shutdown_drain_s", "601", "a number of seconds from 0 to 600"),
    ("shutdown_grace_s", "-0.5", "a number of seconds from 0 to 600"),
    (
        "bootstrap_project_key",
        PROJECT_KEY[:-1],
        "phc_ and at least 16 more characters, or an empty value",
    ),
    (
        "bootstrap_project_key",
        PERSONAL_KEY,
        "phc_ and at least 16 more characters, or an empty value",
    ),
    ("bootstrap_project_key", "phc_sixteen more chars", "phc_ and letters, digits, _ or - only"),
    ("bootstrap_personal_key", "phx_sixteen/more/chars", "phx_ and letters, digits, _ or - only"),
    ("bootstrap_personal_key", "phx_ünïcödé_chars_00", "phx_ and at least 16 more characters"),
    ("bootstrap_owner_email", "ann", "an email address, or an empty value"),
    ("bootstrap_owner_password", "eleven char", "12 to 256 characters, or an empty value"),
]


def origin_of(name: str, environment: dict[str, str], **overrides: Any) -> SettingOrigin:
    _, origins = load_settings(environment, overrides)
    return next(origin for origin in origins if origin.variable == variable_name(name))


def refusal(name: str, raw: str) -> str:
    with pytest.raises(SettingError) as raised:
        load_settings({variable_name(name): raw})
    return str(raised.value)


def test_every_setting_has_a_valid_and_an_invalid_case() -> None:
    assert {name for name, _, _ in GOOD} == set(NAMES)
    free = {
        "exports_dir",
        "geoip_file",
        "imports_dir",
        "notification_secret",
        "sdk_scripts_dir",
        "encryption_keys",
        "oidc_client_id",
        "oidc_client_secret",
        "oidc_name",
        "oidc_scopes",
        "smtp_host",
        "smtp_password",
        "smtp_user",
    }
    assert {name for name, _, _ in BAD} == set(NAMES) - free


@pytest.mark.parametrize(("name", "raw", "value"), GOOD)
def test_valid_value_is_read_from_its_variable(name: str, raw: str, value: Any) -> None:
    settings, _ = load_settings({variable_name(name): raw})
    assert getattr(settings, name) == value
    assert origin_of(name, {variable_name(name): raw}).source == "environment"


@pytest.mark.parametrize(("name", "raw", "expected"), BAD)
def test_invalid_value_names_the_variable_and_the_expected_value(
    name: str, raw: str, expected: str
) -> None:
    assert refusal(name, raw).startswith(f"{variable_name(name)} must be {expected}")


@pytest.mark.parametrize(("name", "raw", "expected"), BAD)
def test_error_shows_the_value_unless_it_is_secret(name: str, raw: str, expected: str) -> None:
    message = refusal(name, raw)
    if name in (
        "database_url",
        "clickhouse_url",
        "inbox_url",
        "edge_keys",
        "personal_key",
        "bootstrap_personal_key",
        "bootstrap_owner_password",
    ):
        assert message.endswith(", not the value it has.")
        assert raw not in message
    else:
        assert message.endswith(f", not {raw!r}.")


@pytest.mark.parametrize("name", NAMES)
def test_default_applies_without_a_variable(name: str) -> None:
    settings, _ = load_settings({})
    assert getattr(settings, name) == getattr(Settings(), name)
    assert origin_of(name, {}).source == "default"


def test_origins_list_every_setting_in_order_with_help() -> None:
    _, origins = load_settings({})
    names = [origin.variable for origin in origins]
    assert sorted(names) == sorted(variable_name(name) for name in NAMES)
    assert (names[0], names[-1]) == ("HEDGEROW_HOST", "HEDGEROW_MAIL_FROM")
    assert all(origin.help.endswith(".") for origin in origins)


def test_command_line_overrides_environment() -> None:
    settings, _ = load_settings({"HEDGEROW_PORT": "9000"}, {"port": 0})
    assert settings.port == 0
    assert origin_of("port", {"HEDGEROW_PORT": "9000"}, port=0).source == "command line"


def test_omitted_option_overrides_nothing() -> None:
    origin = origin_of("port", {"HEDGEROW_PORT": "9000"}, port=None)
    assert (origin.display_value, origin.source) == ("9000", "environment")


@pytest.mark.parametrize(
    ("name", "raw", "shown"),
    [
        ("rate_limits_enabled", "on", "true"),
        ("trusted_proxies", "10.0.0.0/8, ::1", "10.0.0.0/8,::1/128"),
        ("data_dir", "/srv/x", "/srv/x"),
        ("bootstrap_personal_key", PERSONAL_KEY, "***"),
        ("bootstrap_personal_key", "", ""),
        ("bootstrap_project_key", PROJECT_KEY, PROJECT_KEY),
        ("database_url", "postgresql://ann:sesame@db:5432/x", "postgresql://ann:***@db:5432/x"),
        ("clickhouse_url", "http://ann:sesame@ch:8123/x", "http://ann:***@ch:8123/x"),
        ("inbox_url", "nats://u:sesame@a,tls://sesame@b", "nats://u:***@a,tls://***@b"),
        ("notification_url", "https://ann:sesame@a.example/", "https://ann:***@a.example/"),
        ("notification_url", "https://sesame@a.example", "https://***@a.example"),
        ("notification_url", "https://a.example/T0/sesame", "https://a.example/***"),
        ("notification_url", "https://a.example/?x-key=sesame", "https://a.example/?x-key=***"),
        ("public_url", "https://flags.example.com", "https://flags.example.com"),
        ("server_url", "https://ann:sesame@a.example/x", "https://ann:***@a.example/x"),
    ],
)
def test_display_value_hides_secrets(name: str, raw: str, shown: str) -> None:
    assert origin_of(name, {variable_name(name): raw}).display_value == shown


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
def test_database_url_is_shown_without_password(url: str) -> None:
    assert "sesame" not in mask_password(url)
    assert "sesame" not in origin_of("database_url", {"HEDGEROW_DATABASE_URL": url}).display_value


@pytest.mark.parametrize("name", ["notification_url", "server_url", "public_url", "database_url"])
def test_invalid_url_is_not_repeated(name: str) -> None:
    assert "sesame" not in refusal(name, "ftp://ann:sesame@a.example")


@pytest.mark.parametrize("url", ["https://ann:sesame@a.example", "https://sesame@a.example/x"])
def test_public_url_cannot_have_a_user(url: str) -> None:
    assert refusal("public_url", url) == (
        "HEDGEROW_PUBLIC_URL must be a URL without a user and a password, such as "
        "https://flags.example.com, not the value it has."
    )


def test_invalid_webhook_is_not_repeated() -> None:
    assert "sesame" not in refusal("notification_url", "htps://a.example/T0/sesame")


@pytest.mark.parametrize("url", ["postgresql://db/x", "postgresql://ann@db/x?sslmode=require"])
def test_database_url_without_password_is_unchanged(url: str) -> None:
    assert mask_password(url) == url


def test_unknown_variable_suggests_the_closest_name() -> None:
    environment = {
        "HEDGEROW_PROT": "9000",
        "HEDGEROW_DATABASEURL": "",
        "HEDGEROW_PORT": "8000",
        "PATH": "/bin",
    }
    assert find_unknown_variables(environment) == {
        "HEDGEROW_DATABASEURL": "HEDGEROW_DATABASE_URL",
        "HEDGEROW_PROT": "HEDGEROW_PORT",
    }


@pytest.mark.parametrize("name", ["HEDGEROW_ZZZ", "HEDGEROW_BANANA", "HEDGEROW_"])
def test_dissimilar_variable_gets_no_suggestion(name: str) -> None:
    """The shared prefix does not count as similarity."""
    assert find_unknown_variables({name: ""}) == {name: None}


def test_database_file_is_in_the_data_dir() -> None:
    assert Settings(data_dir=Path("/srv/x")).sqlite_path == Path("/srv/x/hedgerow.db")


RENAMED = [(e.metadata["old_name"], e.name) for e in fields(Settings) if e.metadata["old_name"]]


@pytest.mark.parametrize(("old", "new"), RENAMED)
def test_renamed_variable_is_still_read(old: str, new: str) -> None:
    raw = next(
        raw for name, raw, value in GOOD if name == new and value != getattr(Settings(), new)
    )
    environment = {variable_name(old): raw}
    settings, _ = load_settings(environment)
    assert getattr(settings, new) != getattr(Settings(), new)
    assert find_renamed_variables(environment) == {variable_name(old): variable_name(new)}
    assert find_unknown_variables(environment) == {}


def test_current_name_wins_over_the_renamed_one() -> None:
    settings, _ = load_settings({"HEDGEROW_DATA": "/old", "HEDGEROW_DATA_DIR": "/new"})
    assert settings.data_dir == Path("/new")
