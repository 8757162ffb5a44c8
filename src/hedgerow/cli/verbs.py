"""The verbs by name. A verb's file is loaded when the verb is used, so that each starts as fast as
what it needs itself, and the first page of the help needs none of them.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer.core import MarkupMode, TyperCommand, TyperGroup
from typer.main import get_group

MARKUP: MarkupMode = "markdown"

# Each is the file and what stands in it under the same name: a function or a group of them.
VERBS: Mapping[str, str] = {
    "serve": "Start the service. Makes everything it needs on the first start.",
    "worker": "Work on accepted events and other chores, and answer no requests.",
    "init": "Create the database, a project and its first keys, and print them.",
    "components": "Show the components that pipeline records can use, built in or from packages.",
    "settings": "Show every setting, its value, where that came from and what it means.",
    "migrate": "Apply the migration steps that the database lacks.",
    "backup": "Copy everything in the data folder to another, also while the service runs.",
    "restore": "Make an installation of what `hedgerow backup` saved.",
    "doctor": "Check storage, permissions, engine versions and the clock.",
    "keys": "Personal keys: create, list, revoke, roll.",
    "projects": "Projects: create, list. Their secret keys: secret.",
    "pipelines": "Pipeline records as a file: export, apply. Their secrets: reseal.",
    "import": "Bring events from files, or everything from PostHog, or flags from elsewhere.",
    "query": "Ask the running service something about events, persons and groups, in HogQL.",
    "events": "Events: tail, export, delete; those set aside: aside, retry, discard.",
    "flags": "Flags: why somebody gets what (evaluate), and as a file (export, apply).",
    "experiments": "Experiments: list, results.",
}
# Of verbs whose name Python keeps for itself.
FILES: Mapping[str, str] = {"import": "import_verbs"}


class Verbs(TyperGroup):
    """Every verb by its name and one line, and the whole of the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, summary in VERBS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, TyperCommand | TyperGroup | None, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name else None, rest


def loaded(name: str) -> TyperCommand | TyperGroup:
    """The command of a verb, with everything that stands under it."""
    file = FILES.get(name, name)
    with _nothing_collected():
        verb = getattr(import_module(f"hedgerow.cli.{file}"), file)
    alone = typer.Typer(rich_markup_mode=MARKUP)
    if isinstance(verb, typer.Typer):
        alone.add_typer(verb, name=name, no_args_is_help=True, help=VERBS[name])
    else:
        alone.command(name)(verb)
    command = get_group(alone).commands[name]
    assert isinstance(command, TyperCommand | TyperGroup)
    return command


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Loading makes very many objects and drops hardly one: to look through them for garbage again
    and again would be a sixth of the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
