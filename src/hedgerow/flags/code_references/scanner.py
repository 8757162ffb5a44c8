"""Finds the keys of flags in source code, by the calls of SDKs. Pure.

A key is found where a call of a PostHog SDK or of OpenFeature has it as a literal. Comments count
like code. A key in a variable is not found.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

KEY_MAX_CHARS = 400
# Files of languages that have SDKs, and of templates with scripts in them.
SUFFIXES = frozenset(
    {
        *(".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte"),
        *(".astro", ".html", ".htm", ".erb", ".ejs", ".hbs", ".liquid", ".twig", ".py", ".pyi"),
        *(".rb", ".rake", ".go", ".php", ".java", ".kt", ".kts", ".scala", ".groovy", ".swift"),
        *(".m", ".mm", ".dart", ".cs", ".fs", ".vb", ".rs", ".ex", ".exs", ".heex"),
    }
)

_KEY = rf"(?P<key>[A-Za-z0-9_-]{{1,{KEY_MAX_CHARS}}})"
# A string without interpolation. Python may write a prefix.
_LITERAL = rf"""[rRbBuU]?(?P<quote>["'`]){_KEY}(?P=quote)"""
# An argument without nested calls, such as `distinctId` or `user.getId()`.
_ARGUMENT = r"""[^,()"'`;{}]{1,100}(?:\([^()"'`]{0,100}\))?"""
# With the types of TypeScript, and its optional calls.
_OPEN = r"(?:\?\.)?(?:<[^()]{0,200}>)?\s{0,20}\(\s{0,200}"

_POSTHOG_METHODS = (
    # JavaScript, PHP, Swift, Kotlin, Dart, Java
    *("isFeatureEnabled", "isFeatureFlagEnabled", "getFeatureFlag", "getFeatureFlagPayload"),
    *("getFeatureFlagResult", "getRemoteConfigPayload", "getFeatureFlagStatus"),
    # React
    *("useFeatureFlagEnabled", "useFeatureFlagPayload", "useFeatureFlagVariantKey"),
    *("useFeatureFlag", "useFeatureFlagResult"),
    # Python, Ruby, Rust
    *("feature_enabled", "is_feature_enabled", "get_feature_flag", "get_feature_flag_payload"),
    *("get_feature_flag_result", "get_remote_config_payload"),
    # Go, C#
    *("IsFeatureEnabled", "GetFeatureFlag", "GetFeatureFlagPayload", "GetRemoteConfigPayload"),
    *("IsFeatureEnabledAsync", "GetFeatureFlagAsync", "GetFeatureFlagPayloadAsync"),
)
_TYPES = "Boolean|String|Number|Integer|Double|Float|Object|Structure"
# Only in files that mention OpenFeature: other libraries have methods of these names.
_OPENFEATURE_METHODS = (
    rf"[gG]et(?:{_TYPES})(?:Value|Details)(?:Async)?",
    r"get_(?:boolean|string|integer|float|object)_(?:value|details)(?:_async)?",
    rf"use(?:Suspense)?(?:{_TYPES})?Flag(?:Value|Details)?",
)


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_ANY = "|".join(_POSTHOG_METHODS)
_POSTHOG = (
    # isFeatureEnabled('key'), feature_enabled(key="key", …)
    _compile(rf"\b(?:{_ANY}){_OPEN}(?:(?:key|flag_key)\s{{0,5}}[=:]\s{{0,5}})?{_LITERAL}"),
    # Go: GetFeatureFlag(posthog.FeatureFlagPayload{Key: "key", …})
    _compile(rf"\bFeatureFlagPayload(?:NoKey)?\s?\{{[^{{}}]{{0,500}}?\bKey:\s{{0,20}}{_LITERAL}"),
    # React: <PostHogFeature flag="key">, flag={'key'}
    _compile(rf"<PostHogFeature\b[^<>]{{0,500}}?\bflag=\{{?\s{{0,20}}{_LITERAL}"),
    # Elixir: PostHog.FeatureFlags.check("key", …)
    _compile(rf"\bFeatureFlags\.(?:check|get)!?\(\s{{0,200}}{_LITERAL}"),
)
# Java on servers: isFeatureEnabled(distinctId, "key")
_JAVA = _compile(
    rf"""\b(?:{_ANY})\(\s{{0,200}}(?:"[^"\n]{{0,400}}"|{_ARGUMENT})\s{{0,20}},\s{{0,200}}{_LITERAL}"""
)
# Ruby: is_feature_enabled 'key', id
_RUBY = _compile(rf"\b(?:{_ANY})[ \t]{{1,5}}{_LITERAL}")
_OPENFEATURE = (
    _compile(rf"\b(?:{'|'.join(_OPENFEATURE_METHODS)}){_OPEN}{_LITERAL}"),
    # Go: BooleanValue(ctx, "key", …)
    _compile(
        rf"\.(?:Boolean|String|Float|Int|Object)(?:Value(?:Details)?)?\(\s{{0,200}}"
        rf"{_ARGUMENT},\s{{0,200}}{_LITERAL}"
    ),
    # Ruby: fetch_boolean_value(flag_key: "key", …)
    _compile(
        r"\bfetch_\w{1,20}_(?:value|details)\(\s{0,200}"
        rf"(?:\w{{1,30}}:[^,()]{{1,100}},\s{{0,20}}){{0,3}}flag_key:\s{{0,20}}{_LITERAL}"
    ),
)
_MENTIONS_OPENFEATURE = re.compile(r"open[-_]?feature", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CodeReference:
    """`line` counts from 1."""

    file: str
    line: int
    key: str


def find_references(file: str, text: str) -> list[CodeReference]:
    """Return the references in a file, each key once per line. `file` is a path with slashes."""
    starts: list[int] = []
    found = set()
    for key, position in _find_keys(file, text):
        if not starts:
            starts = [0, *(each.end() for each in re.finditer("\n", text))]
        found.add(CodeReference(file=file, line=bisect_right(starts, position), key=key))
    return sorted(found)


def _find_keys(file: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield keys with their positions."""
    patterns = list(_POSTHOG)
    taken: set[int] = set()
    if file.endswith(".java"):
        # Here the first argument is a distinct id if there is a second one.
        for match in _JAVA.finditer(text):
            taken.add(match.start())
            yield match["key"], match.start("key")
    if file.endswith((".rb", ".rake", ".erb")):
        patterns.append(_RUBY)
    if _MENTIONS_OPENFEATURE.search(text):
        patterns += _OPENFEATURE
    for pattern in patterns:
        for match in pattern.finditer(text):
            if match.start() not in taken:
                yield match["key"], match.start("key")
