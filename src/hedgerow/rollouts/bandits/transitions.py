"""How a bandit gets from one state to the next, with the change of its flag. Pure.

Each function returns what to store in one transaction, and raises AppError if it is not possible.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.experiments.variants import MAX_VARIANTS
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.model import Operation
from hedgerow.flags.store import FlagWrite
from hedgerow.flags.validate import condition_sets, get_variants, variant_keys
from hedgerow.rollouts.bandits.allocation import split_evenly
from hedgerow.rollouts.bandits.model import (
    MAX_ACTIVE_BANDITS,
    MAX_BANDITS,
    Allocation,
    AllocationKind,
    Bandit,
    BanditState,
)
from hedgerow.rollouts.bandits.store import BanditContext, BanditWrite
from hedgerow.rollouts.guides import GuideKind, Transition, get_live_flag, write_flag

SCOPE = "Bandit"


def start(context: BanditContext, bandit: Bandit, by: Transition) -> BanditWrite:
    """Keep the split of the flag if each variant has the floor, and divide evenly otherwise."""
    KIND.require_state(bandit, "started", BanditState.DRAFT)
    KIND.check_free(context.active, bandit)
    return _begin(context, bandit, replace(bandit, started_at=by.now), AllocationKind.STARTED, by)


def resume(context: BanditContext, bandit: Bandit, by: Transition) -> BanditWrite:
    """Go on. What was learned still counts, unless the flag has other variants now."""
    KIND.require_state(bandit, "resumed", BanditState.PAUSED)
    return _begin(context, bandit, bandit, AllocationKind.RESUMED, by)


def _begin(
    context: BanditContext,
    before: Bandit,
    bandit: Bandit,
    kind: AllocationKind,
    by: Transition,
) -> BanditWrite:
    flag = get_live_flag(context.find_flag(bandit.flag_id))
    check_suitable(bandit, flag)
    if other := context.find_other_user(flag.id):
        raise Conflict(f"{other} uses the variants of this flag. End it first.")
    split, write = read_split(flag), None
    even = dict(zip(split, split_evenly(len(split)), strict=True))
    if min(split.values()) < bandit.floor_percent:
        write = write_split(context, bandit, flag, even, by)
        split = read_split(write.flag)
    is_new = bandit.learning_since is None or list(bandit.split) != list(split)
    after = replace(
        bandit,
        state=BanditState.RUNNING,
        split=split,
        learning_since=by.now if is_new else bandit.learning_since,
        variants_found=() if is_new else bandit.variants_found,
        # At the start nothing is known.
        next_check_at=by.now if kind is AllocationKind.RESUMED else by.now + bandit.interval,
        author=by.actor,
        author_uuid=by.user_uuid,
    )
    shown = ", ".join(f"{key} {share:g} %" for key, share in split.items())
    by = replace(by, why=f"It begins with {shown}. {by.why}".strip())
    return replace(
        _finish(before, after, kind, by),
        flag=write,
        beginning=(flag, _build_extreme(context, bandit, flag, by)),
    )


def reallocate(context: BanditContext, bandit: Bandit, by: Transition) -> BanditWrite:
    """Give the variants the percentages that were found."""
    flag = context.find_flag(bandit.flag_id)
    check_unchanged(bandit, flag)
    assert flag is not None
    split = {each["key"]: each["rollout_percentage"] for each in by.found}
    write = write_split(context, bandit, flag, split, by)
    after = replace(
        bandit,
        split=read_split(write.flag),
        last_checked_at=by.now,
        next_check_at=by.now + bandit.interval,
    )
    return replace(_finish(bandit, after, AllocationKind.REALLOCATED, by), flag=write)


def learn_again(context: BanditContext, bandit: Bandit, by: Transition) -> BanditWrite:
    """Learn from now on: the beginning is in the future, because the clock was set back."""
    check_unchanged(bandit, context.find_flag(bandit.flag_id))
    after = replace(
        bandit,
        learning_since=by.now,
        variants_found=(),
        last_checked_at=by.now,
        next_check_at=by.now + bandit.interval,
    )
    return _finish(bandit, after, AllocationKind.RESUMED, by)


def pause(context: BanditContext, bandit: Bandit, by: Transition) -> BanditWrite:
    """Stay with the split."""
    KIND.require_state(bandit, "paused", BanditState.RUNNING)
    after = replace(bandit, state=BanditState.PAUSED, next_check_at=None)
    return _finish(bandit, after, AllocationKind.PAUSED, by)


def stop(context: BanditContext, bandit: Bandit, by: Transition) -> BanditWrite:
    """End the bandit and leave the flag as it is."""
    KIND.require_state(bandit, "stopped", BanditState.RUNNING, BanditState.PAUSED)
    after = replace(bandit, state=BanditState.STOPPED, ended_at=by.now, next_check_at=None)
    return _finish(bandit, after, AllocationKind.STOPPED, by)


def check_suitable(bandit: Bandit, flag: Flag) -> None:
    """Raise Invalid if a bandit cannot move the variants of a flag."""
    keys = variant_keys(flag.filters)
    if flag.is_remote_configuration or not 2 <= len(keys) <= MAX_VARIANTS:
        detail = f"A bandit needs a flag with 2 to {MAX_VARIANTS} variants."
        raise Invalid(detail, attr="flag")
    if bandit.floor_percent * len(keys) > 100:
        detail = f"{len(keys)} variants with {bandit.floor_percent} % each are more than 100 %."
        raise Invalid(detail, attr="floor_percent")
    if not flag.active:
        raise Invalid("The flag is disabled. Enable it first.", attr="flag")
    for number, condition in enumerate(condition_sets(flag.filters)):
        if condition.get("variant"):
            raise Invalid(
                f"Condition {number} of the flag gives all its people one variant, so that they "
                "are not comparable with others. Remove the variant of the condition.",
                attr="flag",
            )


def check_unchanged(bandit: Bandit, flag: Flag | None) -> None:
    """Raise Conflict if the flag is not as the bandit has left it."""
    flag = get_live_flag(flag)
    try:
        check_suitable(bandit, flag)
    except Invalid as error:
        raise Conflict(f"The flag was changed: {error.detail}") from None
    split = read_split(flag)
    if list(split.items()) != list(bandit.split.items()):
        shown = ", ".join(f"{key} {share:g} %" for key, share in split.items())
        raise Conflict(f"The flag was changed: its split is {shown}.")


def read_split(flag: Flag) -> dict[str, float]:
    return {
        str(each.get("key")): float(each.get("rollout_percentage") or 0)
        for each in get_variants(flag.filters)
    }


def write_split(
    context: BanditContext,
    bandit: Bandit,
    flag: Flag,
    split: Mapping[str, float],
    by: Transition,
) -> FlagWrite:
    variants = [
        {**each, "rollout_percentage": split[str(each.get("key"))]}
        for each in get_variants(flag.filters)
    ]
    payload = {"operation": Operation.UPDATE_VARIANTS.value, "value": {"variants": variants}}
    shown = {"operation": payload["operation"], "value": {"split": dict(split)}}
    trigger = {"job_type": "bandit", "job_id": str(bandit.id), "payload": shown}
    return write_flag(context.definitions, flag, payload, trigger, by)


def _build_extreme(context: BanditContext, bandit: Bandit, flag: Flag, by: Transition) -> Flag:
    """Return the flag with another split. It stands for all splits of the bandit."""
    present, keys = read_split(flag), variant_keys(flag.filters)
    split = dict.fromkeys(keys, 0) | {keys[0]: 100}
    if present == split:
        split = dict.fromkeys(keys, 0) | {keys[1]: 100}
    return write_split(context, bandit, flag, split, by).flag


def _finish(before: Bandit, after: Bandit, kind: AllocationKind, by: Transition) -> BanditWrite:
    after = replace(
        after,
        reason=by.why,
        variants_found=by.found or after.variants_found,
        updated_at=by.now,
        version=before.version + 1,
    )
    allocation = Allocation(kind=kind, created_at=by.now, why=by.why, variants=by.found)
    entry = KIND.build_entry(kind.value, before, after, by.actor)
    return BanditWrite(bandit=after, build_entry=lambda _: entry, allocation=allocation)


def describe_goal(bandit: Bandit) -> dict[str, Any]:
    """Return what a bandit does, as it is approved."""
    return {
        "flag": bandit.flag_id,
        "metric": dict(bandit.metric),
        "exposure_criteria": dict(bandit.exposure_criteria),
        "floor_percent": bandit.floor_percent,
        "interval_seconds": int(bandit.interval.total_seconds()),
        "min_persons": bandit.min_persons,
    }


def audit(bandit: Bandit) -> dict[str, Any]:
    """Return the fields that the activity log shows."""
    return {
        "name": bandit.name,
        **describe_goal(bandit),
        "state": bandit.state.value,
        "split": dict(bandit.split),
    }


KIND = GuideKind(
    word="bandit",
    words="bandits",
    full_words="bandits",
    scope=SCOPE,
    max_kept=MAX_BANDITS,
    max_active=MAX_ACTIVE_BANDITS,
    how_to_end="Stop it first.",
    audit=audit,
)
