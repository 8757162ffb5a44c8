"""`hedgerow definitions export` and `apply`: the definitions of a project as a YAML file."""

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

DEFINITIONS = DocumentKind(
    name="definitions",
    scope="event_definition",
    open=lambda settings: commands.definitions.open_definitions(settings),
)


def export_definitions(
    project: ProjectOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: DocumentJsonOption = False,
) -> None:
    """Write the definitions of a project as YAML.

    The file has the events and properties that people have described, with the schemas of events.
    Names that were only seen are not in it.
    """
    place = Place(project=project, data=data, server=server, key=key)
    export_document(DEFINITIONS, place, output, as_json=as_json)


def apply_definitions(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's definitions match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. A field that the file
    leaves out gets its default. A definition that the file leaves out is kept.
    """
    place = Place(project=project, data=data, server=server, key=key)
    review = PlanReview(yes=yes, check=check, as_json=as_json)
    apply_document(DEFINITIONS, file, place, review)
