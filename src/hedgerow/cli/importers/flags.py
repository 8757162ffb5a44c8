"""`hedgerow import unleash` and `flagsmith`: create the flags of an export."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.config.as_code import report_invalid
from hedgerow.cli.importers.plan import (
    ConfirmOption,
    ImportOptions,
    OverwriteOption,
    TargetProjectOption,
    build_plan,
    execute_plan,
    open_target,
)
from hedgerow.cli.importers.target import ImportTarget
from hedgerow.cli.options import DryRunOption, JsonOption, KeyOption, ServerOption
from hedgerow.errors import OperatorError
from hedgerow.importers.flagsmith import convert_flagsmith
from hedgerow.importers.model import ConversionResult, ResourceKind
from hedgerow.importers.unleash import convert_unleash
from hedgerow.lib import jsonio

ExportArgument = Annotated[Path, typer.Argument(help="The export, a JSON file.")]


def import_unleash(  # noqa: PLR0913 - the options of a command
    file: ExportArgument,
    environment: Annotated[
        str | None,
        typer.Option(help="Environment of the strategies. Required if there are several."),
    ] = None,
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    overwrite: OverwriteOption = False,
    target_project: TargetProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create the flags of an Unleash export.

    Shows a plan first, with everything that has no equivalent here. Percentages stay the same, but
    Hedgerow buckets people differently: a different set of people is in. Needs a personal API key
    with the scope *.

    Example: hedgerow import unleash export.json --environment production
    """
    with report_invalid(file):
        source = convert_unleash(_read_export(file), environment)
    options = ImportOptions(yes=yes, dry_run=dry_run, overwrite=overwrite, as_json=as_json)
    target = open_target(server, key, target_project, [ResourceKind.FLAG])
    _import_flags(file, source, target, options)


def import_flagsmith(  # noqa: PLR0913 - the options of a command
    file: ExportArgument,
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    overwrite: OverwriteOption = False,
    target_project: TargetProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create the flags of a Flagsmith export.

    The file is an export of features or an environment document. Shows a plan first, with
    everything that has no equivalent here. Percentages stay the same, but Hedgerow buckets people
    differently: a different set of people is in. Needs a personal API key with the scope *.

    Example: hedgerow import flagsmith features.json
    """
    with report_invalid(file):
        source = convert_flagsmith(_read_export(file))
    options = ImportOptions(yes=yes, dry_run=dry_run, overwrite=overwrite, as_json=as_json)
    target = open_target(server, key, target_project, [ResourceKind.FLAG])
    _import_flags(file, source, target, options)


def _read_export(file: Path) -> Any:
    try:
        return jsonio.parse(file.read_bytes())
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror or error}.") from None
    except jsonio.JsonError as error:
        raise OperatorError(f"{file} cannot be read: {error}.") from None


def _import_flags(
    file: Path, source: ConversionResult, target: ImportTarget, options: ImportOptions
) -> None:
    target.load()
    plan = build_plan(source, target, {}, overwrite=options.overwrite)
    if options.approve(plan, f"From {file} into {target.name}:"):
        _, rejected = execute_plan(plan, target, {})
        options.report(plan, rejected)
