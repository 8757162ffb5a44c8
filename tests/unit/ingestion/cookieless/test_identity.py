from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from hedgerow.ingestion.cookieless.identity import (
    Visitor,
    extract_root_domain,
    find_local_day,
    format_distinct_id,
    hash_visitor,
    is_current,
    last_expired_day,
)
from hedgerow.projects.model import ProjectId

SALT = b"0123456789abcdef"
PROJECT = ProjectId(1)
ANN = Visitor(ip="203.0.113.7", host="www.example.com", user_agent="Firefox")


def test_same_visitor_has_the_same_hash() -> None:
    assert hash_visitor(SALT, PROJECT, ANN) == hash_visitor(SALT, PROJECT, replace(ANN))
    other_page = replace(ANN, host="https://shop.example.com")
    assert hash_visitor(SALT, PROJECT, ANN) == hash_visitor(SALT, PROJECT, other_page)


def test_everything_that_differs_makes_another_visitor() -> None:
    hashes = {
        hash_visitor(SALT, PROJECT, ANN),
        hash_visitor(b"another salt 456", PROJECT, ANN),
        hash_visitor(SALT, ProjectId(2), ANN),
        hash_visitor(SALT, PROJECT, replace(ANN, ip="203.0.113.8")),
        hash_visitor(SALT, PROJECT, replace(ANN, host="example.org")),
        hash_visitor(SALT, PROJECT, replace(ANN, user_agent="Firefox-")),
        hash_visitor(SALT, PROJECT, replace(ANN, extra="seat 2")),
        # The parts are separate: text cannot move from one to the next.
        hash_visitor(SALT, PROJECT, replace(ANN, user_agent="", extra="Firefox")),
    }
    assert len(hashes) == 8


def test_distinct_id_changes_with_each_login() -> None:
    device = hash_visitor(SALT, PROJECT, ANN)
    ids = [format_distinct_id(device, number) for number in range(3)]
    assert len(set(ids)) == 3
    assert all(id.startswith("cookieless_") and "=" not in id for id in ids)


DOMAINS = [
    ("example.com", "example.com"),
    ("www.example.com", "example.com"),
    ("a.b.c.example.com:8080", "example.com:8080"),
    ("https://www.example.com/path?x", "example.com"),
    ("shop.example.co.uk", "example.co.uk"),
    ("example.co.uk", "example.co.uk"),
    ("www.example.de", "example.de"),
    ("EXAMPLE.com", "example.com"),
    ("localhost:3000", "localhost:3000"),
    ("127.0.0.1:3000", "127.0.0.1:3000"),
    ("[2001:db8::0:1]:80", "2001:db8::1:80"),
    ("", ""),
    ("http://[", "http://["),
    ("example.com:99999", "example.com:99999"),
    ("☃.example.com", "example.com"),
]


@pytest.mark.parametrize(("host", "root"), DOMAINS)
def test_root_domain_joins_subdomains(host: str, root: str) -> None:
    assert extract_root_domain(host) == root


MIDNIGHT = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "project_zone", "day"),
    [
        ("Europe/Berlin", "UTC", date(2026, 11, 15)),
        ("America/New_York", "UTC", date(2026, 11, 14)),
        (None, "America/New_York", date(2026, 11, 14)),
        ("Not/AZone", "America/New_York", date(2026, 11, 14)),
        ("../../etc/passwd", "UTC", date(2026, 11, 15)),
        ("Europe", "UTC", date(2026, 11, 15)),
        ("x" * 5000, "UTC", date(2026, 11, 15)),
        ("a\x00b", "nonsense", date(2026, 11, 15)),
        (5, "UTC", date(2026, 11, 15)),
        (["UTC"], "UTC", date(2026, 11, 15)),
    ],
)
def test_day_is_that_of_the_visitor(zone: Any, project_zone: str, day: date) -> None:
    assert find_local_day(MIDNIGHT, zone, project_zone) == day


def test_day_is_current_while_it_is_that_day_somewhere() -> None:
    day = date(2026, 11, 15)
    begins, ends = MIDNIGHT - timedelta(hours=14), MIDNIGHT + timedelta(hours=24 + 14)
    second = timedelta(seconds=1)
    assert [is_current(day, at) for at in (begins - second, begins, ends - second, ends)] == [
        *(False, True, True, False)
    ]
    assert last_expired_day(ends) == day
    assert last_expired_day(ends - second) == day - timedelta(days=1)
