"""JSON templates: what they make of an event, and what they cannot do."""

from typing import Any

import pytest

from hedgerow.pipelines.templates import TemplateProblem, compiled

GIVEN = {
    "event": {"event": "bought", "properties": {"price": 2.5, "tags": ["a", 'b"'], "no": None}}
}


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ("plain { text }", "plain { text }"),
        ("{{ event.event | upcase }}!", "BOUGHT!"),
        ("{{ event.properties.price }}", 2.5),
        ("{{ event.properties.tags }}", ["a", 'b"']),
        ("{{ event.properties.no }}", None),
        ("{{ event.nothing.at.all }}", None),
        ("<{{ event.nothing }}>", "<>"),
        ("{% if event.properties.price > 2 %}much{% else %}little{% endif %}", "much"),
        (
            {"{{ event.event }}": [1, True, None, "{{ event.event }}"]},
            {"bought": [1, True, None, "bought"]},
        ),
    ],
)
def test_what_is_made(template: Any, made: Any) -> None:
    assert compiled(template)(GIVEN) == made


@pytest.mark.parametrize("template", ["{{ event.", "{% if %}", "{% nothing %}", {"a": ["{{ | }}"]}])
def test_what_cannot_be_read_is_refused(template: Any) -> None:
    with pytest.raises(TemplateProblem):
        compiled(template)


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in (1..1000000000) %}x{% endfor %}",
        "{% for i in (1..9999) %}{% for j in (1..9999) %}x{% endfor %}{% endfor %}",
        "{% include 'file' %}",
        "{{ event.event | unheard_of }}",
    ],
)
def test_what_takes_too_much_or_is_not_there_does_not_fit(template: str) -> None:
    with pytest.raises(TemplateProblem):
        compiled(template)(GIVEN)


@pytest.mark.parametrize(
    "path", ["__class__", "event.__class__", "event.event.__len__", "event.keys"]
)
def test_there_is_no_way_to_python(path: str) -> None:
    assert compiled("{{ " + path + " }}")(GIVEN) is None
