"""JSON templates: rendering, errors, budgets and isolation from Python."""

from collections.abc import Mapping
from typing import Any

import pytest

from hedgerow.lib import jsonio
from hedgerow.lib.sync_bridge import run_bridged
from hedgerow.plugin.template_budget import FULL_LIMITS, INLINE_LIMITS, TemplateBudgetExceeded
from hedgerow.plugin.templates import (
    TemplateError,
    compile_template,
    parse_template,
    remote_render,
)

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


@pytest.mark.parametrize(
    "template",
    [
        "{{ event.",
        "{% if %}",
        "{% nothing %}",
        {"a": ["{{ | }}"]},
        "{% include 'file' %}",
        "{%- render 'file' %}",
        "{{ event.event | unheard_of }}",
        "{% raw %}",
    ],
)
def test_syntax_errors_are_refused(template: Any) -> None:
    with pytest.raises(TemplateError):
        compile_template(template)


@pytest.mark.slow
@pytest.mark.parametrize(
    "template",
    [
        "{% for i in (1..1000000000) %}x{% endfor %}",
        "{% for i in (1..9999) %}{% for j in (1..9999) %}x{% endfor %}{% endfor %}",
        "{{ (1..10000000) | join: '' | size }}",
        "{{ (1..99999999999999999999999) | size }}",
        "{% for i in (1..100000) %}{% endfor %}" * 9,
        "{% assign x = 'xxxxxxxxxx' %}" + "{% assign x = x | append: x %}" * 50,
        "{% assign x = 999999999 %}" + "{% assign x = x | times: x %}" * 50,
        "{% assign x = 'x' %}" + "{% assign x = x | replace: '', 'xxxxxxxxxxxxxxxxxxxx' %}" * 9,
        "{% for i in (1..1000) %}{{ event.properties.text }}{% endfor %}",
        ["{{ event.properties.text }}"] * 100,
        ["{{ (1..100000) | join: ', ' }}"] * 40,
    ],
)
def test_templates_over_budget_raise(template: Any) -> None:
    text = {"event": {"properties": {"text": "x" * 100_000}}}
    with pytest.raises(TemplateBudgetExceeded):
        compile_template(template)(text)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' | times: 'y' | divided_by: 0 }}",
        "{{ '1e999' | times: 1.5 | ceil }}",
    ],
)
def test_errors_of_filters_are_template_errors(template: str) -> None:
    with pytest.raises(TemplateError):
        compile_template(template)(GIVEN)


@pytest.mark.parametrize(
    "template",
    [
        "{{ a }}" * 1000,
        "{{" * 40_000,
        "{{" + " " * 90_000 + "}}",
        "{% raw %}" * 9_000,
        "{% if a %}" * 31 + "{% endif %}" * 31,
        "{{ a" + "[a" * 300 + "]" * 300 + " }}",
        "{{ '" + "x" * 1_000 + "' }}",
        ["x" * 1_000] * 100,
    ],
)
def test_templates_that_take_long_to_parse_are_refused(template: Any) -> None:
    with pytest.raises(TemplateError):
        compile_template(template)


@pytest.mark.parametrize(
    ("template", "is_cheap"),
    [
        ({"a": "{{ event.properties.price }}", "b": "{{ event.event | upcase }}!"}, True),
        ("{% if event.event == 'bought' %}yes{% endif %}", True),
        ("{% for tag in event.properties.tags %}{{ tag }}{% endfor %}", False),
        ("{{ (1..9) | join: '' }}", False),
        ("{% capture x %}{{ event.event }}{% endcapture %}", False),
        ("{{ event.event | strip_html }}", False),
        (["{{ event.properties.price }}"] * 200, False),
    ],
)
def test_only_templates_without_loops_are_cheap(template: Any, is_cheap: bool) -> None:
    assert parse_template(jsonio.encode(template)).is_cheap is is_cheap


async def test_costly_templates_and_large_values_are_rendered_remotely() -> None:
    remote: list[bytes] = []

    async def render(source: bytes, payload: Mapping[str, Any]) -> Any:
        remote.append(source)
        return parse_template(source).render_here(payload, FULL_LIMITS)

    async def call(text: str, payload: Mapping[str, Any]) -> Any:
        return compile_template(text)(payload)

    token = remote_render.set(render)
    try:
        large = {"event": {"event": "x" * INLINE_LIMITS.value_chars + "x"}}
        assert await run_bridged(call("{{ event.event }}", GIVEN)) == "bought"
        assert remote == []
        assert await run_bridged(call("{{ event.event | size }}", large)) == 20_001
        assert await run_bridged(call("{{ (1..3) | join: '' }}", GIVEN)) == "123"
        assert remote == [b'"{{ event.event | size }}"', b"\"{{ (1..3) | join: '' }}\""]
        # In a task that the component started, only the small budget of the loop is available.
        assert await call("{{ (1..3) | join: '' }}", GIVEN) == "123"
        with pytest.raises(TemplateBudgetExceeded):
            await call("{{ event.event | size }}", large)
    finally:
        remote_render.reset(token)


@pytest.mark.parametrize(
    "path", ["__class__", "event.__class__", "event.event.__len__", "event.keys"]
)
def test_templates_have_no_access_to_python(path: str) -> None:
    assert compile_template("{{ " + path + " }}")(GIVEN) is None
