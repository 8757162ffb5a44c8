"""JSON templates: rendering, errors, limits and isolation from Python."""

from typing import Any

import pytest

from hedgerow.plugin.templates import TemplateError, compile_template

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
def test_rendering(template: Any, made: Any) -> None:
    assert compile_template(template)(GIVEN) == made


@pytest.mark.parametrize("template", ["{{ event.", "{% if %}", "{% nothing %}", {"a": ["{{ | }}"]}])
def test_syntax_errors_are_refused(template: Any) -> None:
    with pytest.raises(TemplateError):
        compile_template(template)


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in (1..1000000000) %}x{% endfor %}",
        "{% for i in (1..9999) %}{% for j in (1..9999) %}x{% endfor %}{% endfor %}",
        "{% include 'file' %}",
        "{{ event.event | unheard_of }}",
    ],
)
def test_limits_and_missing_values_raise(template: str) -> None:
    with pytest.raises(TemplateError):
        compile_template(template)(GIVEN)


@pytest.mark.parametrize(
    "path", ["__class__", "event.__class__", "event.event.__len__", "event.keys"]
)
def test_templates_have_no_access_to_python(path: str) -> None:
    assert compile_template("{{ " + path + " }}")(GIVEN) is None
