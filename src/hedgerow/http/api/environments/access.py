"""Which environments of a product a caller may read or change."""

from hedgerow.errors import Forbidden, Invalid
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.http.auth.personal_key import check_project_access, check_scope
from hedgerow.http.call import Call
from hedgerow.lib.text import truncate
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.projects.products import Environment, Product

READ_SCOPE = "feature_flag:read"
WRITE_SCOPE = "feature_flag:write"


def list_readable(call: Call, directory: Directory, product: Product) -> list[EnvironmentProject]:
    """Return the environments whose flags the caller may read."""
    found = [(each, directory.get_project(each.project_id)) for each in product.environments]
    return [
        EnvironmentProject(environment=each, project=project)
        for each, project in found
        if project is not None and may_act(call, project, READ_SCOPE)
    ]


def may_act(call: Call, project: Project, scope: str) -> bool:
    caller = call.caller
    return caller.may_see(project.id) and caller.find_lack(scope, project.id) is None


def check_may_act(call: Call, project: Project, scope: str) -> None:
    """Raise Forbidden with the reason if the caller may not act in the project."""
    check_project_access(call.caller, project)
    check_scope(call.caller, scope, project)


def find_environment(
    call: Call, directory: Directory, product: Product, name: str, attr: str
) -> EnvironmentProject:
    """Return the environment with this name or project id. One that the caller may not see does not
    exist for it; one whose flags it may not read raises Forbidden."""
    found = product.find(name)
    project = None if found is None else directory.get_project(found.project_id)
    if found is None or project is None or not call.caller.may_see(project.id):
        visible = [each for each in product.environments if call.caller.may_see(each.project_id)]
        raise Invalid(_describe_missing(name, visible), attr=attr, code="does_not_exist")
    check_may_act(call, project, READ_SCOPE)
    return EnvironmentProject(environment=found, project=project)


def _describe_missing(name: str, visible: list[Environment]) -> str:
    known = ", ".join(each.name for each in visible) or "none"
    return f'There is no environment "{truncate(name)}". Expected one of: {known}.'


def check_not_empty(readable: list[EnvironmentProject]) -> None:
    if not readable:
        raise Forbidden(
            "You may read the flags of no environment of this product. Ask an owner of the "
            "organization for a role."
        )
