"""JSON schemas of events: which ones are accepted, and how properties are checked against them.

A schema may come from anyone with a key, so its cost is bounded before it is used: its size, its
depth, and the number of its parts with all references followed. Recursion and references to other
documents are refused. Regular expressions run in linear time.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.lib.optional_packages import LazyPackage
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.projects.validation import check_storable

MAX_SCHEMA_BYTES = 32 << 10
MAX_SCHEMA_DEPTH = 32
MAX_SCHEMA_PARTS = 2000
MAX_PATTERNS = 100
# The size of a compiled pattern.
MAX_PATTERN_BYTES = 256 << 10
MAX_DETAIL_CHARS = 300
MAX_CACHED_SCHEMAS = 100
ATTR = "schema"

# Loaded with the first schema: it needs 6 MB.
jsonschema_rs = LazyPackage("jsonschema_rs")

DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
}
# Keywords whose value is a schema, a list of schemas, or an object of schemas.
_SCHEMA = frozenset(
    (
        *("additionalProperties", "additionalItems", "contains", "else", "if", "items", "not"),
        *("propertyNames", "then"),
    )
)
_LIST = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_MAP = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
_PLAIN = frozenset(
    (
        *("$comment", "$ref", "$schema", "const", "default", "dependentRequired", "deprecated"),
        *("description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format"),
        *("maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains"),
        *("minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern"),
        *("readOnly", "required", "title", "type", "uniqueItems", "writeOnly"),
    )
)
_KNOWN = _SCHEMA | _LIST | _MAP | _PLAIN
# Their schemas apply only where a reference leads to them.
_DEFINITIONS = frozenset(("$defs", "definitions"))


def check_schema(schema: Any) -> None:
    """Raise Invalid, with the path of the fault, for a schema that cannot be used."""
    if schema is None:
        return
    if not isinstance(schema, dict):
        raise Invalid("Expected a JSON schema: an object.", attr=ATTR)
    _check_depth(schema)
    check_storable(schema, ATTR)
    encoded = jsonio.encode(schema)
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise Invalid(
            f"A schema has at most {MAX_SCHEMA_BYTES:,} bytes. This one has {len(encoded):,}.",
            attr=ATTR,
            code="max_length",
        )
    _SchemaCheck(schema).check()
    try:
        _compile(encoded.decode())
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise _describe_fault(error) from None


def find_violation(schema_text: str, properties: Mapping[str, Any]) -> str | None:
    """Return how the properties break the schema, None if they do not. Properties that begin with
    `$` count only if the schema names them: SDKs add them to every event."""
    validator, named = _compile(schema_text)
    checked = {
        name: value for name, value in properties.items() if name[:1] != "$" or name in named
    }
    error = next(iter(validator.iter_errors(checked)), None)
    if error is None:
        return None
    path = ".".join(map(str, error.instance_path))
    text = f"{path}: {error.message}" if path else error.message
    return replace_unstorable_characters(text[:MAX_DETAIL_CHARS])


def find_violations(schema_text: str, encoded: Sequence[bytes]) -> list[str | None]:
    """The same for the encoded properties of many events. Runs in a worker process."""
    return [find_violation(schema_text, jsonio.parse(each)) for each in encoded]


@lru_cache(MAX_CACHED_SCHEMAS)
def _compile(schema_text: str) -> tuple[Any, frozenset[str]]:
    schema = jsonio.parse(schema_text.encode())
    validator = jsonschema_rs.validator_for(
        schema,
        validate_formats=True,
        offline=True,
        pattern_options=jsonschema_rs.RegexOptions(
            size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES
        ),
    )
    named = {*schema.get("properties", {}), *schema.get("required", ())}
    return validator, frozenset(named)


def _describe_fault(error: Exception) -> Invalid:
    path = ".".join(["schema", *map(str, getattr(error, "instance_path", ()))])
    message = getattr(error, "message", None) or str(error).partition("\n")[0]
    detail = f"{path}: {message[:MAX_DETAIL_CHARS]}."
    if "regex" in message:
        detail += " Look-around and back references are not supported."
    return Invalid(replace_unstorable_characters(detail), attr=ATTR)


def _check_depth(schema: Any) -> None:
    level = [schema]
    for _ in range(MAX_SCHEMA_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise Invalid(f"A schema has at most {MAX_SCHEMA_DEPTH} levels.", attr=ATTR, code="max_length")


class _SchemaCheck:
    """Checks the keywords, follows references, and counts the parts that apply to an event."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._counts: dict[str, int] = {}
        self._open: set[str] = set()
        self._pattern_count = 0

    def check(self) -> None:
        if self._count(self._root, "schema") > MAX_SCHEMA_PARTS:
            raise Invalid(
                f"A schema has at most {MAX_SCHEMA_PARTS:,} parts, with all `$ref` followed.",
                attr=ATTR,
                code="max_length",
            )
        if self._pattern_count > MAX_PATTERNS:
            detail = f"A schema has at most {MAX_PATTERNS} regular expressions."
            raise Invalid(detail, attr=ATTR, code="max_length")

    def _count(self, node: Any, place: str) -> int:
        if isinstance(node, bool):
            return 1
        if not isinstance(node, dict):
            raise Invalid(f"{place}: Expected a schema: an object or a boolean.", attr=ATTR)
        self._check_keywords(node, place)
        self._pattern_count += "pattern" in node
        if isinstance(patterns := node.get("patternProperties"), dict):
            self._pattern_count += len(patterns)
        total = 1
        for name, value in node.items():
            inner = f"{place}.{name}"
            if name == "$ref":
                total += self._count_reference(value, inner)
            elif name in _MAP and isinstance(value, dict):
                counts = [self._count(each, f"{inner}.{key}") for key, each in value.items()]
                total += 0 if name in _DEFINITIONS else sum(counts)
            elif name in _LIST and isinstance(value, list):
                total += sum(
                    self._count(each, f"{inner}[{number}]") for number, each in enumerate(value)
                )
            elif name in _SCHEMA:
                total += self._count(value, inner)
        return total

    def _check_keywords(self, node: Mapping[str, Any], place: str) -> None:
        for name in node:
            if name not in _KNOWN and not name.startswith("x-"):
                raise Invalid(
                    f"{place}: The keyword `{name[:50]}` is not supported. Names of your own "
                    "begin with `x-`.",
                    attr=ATTR,
                    code="unknown_field",
                )
        draft = node.get("$schema")
        if draft is not None and str(draft).removesuffix("#") not in DRAFTS:
            expected = ", ".join(sorted(DRAFTS))
            raise Invalid(f"{place}.$schema: Expected one of: {expected}.", attr=ATTR)

    def _count_reference(self, target: Any, place: str) -> int:
        if not isinstance(target, str) or not target.startswith("#"):
            raise Invalid(
                f"{place}: Expected a reference within the schema, such as #/$defs/price.",
                attr=ATTR,
            )
        if target in self._open:
            raise Invalid(f"{place}: The reference leads back to itself.", attr=ATTR)
        if target not in self._counts:
            self._open.add(target)
            self._counts[target] = self._count(self._find(target, place), place)
            self._open.discard(target)
        return self._counts[target]

    def _find(self, target: str, place: str) -> Any:
        node: Any = self._root
        for part in target[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                node = node[name]
            else:
                raise Invalid(f"{place}: `{target[:100]}` does not exist.", attr=ATTR)
        return node
