"""`hedgerow import unleash` and `hedgerow import flagsmith`: the flags of their exports."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.files import refusing
from hedgerow.cli.import_posthog import (
    DryRunOption,
    IntoOption,
    OverwriteOption,
    TargetKeyOption,
    YesOption,
    target_of,
)
from hedgerow.cli.moving_plan import carried_out, is_wished, planned, show, tell_refused
from hedgerow.cli.moving_target import Target
from hedgerow.cli.running import ServerOption
from hedgerow.errors import Unready
from hedgerow.importers import flagsmith, unleash
from hedgerow.importers.model import Kind, Reading
from hedgerow.lib import jsonio

ExportArgument = Annotated[Path, typer.Argument(help="The export, a JSON file.")]


def import_unleash(  # noqa: PLR0913 - the options of a verb
    file: ExportArgument,
    environment: Annotated[
        str | None,
        typer.Option(help="Which environment's strategies; not needed if there is only one."),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    overwrite: OverwriteOption = False,
    into: IntoOption = None,
    server: ServerOption = None,
    key: TargetKeyOption = None,
) -> None:
    """Make the flags of an Unleash export.

    It shows a plan first, with what cannot be said here, by name. Percentages hold, but people are
    counted otherwise: who is in and who is out changes.

    Example: hedgerow import unleash export.json --environment production
    """
    with refusing(file):
        reading = unleash.understood(_read(file), environment)
    _made(file, reading, target_of(server, key, into, [Kind.FLAG]), yes, dry_run, overwrite)


def import_flagsmith(  # noqa: PLR0913 - the options of a verb
    file: ExportArgument,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    overwrite: OverwriteOption = False,
    into: IntoOption = None,
    server: ServerOption = None,
    key: TargetKeyOption = None,
) -> None:
    """Make the flags of a Flagsmith export: of features, or the document of an environment.

    It shows a plan first, with what cannot be said here, by name. Percentages hold, but people are
    counted otherwise: who is in and who is out changes.

    Example: hedgerow import flagsmith features.json
    """
    with refusing(file):
        reading = flagsmith.understood(_read(file))
    _made(file, reading, target_of(server, key, into, [Kind.FLAG]), yes, dry_run, overwrite)


def _read(file: Path) -> Any:
    try:
        return jsonio.parse(file.read_bytes())
    except OSError as error:
        raise Unready(f"{file} cannot be read: {error.strerror or error}.") from None
    except jsonio.JsonError as error:
        raise Unready(f"{file} cannot be read: {error}.") from None


def _made(
    file: Path, reading: Reading, target: Target, yes: bool, dry_run: bool, overwrite: bool
) -> None:
    target.look()
    plan = planned(reading, target, {}, overwrite=overwrite)
    show(plan, f"From {file} into {target.name}:", [])
    if is_wished(yes=yes, dry_run=dry_run):
        _, refused = carried_out(plan, target, {})
        print("Copied.")
        tell_refused(refused)
