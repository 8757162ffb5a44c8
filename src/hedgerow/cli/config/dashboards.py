"""`hedgerow dashboards export` and `apply`: insights and dashboards as a YAML file."""

from typing import Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import (
    CheckOption,
    DocumentJsonOption,
    DocumentKind,
    FileArgument,
    OutputOption,
    Place,
    PlanReview,
    apply_document,
    export_document,
)
from hedgerow.cli.options import (
    DataOption,
    JsonOption,
    KeyOption,
    ProjectOption,
    ServerOption,
    YesOption,
)

DASHBOARDS = DocumentKind(
    name="dashboards",
    scope="dashboard",
    open=lambda settings: commands.dashboards.open_dashboards(settings),
)


def export_dashboards(
    project: ProjectOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: DocumentJsonOption = False,
) -> None:
    """Write the insights and dashboards of a project as YAML.

    The file has all dashboards, and the insights that are saved or on a dashboard. Queries name
    cohorts and actions by the ids of this project.
    """

    place = Place(project=project, data=data, server=server, key=key)
    export_document(DASHBOARDS, place, output, as_json=as_json)


def apply_dashboards(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete insights and dashboards that are not in the file."),
    ] = False,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's insights and dashboards match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. An insight is
    identified by its short id, a dashboard by its name. A field that the file leaves out gets its
    default, and the tiles of a dashboard are those of the file. An insight or a dashboard that the
    file leaves out is kept, unless you use `--prune`.
    """
    place = Place(project=project, data=data, server=server, key=key)
    review = PlanReview(yes=yes, check=check, as_json=as_json)
    apply_document(DASHBOARDS, file, place, review, prune=prune)
