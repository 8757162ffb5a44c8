"""Text rules that other tests do not reach."""

import pytest

from hedgerow.lib.text import format_path


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("filters", "filters"),
        ("scopes__0", "scopes__0"),
        ("filters.groups[1].properties[0].value", "filters__groups__1__properties__0__value"),
        ("query__series[0].nodes[12].mth", "query__series__0__nodes__12__mth"),
        ("steps[0]", "steps__0"),
        ("filters.payloads.first-ü", "filters__payloads__first-ü"),
        ("$session.id", "$session__id"),
        ("destinations[0] (A): url", "destinations[0] (A): url"),
        ("flags[0]: filters.groups", "flags[0]: filters.groups"),
        ("a..b", "a..b"),
        (".", "."),
        ("[0]", "[0]"),
        ("a[b]", "a[b]"),
        ("", ""),
    ],
)
def test_path_of_a_field_is_written_as_in_errors_of_posthog(place: str, expected: str) -> None:
    assert format_path(place) == expected
