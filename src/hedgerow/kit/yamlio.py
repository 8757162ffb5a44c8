"""YAML as people keep it in files: plain values, and `!env NAME` for what is not theirs to hold.

Stricter than YAML where YAML surprises: no dates (they stay text), no key twice, no loops, no
values that JSON does not have.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

MAX_CHARS = 10_000_000
MAX_DEPTH = 100
INT64 = 2**63


@dataclass(frozen=True, slots=True)
class FromEnv:
    """A value that an environment variable holds."""

    name: str


class BadYaml(ValueError):
    """The text is not such YAML; says where and why."""


def decode(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise BadYaml(f"more than {MAX_CHARS:,} characters")
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, with our rules added
        _check_plain(value, MAX_DEPTH)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadYaml(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise BadYaml(" ".join(str(error).split())) from None
    except RecursionError:
        raise BadYaml("nested too deeply") from None
    return value


def encode(value: Any) -> str:
    """Keys stay in their order; text of several lines is written as such."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Loader(yaml.SafeLoader):
    pass


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


# Dates stay text: JSON has none, and 2026-01-02 is as likely a name as a day.
_Loader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            shown = key if isinstance(key, Hashable) else "a list"
            raise yaml.constructor.ConstructorError(
                problem=f"a key must be text: put {shown!r} in quotes",
                problem_mark=key_node.start_mark,
            )
        if key in result:
            raise yaml.constructor.ConstructorError(
                problem=f"{key!r} stands here twice", problem_mark=key_node.start_mark
            )
        result[key] = loader.construct_object(value_node, deep=True)
    return result


def _from_env(loader: _Loader, node: yaml.Node) -> FromEnv:
    name = loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else ""
    if not name or "=" in name or "\x00" in name:
        raise yaml.constructor.ConstructorError(
            problem="!env wants the name of an environment variable", problem_mark=node.start_mark
        )
    return FromEnv(name)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("!env", _from_env)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(
    FromEnv, lambda dumper, value: dumper.represent_scalar("!env", value.name, style="")
)


def _check_plain(value: Any, depth: int) -> None:
    if depth == 0:
        raise BadYaml(f"nested more than {MAX_DEPTH} deep")
    match value:
        case dict():
            for inner in value.values():
                _check_plain(inner, depth - 1)
        case list():
            for inner in value:
                _check_plain(inner, depth - 1)
        case float() if not math.isfinite(value):
            raise BadYaml(f"{value} is no number that can be stored")
        case int() if not -INT64 <= value < INT64:
            raise BadYaml(f"{str(value)[:30]} is too large for a number: put it in quotes")
        case None | bool() | int() | float() | str() | FromEnv():
            pass
        case _:
            raise BadYaml(f"a {type(value).__name__} is no plain value")
