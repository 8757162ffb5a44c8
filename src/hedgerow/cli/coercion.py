"""Convert common option values without pydantic.

Typer converts every value, even a missing one, with a pydantic TypeAdapter, and importing pydantic
takes 0.11 s of CPU. Text, paths, numbers and missing values need none of it. Everything else, and
every invalid value, takes Typer's way. It relies on `get_runtime_param` and `type_descriptor` of
typer 0.29; a test fails when a command loads pydantic.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from typer.core import TyperCommand


class PlainCoercion:
    """Converts the value of one parameter. `load_typer_coercion` returns Typer's converter."""

    def __init__(self, load_typer_coercion: Any) -> None:
        self._load_typer_coercion = load_typer_coercion

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        annotation = param.type_descriptor.annotation
        is_multiple = param.multiple or param.nargs == -1
        if value is None:
            return () if is_multiple else None
        if type(value) is annotation:  # text, or the default of another type
            return value
        if isinstance(value, str) and isinstance(annotation, type):
            if annotation is Path:
                return Path(value)
            if annotation is int and value.isdecimal() and not param.type_descriptor.is_ranged:
                return int(value)
            if issubclass(annotation, StrEnum) and value in list(annotation):
                return annotation(value)
        if annotation == list[str] and all(type(each) is str for each in value):
            return list(value)
        if annotation == list[Path] and all(type(each) is str for each in value):
            return [Path(each) for each in value]
        return self._load_typer_coercion().coerce(value, param=param, ctx=ctx)


def use_plain_coercion(parameters: Iterable[Any]) -> None:
    """Let parameters try the plain conversion first."""
    for parameter in parameters:
        load = getattr(parameter, "get_runtime_param", None)
        if load is not None and "get_runtime_param" not in vars(parameter):
            coercion = PlainCoercion(load)
            parameter.get_runtime_param = partial(_identity, coercion)


def _identity(coercion: PlainCoercion) -> PlainCoercion:
    return coercion


class PlainCommand(TyperCommand):
    """A command whose parameters use the plain conversion."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        use_plain_coercion(self.get_params(ctx))
        return super().parse_args(ctx, args)
