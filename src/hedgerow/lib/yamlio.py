"""YAML files: plain values, and `!env NAME` for values from the environment.

Stricter than YAML: numbers, true and false are written as in JSON, and everything else is text (so
2026-01-02, 1:30, 017 and yes are text). Duplicate keys, cycles and non-JSON values are errors.
"""

import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import yaml

MAX_CHARS = 10_000_000
MAX_DEPTH = 100
MAX_VALUES = 200_000
INT64 = 2**63

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
# Characters that only YAML treats as line breaks.
_ODD_BREAK = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class FromEnv:
    """A reference to an environment variable."""

    name: str


class YamlError(ValueError):
    """The text is not valid YAML of this kind. The message says where and why."""


def decode(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise YamlError(f"more than {MAX_CHARS:,} characters")
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, with our rules added
        _check_plain(value, MAX_DEPTH, count(1))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except RecursionError:
        raise YamlError("nested too deeply") from None
    except YamlError:
        raise
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
        # Raised by the loader for a value that does not match its tag.
        raise YamlError("a value does not match its tag") from None
    return value


def encode(value: Any) -> str:
    """Encode with keys in their order and multi-line text as blocks."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Loader(yaml.SafeLoader):
    pass


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_TAG = "tag:yaml.org,2002:"
_OWN_RULES = {
    f"{_TAG}int": (r"-?(0|[1-9][0-9]{0,999})", "-0123456789"),
    f"{_TAG}float": (r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", "-0123456789"),
    f"{_TAG}bool": (r"true|false|True|False|TRUE|FALSE", "tTfF"),
}
_Loader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] not in (*_OWN_RULES, f"{_TAG}timestamp")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, (_pattern, _first) in _OWN_RULES.items():
    for _either in (_Loader, _Dumper):  # text that looks like a number is written in quotes
        _either.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    own = sum(key.tag != f"{_TAG}merge" for key, _ in node.value)
    loader.flatten_mapping(node)  # puts merged keys (`<<`) before the mapping's own keys
    result: dict[Any, Any] = {}
    merged = len(node.value) - own
    own_keys: set[str] = set()
    for number, (key_node, value_node) in enumerate(node.value):
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            shown = key if isinstance(key, Hashable) else "a list"
            raise yaml.constructor.ConstructorError(
                problem=f"keys must be strings: put {shown!r} in quotes",
                problem_mark=key_node.start_mark,
            )
        if key in own_keys:
            raise yaml.constructor.ConstructorError(
                problem=f"duplicate key {key!r}", problem_mark=key_node.start_mark
            )
        if number >= merged:
            own_keys.add(key)
        result[key] = loader.construct_object(value_node, deep=True)
    return result


def _from_env(loader: _Loader, node: yaml.Node) -> FromEnv:
    name = loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else ""
    if not _VARIABLE.fullmatch(name):
        raise yaml.constructor.ConstructorError(
            problem="!env must be followed by the name of an environment variable",
            problem_mark=node.start_mark,
        )
    return FromEnv(name)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _ODD_BREAK.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Loader.add_constructor(f"{_TAG}map", _mapping)
_Loader.add_constructor("!env", _from_env)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(
    FromEnv, lambda dumper, value: dumper.represent_scalar("!env", value.name, style="")
)


def _check_plain(value: Any, depth: int, numbers: Iterator[int]) -> None:
    if depth == 0:
        raise YamlError(f"nested more than {MAX_DEPTH} deep")
    if next(numbers) > MAX_VALUES:  # nested aliases expand to many values
        raise YamlError(f"more than {MAX_VALUES:,} values")
    match value:
        case dict():
            for inner in value.values():
                _check_plain(inner, depth - 1, numbers)
        case list():
            for inner in value:
                _check_plain(inner, depth - 1, numbers)
        case float() if not math.isfinite(value):
            raise YamlError(f"{value} is not a finite number")
        case int() if not -INT64 <= value < INT64:
            raise YamlError(f"{str(value)[:30]} is too large for an integer: put it in quotes")
        case None | bool() | int() | float() | str() | FromEnv():
            pass
        case _:
            raise YamlError(f"a {type(value).__name__} is not a plain value")
