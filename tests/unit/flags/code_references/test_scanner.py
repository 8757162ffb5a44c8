"""Calls of SDKs in which keys of flags are found, and what is left alone."""

import pytest

from hedgerow.flags.code_references.scanner import CodeReference, find_references

GO_IMPORT = 'import "github.com/open-feature/go-sdk/openfeature"\n'


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.ts", "posthog.isFeatureEnabled('new-flow')"),
        ("a.ts", 'posthog?.getFeatureFlag?.<Record<string, X>>(\n  "new-flow",\n  {})'),
        ("a.ts", "await client.getFeatureFlagPayload(`new-flow`, id)"),
        ("a.tsx", "const variant = useFeatureFlagVariantKey('new-flow')"),
        ("a.tsx", '<PostHogFeature\n  match={true}\n  flag="new-flow">'),
        ("a.tsx", "<PostHogFeature flag={'new-flow'} match='test'>"),
        ("a.py", 'posthog.feature_enabled("new-flow", "ann")'),
        ("a.py", "client.get_feature_flag(\n    key='new-flow',\n    distinct_id=id)"),
        ("a.rb", "posthog.is_feature_enabled('new-flow', id)"),
        ("a.rb", "posthog.get_feature_flag 'new-flow', id"),
        ("a.go", 'c.IsFeatureEnabled(posthog.FeatureFlagPayload{\n\tKey: "new-flow",\n})'),
        ("a.go", 'c.GetFeatureFlag(posthog.FeatureFlagPayload{DistinctId: id, Key: "new-flow"})'),
        ("a.php", "PostHog::getFeatureFlag('new-flow', $id)"),
        ("A.java", 'posthog.isFeatureEnabled(user.getId(), "new-flow")'),
        ("A.java", 'posthog.isFeatureEnabled("ann", "new-flow")'),
        ("A.java", 'posthog.isFeatureFlagEnabled("new-flow")'),
        ("a.kt", 'PostHog.isFeatureEnabled("new-flow")'),
        ("a.cs", 'await posthog.IsFeatureEnabledAsync("new-flow", id)'),
        ("a.ex", 'PostHog.FeatureFlags.check("new-flow", id)'),
        ("a.ts", "import '@openfeature/web-sdk'; client.getBooleanValue('new-flow', false)"),
        ("a.tsx", "import '@openfeature/react-sdk'; useFlag('new-flow', false)"),
        ("a.py", "import openfeature\nclient.get_string_details('new-flow', '')"),
        ("a.go", GO_IMPORT + 'client.BooleanValue(context.Background(), "new-flow", false, e)'),
        ("a.rb", '# OpenFeature\nclient.fetch_boolean_value(flag_key: "new-flow", default: 1)'),
        ("A.java", 'import dev.openfeature.sdk;\nclient.getBooleanValue("new-flow", false)'),
    ],
)
def test_key_is_found_in_calls_of_sdks(file: str, text: str) -> None:
    line = text[: text.index("new-flow")].count("\n") + 1
    assert find_references(file, text) == [CodeReference(file=file, line=line, key="new-flow")]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.ts", "posthog.isFeatureEnabled(name)"),
        ("a.ts", "posthog.isFeatureEnabled(`new-${name}`)"),
        ("a.py", 'posthog.feature_enabled(f"new-{name}")'),
        ("a.ts", "posthog.capture('new-flow')"),
        ("a.ts", "posthog.isFeatureEnabled('not a key!')"),
        ("a.py", "config.get_string_value('new-flow', '')"),
        ("a.ts", "thisFeatureEnabled('new-flow')"),
    ],
)
def test_other_texts_are_left_alone(file: str, text: str) -> None:
    assert find_references(file, text) == []


def test_key_counts_once_per_line() -> None:
    text = "isFeatureEnabled('a') || isFeatureEnabled('a') || isFeatureEnabled('b')\n" * 2
    found = [(each.line, each.key) for each in find_references("a.js", text)]
    assert found == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
