"""Explanations of flags on the terminal, line by line."""

from collections.abc import Iterator, Sequence

from hedgerow.cli.files import shown
from hedgerow.cli.tables import show, table
from hedgerow.flags.decide import Asked
from hedgerow.flags.model import Outcome
from hedgerow.flags.told import (
    ConditionTold,
    ExceptionTold,
    Explanation,
    FilterTold,
    PartsTold,
    RolloutTold,
    Source,
    VariantsTold,
)


def show_all(found: Sequence[Explanation]) -> None:
    rows = table("flag", "value", "payload", "reason")
    for each in found:
        outcome = each.outcome
        payload = "" if outcome.payload is None else _payload(outcome)
        rows.add_row(outcome.flag.key, shown(outcome.value), payload, _reason(outcome))
    show(rows)


def explanation_lines(told: Explanation, asked: Asked) -> Iterator[str]:
    outcome = told.outcome
    yield f"{outcome.flag.key} for {shown(asked.distinct_id)}"
    yield f"  value    {shown(outcome.value is not False)}"
    if outcome.variant is not None:
        yield f"  variant  {shown(outcome.variant)}"
    if outcome.payload is not None:
        yield f"  payload  {_payload(outcome)}"
    yield f"  reason   {_reason(outcome)}"
    for needed in told.dependencies:
        yield f"depends on {needed.key}: {needed.problem or _given(needed.value)}"
    for exception in told.exceptions:
        yield from _exception_lines(exception)
    for condition in told.conditions:
        yield from _condition_lines(condition)


def _payload(outcome: Outcome) -> str:
    return outcome.payload if isinstance(outcome.payload, str) else shown(outcome.payload)


def _reason(outcome: Outcome) -> str:
    text = f"{outcome.reason.value}: {outcome.reason.description(outcome.condition_index)}"
    return f"{text} ({outcome.error})" if outcome.error else text


def _given(value: bool | str | None) -> str:
    return f"gives {shown(value)}"


def _exception_lines(told: ExceptionTold) -> Iterator[str]:
    yield f"{told.kind}: {'decides' if told.decides else 'does not decide'}"
    for each in told.filters:
        yield from _filter_lines(each)
    if told.rollout is not None:
        yield _rollout_line(told.rollout, *_HOLDOUT if told.kind == "holdout" else _ROLLOUT)


def _condition_lines(told: ConditionTold) -> Iterator[str]:
    about = f" on {told.group_type}" if told.group_type else ""
    verdict = told.verdict.value
    if not told.is_reached:
        verdict = f"not reached, as it was decided before ({verdict})"
    yield f"condition {told.index + 1}{about}: {verdict}"
    if not told.filters:
        yield "  everybody: it has no filters"
    for each in told.filters:
        yield from _filter_lines(each)
    yield _rollout_line(told.rollout, *_ROLLOUT)
    if told.variants is not None:
        yield _variants_line(told.variants)


def _filter_lines(told: FilterTold | PartsTold, indent: str = "  ") -> Iterator[str]:
    """A filter, or a group of them, with all that is inside."""
    if isinstance(told, PartsTold):
        if len(told.parts) == 1:  # all of one or any of it is the same
            yield from _filter_lines(told.parts[0], indent)
            return
        asked = f"{told.wants} of these" if told.parts else "it asks for nothing"
        parts: Sequence[FilterTold | PartsTold] = told.parts
    else:
        asked = f"not {_filter_text(told)}" if told.negated else _filter_text(told)
        parts = [told.inside] if told.inside else []
    yield f"{indent}{_MARKS[told.holds]}  {asked}"
    for part in parts:
        yield from _filter_lines(part, f"{indent}     ")


_MARKS = {True: "yes", False: "no ", None: "?  "}


def _filter_text(told: FilterTold) -> str:
    match told.kind:
        case "cohort":
            found = "is in it" if told.found else "is not in it"
            above = ", as told above" if told.is_told_before else ""
            return f"cohort {shown(told.key)} {told.operator}: {found}{above}"
        case "flag":
            return f"flag {told.key} is to give {shown(told.wanted)}: {_given(told.found)}"
    wanted = "" if told.operator in ("is_set", "is_not_set") else f" {shown(told.wanted)}"
    asked = f"{told.about} {told.key} {told.operator}{wanted}"
    if told.source is Source.MISSING:
        return f"{asked}: missing"
    return f"{asked}: {shown(told.found)} ({told.source.value})"


_ROLLOUT, _HOLDOUT = ("rollout", "in"), ("holdout", "held out")


def _rollout_line(told: RolloutTold, name: str, word: str) -> str:
    share = f"{name} of {told.percentage:g} %"
    if told.place is None:
        return f"  {share}: no {told.counted_by} to count by"
    verdict = word if told.is_in else f"not {word}"
    return (
        f"  {share}: {told.counted_by} {shown(told.identifier)} is at {told.place:.4f} %, {verdict}"
    )


def _variants_line(told: VariantsTold) -> str:
    if told.forced is not None:
        return f"  variant {told.forced}: this condition gives it to all of its own"
    ranges = ", ".join(f"{each.key} {each.start:g}-{each.end:g} %" for each in told.ranges)
    if told.place is None:
        return f"  variants {ranges}"
    return f"  variants {ranges}: {told.place:.4f} % is {told.drawn or 'beyond them'}"
