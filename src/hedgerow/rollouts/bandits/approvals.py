"""The approval of a bandit: that of its start holds for all its reallocations, as long as it does
what was approved with a flag that is otherwise the one that was seen."""

from collections.abc import Mapping
from typing import Any

from hedgerow.flags.approvals.model import (
    ApprovalRequired,
    ChangeRequest,
    ProposedChange,
    RequestState,
    ResourceType,
)
from hedgerow.flags.approvals.resources import PreparedEdit
from hedgerow.flags.edits import public_value
from hedgerow.flags.model import Flag
from hedgerow.flags.validate import get_variants
from hedgerow.lib import jsonio
from hedgerow.rollouts.bandits.model import Bandit
from hedgerow.rollouts.bandits.transitions import describe_goal

ACTION_KEY = "bandit.start"


def is_approved(request: ChangeRequest, bandit: Bandit, flag: Flag) -> bool:
    """Whether a request has approved this bandit, for a flag that differs by its split only."""
    return (
        request.state is RequestState.APPROVED
        and request.resource_type is ResourceType.BANDIT
        and request.resource_id == str(bandit.id)
        and jsonio.is_equal(dict(request.fields), describe_goal(bandit))
        and jsonio.is_equal(dict(request.original), _describe_flag(flag))
    )


def propose_start(bandit: Bandit, flag: Flag, refused: ApprovalRequired) -> ProposedChange:
    fields = describe_goal(bandit)
    edit = PreparedEdit(
        name=flag.key,
        action_key=ACTION_KEY,
        fields=fields,
        original=_describe_flag(flag),
        version=flag.version,
        required=refused.required,
    )
    return ProposedChange(
        resource_type=ResourceType.BANDIT, resource_id=str(bandit.id), fields=fields, seen=edit
    )


def _describe_flag(flag: Flag) -> dict[str, Any]:
    """Return the flag without its split."""
    filters: Mapping[str, Any] = public_value(flag, "filters")
    variants = [{**each, "rollout_percentage": None} for each in get_variants(filters)]
    multivariate = {**(filters.get("multivariate") or {}), "variants": variants}
    return {"key": flag.key, "filters": {**filters, "multivariate": multivariate}}
