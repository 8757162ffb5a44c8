"""The SQL of a funnel.

Each event of the first step begins an attempt, and the next step counts from the earliest event
after the step before: that is the furthest that an attempt can get. Window functions find those
events from the last step backwards, in one pass for each step, however many events an actor has.
The time limit of the funnel starts with the attempt. An actor gets as far as its best attempt.

An optional step counts if it comes before the next step of the attempt, and delays nothing.

In an unordered funnel, each event begins an attempt, and the earliest event of each other step
counts. In a strict funnel, all events of an actor are rows, and a step must follow the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Compare, Expr, Select
from hedgerow.hogql.builders import all_of, any_of, call, compare, constant, field
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.templates import build_select
from hedgerow.insights.breakdowns import NULL_LABEL
from hedgerow.insights.date_range import DateRange
from hedgerow.insights.funnels.query import Attribution, FunnelOrder, FunnelsQuery
from hedgerow.insights.groups import build_actor, match_actor
from hedgerow.insights.series import (
    FIRST_TIME,
    Series,
    filter_compiler,
    is_first_of_person,
    match_event,
    match_series,
)

# Later than any event, in microseconds: a step that is never reached.
NEVER = 10**17


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """A funnel in a period. `filters` apply to all steps. `excluded` are the values of the
    breakdown that are not part of Other."""

    query: FunnelsQuery
    period: DateRange
    filters: Expr
    excluded: Sequence[Sequence[str]] = ()

    @property
    def step_count(self) -> int:
        return len(self.query.steps)

    @property
    def splits_actors(self) -> bool:
        """Whether each value of an actor has rows and attempts of its own."""
        if self.query.breakdown is None:
            return False
        is_later = self.query.attribution is Attribution.STEP and self.query.attribution_step > 0
        return is_later or self.query.attribution is Attribution.ALL_EVENTS


def build_attempts(funnel: Funnel, context: QueryContext) -> Select:
    """Build rows of actor, value, at, times, level and ended: when the attempt that begins with the
    event reaches each step, and the furthest that it reaches, from 1. A time is 0 for a step that
    is not reached, and the level is 0 if there is no attempt, or if an excluded event ends it: then
    `ended` is the step that it would have reached next."""
    rows = _attribute(funnel, _build_rows(funnel, context))
    if funnel.query.order is FunnelOrder.UNORDERED:
        return _build_unordered(funnel, rows)
    for step in reversed(range(funnel.step_count)):
        rows = _add_chain(funnel, rows, step)
    return _measure_chains(funnel, rows)


def build_actors(funnel: Funnel, context: QueryContext) -> Select:
    """Build a row for each actor who enters the funnel: actor, value, level and times of the best
    attempt: the first to get that far, and of those the last to begin, without an order the first,
    as in PostHog. An actor whose furthest attempt is ended by an excluded event does not count."""
    latest = "-at" if funnel.query.order is FunnelOrder.UNORDERED else "at"
    if funnel.query.optional:
        # Of those, the one with the later optional steps.
        steps = [f"if(arrayElement(times, {n + 1}) > 0, {2**n}, 0)" for n in funnel.query.optional]
        latest = f"{' + '.join(steps)}, {latest}"
    # Groups by a list of texts cost more, and without a breakdown it is the same for all.
    has_values = funnel.query.breakdown is not None
    return build_select(
        f"""
        SELECT actor, {"value" if has_values else "[''] AS value"}, max(level) AS reached,
            argMax(times, tuple(level, -arrayElement(times, level), {latest})) AS step_times
        FROM {{attempts}} AS attempts
        GROUP BY actor{", value" if has_values else ""}
        HAVING reached > 0 AND reached >= max(ended)
        """,  # noqa: S608 - ours
        attempts=build_attempts(funnel, context),
    )


def build_steps_query(funnel: Funnel, context: QueryContext) -> Select:
    """Build rows of value, number of actors for each step, and the average and median seconds from
    the step before. It has one more row than the limit if there are more values."""
    steps = range(funnel.step_count)
    reached = [is_reached(funnel.query, step) for step in steps]
    gaps = [
        f"(arrayElement(step_times, {n + 1})"
        f" - arrayElement(step_times, {funnel.query.find_required_before(n) + 1})) / 1000000"
        for n in steps[1:]
    ]
    times = list(zip(gaps, reached[1:], strict=True))
    counts = ", ".join(f"countIf({each})" for each in reached)
    means = ", ".join(f"avgIf({gap}, {each})" for gap, each in times)
    medians = ", ".join(f"quantileExactInclusiveIf(0.5)({gap}, {each})" for gap, each in times)
    limit = ""
    if funnel.query.breakdown is not None and not funnel.excluded:
        limit = f"LIMIT {funnel.query.breakdown.limit + 1}"
    return build_select(
        f"""
        SELECT value, [{counts}] AS counts, [{means}] AS means, [{medians}] AS medians
        FROM {{actors}} AS actors
        GROUP BY value ORDER BY arrayElement(counts, 1) DESC, value ASC {limit}
        """,  # noqa: S608 - ours
        actors=_group_other(funnel, build_actors(funnel, context)),
    )


def is_reached(query: FunnelsQuery, step: int) -> str:
    """Test whether an actor reaches a step, numbered from 0."""
    if step in query.optional:
        return f"arrayElement(step_times, {step + 1}) > 0"
    return f"reached >= {step + 1}"


def build_times_query(funnel: Funnel, context: QueryContext) -> Select:
    """Build one row: number, minimum, maximum and average of the conversion times in seconds."""
    return build_select(
        "SELECT count(), min(seconds), max(seconds), avg(seconds) FROM {times} AS times",
        times=_build_conversion_times(funnel, context),
    )


def build_bins_query(funnel: Funnel, context: QueryContext, first: int, width: int) -> Select:
    """Build rows of bin number and number of actors, for bins of `width` seconds from `first`."""
    return build_select(
        f"""
        SELECT toInt(floor((seconds - {first}) / {width})) AS bin, count() FROM {{times}} AS times
        GROUP BY bin
        """,  # noqa: S608 - ours
        times=_build_conversion_times(funnel, context),
    )


def build_rates_query(funnel: Funnel, context: QueryContext) -> Select:
    """Build rows of value, interval numbers, and the actors who begin in each interval and reach
    the first and the last step of the rate."""
    start, end = funnel.query.from_step + 1, funnel.query.to_step + 1
    limit = ""
    if funnel.query.breakdown is not None:
        limit = f"LIMIT {funnel.query.breakdown.limit}"
    return build_select(
        f"""
        SELECT value, groupArray(slot) AS slots, groupArray(entered) AS entered_all,
            groupArray(converted) AS converted_all, sum(entered) AS total
        FROM (
            SELECT value, slot, countIf(reached >= {start}) AS entered,
                countIf(reached >= {end}) AS converted
            FROM (
                SELECT actor, value, {{slot}} AS slot, max(level) AS reached
                FROM {{attempts}} AS attempts WHERE level > 0 OR ended > 0
                GROUP BY actor, value, slot HAVING reached > 0 AND reached >= max(ended)
            )
            GROUP BY value, slot
        )
        GROUP BY value ORDER BY total DESC, value ASC {limit}
        """,  # noqa: S608 - ours
        slot=number_attempt(funnel),
        attempts=build_attempts(funnel, context),
    )


def number_attempt(funnel: Funnel) -> Expr:
    """Build the number of the interval in which an attempt begins."""
    return funnel.period.number_interval(parse_expr("fromUnixTimestamp64Micro(_toInt64(at))"))


def _build_conversion_times(funnel: Funnel, context: QueryContext) -> Select:
    start, end = funnel.query.from_step + 1, funnel.query.to_step + 1
    return build_select(
        f"""
        SELECT (arrayElement(step_times, {end}) - arrayElement(step_times, {start})) / 1000000
            AS seconds
        FROM {{actors}} AS actors WHERE reached >= {end}
        """,  # noqa: S608 - ours
        actors=build_actors(funnel, context),
    )


def _group_other(funnel: Funnel, actors: Select) -> Select:
    """With excluded values, keep the others, as one."""
    if not funnel.excluded:
        return actors
    return build_select(
        """
        SELECT [''] AS value, reached, step_times FROM {actors} AS actors
        WHERE NOT has({known}, actors.value)
        """,
        actors=actors,
        known=constant([list(each) for each in funnel.excluded]),
    )


def _build_rows(funnel: Funnel, context: QueryContext) -> Select:
    compiler = filter_compiler(context)
    query = funnel.query
    steps = [_match_step(each, funnel, context, compiler) for each in query.steps]
    excluded = [match_series(each.series, context, compiler) for each in query.exclusions]
    where = [funnel.period.contains(field("timestamp")), funnel.filters, _match_actor(query)]
    if query.order is not FunnelOrder.STRICT:
        where.append(any_of([*steps, *excluded]))
    names = [f"step_{number}" for number in range(len(steps))]
    names += [f"excluded_{number}" for number in range(len(excluded))]
    columns = "".join(f", if({{{name}}}, 1, 0) AS {name}" for name in names)
    return build_select(
        f"""
        SELECT {{actor}} AS actor, {{value}} AS value,
            _toUInt64(max2(toUnixTimestamp64Micro(timestamp), 0)) AS at{columns}
        FROM events WHERE {{where}}
        """,  # noqa: S608 - ours
        actor=_build_actor(query),
        value=_build_value(query),
        where=all_of(where),
        **dict(zip(names, [*steps, *excluded], strict=True)),
    )


def _match_step(
    series: Series, funnel: Funnel, context: QueryContext, compiler: FilterCompiler
) -> Expr:
    """Match the events of a step: all, or the first of each person."""
    found = match_series(series, context, compiler)
    if series.math not in FIRST_TIME:
        return found
    until = compare(field("timestamp"), Compare.LT_EQ, constant(funnel.period.end))
    is_first_of_all = series.math == FIRST_TIME[0]
    named = match_event(series, context) if is_first_of_all else [found]
    return all_of([found, is_first_of_person(all_of([until, *named]))])


def _build_actor(query: FunnelsQuery) -> Expr:
    if query.actor_hogql:
        return call("ifNull", call("toString", parse_expr(query.actor_hogql)), constant(""))
    return build_actor(query.group_type_index)


def _match_actor(query: FunnelsQuery) -> Expr:
    """Match events that have an actor."""
    if query.actor_hogql:
        return call("notEmpty", _build_actor(query))
    return match_actor(query.group_type_index)


def _build_value(query: FunnelsQuery) -> Expr:
    if query.breakdown is None or not query.breakdown.properties:
        return parse_expr("['']")
    return query.breakdown.build_value()


def _column_names(funnel: Funnel) -> list[str]:
    """The columns that every query passes on."""
    steps = [f"step_{number}" for number in range(funnel.step_count)]
    return ["actor", "at", "value", *steps, *_exclusion_names(funnel)]


def _exclusion_names(funnel: Funnel) -> list[str]:
    return [f"excluded_{number}" for number in range(len(funnel.query.exclusions))]


def _partition(funnel: Funnel) -> str:
    """Whose rows belong together: those of an actor, and if it is split by value, of a value."""
    return f"PARTITION BY actor{', value' if funnel.splits_actors else ''}"


def _following(funnel: Funnel) -> str:
    """Build the frame of the rows that follow, in a strict funnel the next one. Of events at the
    same time, those of an earlier step come first.

    The order is descending, because the engine adds a row to a frame that only grows, and reads all
    rows of one whose beginning moves again for each row."""
    ties = "".join(f", step_{number} ASC" for number in range(funnel.step_count))
    rows = "1" if funnel.query.order is FunnelOrder.STRICT else "UNBOUNDED"
    return (
        f"({_partition(funnel)} ORDER BY at DESC{ties} "
        f"ROWS BETWEEN {rows} PRECEDING AND 1 PRECEDING)"
    )


def _following_number(funnel: Funnel) -> str:
    """Build the frame of the rows that follow, after they are numbered."""
    return (
        f"({_partition(funnel)} ORDER BY number DESC "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )


def _find_following(query: FunnelsQuery, value: str) -> str:
    """Read a value from the rows that follow: in a strict funnel from the next one, otherwise the
    least."""
    return f"{'any' if query.order is FunnelOrder.STRICT else 'min'}({value}) OVER later"


def _list_following(query: FunnelsQuery, step: int) -> list[int]:
    """Return the steps that may follow one: those up to the next required step."""
    later = range(step + 1, len(query.steps))
    last = next((each for each in later if each not in query.optional), len(query.steps))
    return list(range(step + 1, min(last + 1, len(query.steps))))


def _add_chain(funnel: Funnel, rows: Select, step: int) -> Select:
    """Add the chain that begins with a step: a tuple of the times of the step and of those after
    it. With exclusions, the time of the next excluded event follows each of them."""
    query = funnel.query
    following = _list_following(query, step)
    columns = ["at"]
    if query.exclusions:
        ending = [
            f"excluded_{number} = 1"
            for number, each in enumerate(query.exclusions)
            if each.from_step <= step < each.to_step
        ]
        # In a strict funnel, any other event ends an attempt before a later excluded one.
        excluded = f"if({' OR '.join(ending)}, at, {NEVER})"
        excluded = _find_following(query, excluded) if ending else "0"
        columns.append(f"if({excluded} = 0, {NEVER}, {excluded})")
    width = len(columns)
    for later in range(step + 1, funnel.step_count):
        columns += [_read_following(funnel, step, later, part) for part in range(1, width + 1)]
    never = ", ".join([str(NEVER)] * len(columns))
    source, window = "{rows} AS rows", f"WINDOW later AS {_following(funnel)}"
    if len(following) > 1:
        chains = "".join(
            f", {_find_following(query, f'chain_{n}')} AS following_{n}" for n in following
        )
        chosen = _choose_following(following)
        chains = f"SELECT *{chains} FROM {source} {window}"  # noqa: S608 - ours
        source = f"(SELECT *, {chosen} AS chosen FROM ({chains}))"  # noqa: S608 - ours
    # Earlier steps may be followed by those after an optional one.
    kept = "".join(f", chain_{n}" for n in following) if step in query.optional else ""
    return build_select(
        f"""
        SELECT {", ".join(_column_names(funnel))}{kept},
            if(step_{step} = 1, tuple({", ".join(columns)}), tuple({never})) AS chain_{step}
        FROM {source} {window}
        """,  # noqa: S608 - ours
        rows=rows,
    )


def _choose_following(steps: Sequence[int]) -> str:
    """Build the number of the step that follows: the first that comes before all after it."""
    times = [f"tupleElement(following_{n}, 1)" for n in steps]
    times = [f"if({each} = 0, {NEVER}, {each})" for each in times]
    choices = "".join(
        f"{times[place]} < arrayMin([{', '.join(times[place + 1 :])}]), {step}, "
        for place, step in enumerate(steps[:-1])
    )
    return f"multiIf({choices}{steps[-1]})"


def _read_following(funnel: Funnel, step: int, later: int, part: int) -> str:
    """Read a time of a later step from the chain of the step that follows. 0 if it is left out."""
    query = funnel.query
    width = 2 if query.exclusions else 1
    steps = _list_following(query, step)
    if len(steps) == 1:
        return _read_next(query, steps[0], (later - steps[0]) * width + part)
    found = [
        f"tupleElement(following_{n}, {(later - n) * width + part})" if n <= later else "0"
        for n in steps
    ]
    choices = "".join(f"chosen = {n}, {each}, " for n, each in zip(steps, found, strict=True))
    return f"multiIf({choices}0)"


def _read_next(query: FunnelsQuery, step: int, place: int) -> str:
    """Read a time of the chain of the next event of a step."""
    if query.optional or query.order is FunnelOrder.STRICT:
        return f"tupleElement({_find_following(query, f'chain_{step}')}, {place})"
    # No time of a chain is later than that of a chain that begins later, so the least times are
    # those of one chain. The engine compares numbers much faster than tuples.
    least = _find_following(query, f"tupleElement(chain_{step}, {place})")
    # Nothing follows the last event of an actor, where the engine returns 0.
    return f"if({least} = 0, {NEVER}, {least})"


def _measure_chains(funnel: Funnel, rows: Select) -> Select:
    """Cut each attempt at the end of the window, and drop those that an excluded event ends. A
    missing step has the time 0, or NEVER."""
    end = f"at + {_microseconds(funnel)}"
    width = 2 if funnel.query.exclusions else 1
    elements = [f"tupleElement(chain_0, {n + 1})" for n in range(width * funnel.step_count)]
    end_place = "0"
    if funnel.query.exclusions:
        # Each step must come before the next excluded event, and so must the end of the window.
        last = f"if(level_reached = {funnel.step_count}, 0, {end} + 1)"
        reached = "arrayFilter(time -> time > 0, times)"
        limits = f"arrayPushBack(arraySlice({reached}, 2), {last})"
        passed = f"arrayFilter((excluded, time) -> time > 0, [{', '.join(elements[1::2])}], times)"
        end_place = f"arrayFirstIndex((excluded, until) -> excluded < until, {passed}, {limits})"
    numbers = "arrayFilter((number, time) -> time > 0, arrayEnumerate(times), times)"
    return build_select(
        f"""
        SELECT {", ".join(_column_names(funnel))},
            arrayMap(time -> if(time <= {end}, time, 0), [{", ".join(elements[::width])}]) AS times,
            arrayLastIndex(time -> time > 0, times) AS level_reached,
            {end_place} AS end_place, if(end_place = 0, level_reached, 0) AS level,
            if(end_place > 0, arrayElement({numbers}, least(end_place + 1, length({numbers}))), 0)
                AS ended
        FROM {{rows}} AS rows WHERE step_0 = 1
        """,  # noqa: S608 - ours
        rows=rows,
    )


def _build_unordered(funnel: Funnel, rows: Select) -> Select:
    names = ", ".join(_column_names(funnel))
    steps = range(funnel.step_count)
    own = "multiIf(" + "".join(f"step_{n} = 1, {n}, " for n in steps) + f"{funnel.step_count})"
    end = f"at + {_microseconds(funnel)}"
    survives, excluded = "1", "0"
    if funnel.query.exclusions:
        # An excluded event ends an attempt that is not complete yet and within its window.
        ending = " OR ".join(f"{each} = 1" for each in _exclusion_names(funnel))
        excluded = f"min(if({ending}, at, {NEVER})) OVER later"
        until = f"if(length(times) = {funnel.step_count}, arrayMax(times), {end} + 1)"
        survives = f"(excluded = 0 OR excluded >= {until})"
    return build_select(
        f"""
        SELECT {names}, arraySort(arrayFilter(time -> time <= {end}, found)) AS times,
            if(own < {funnel.step_count} AND {survives}, length(times), 0) AS level, 0 AS ended
        FROM (
            SELECT *, {", ".join(_choose_events(funnel.query))}, arrayMap(
                (event, number) -> multiIf(number = own, at, tupleElement(event, 1) = 0, {NEVER},
                    tupleElement(event, 1)),
                [{", ".join(f"event_{n}" for n in steps)}], range({funnel.step_count})
            ) AS found
            FROM (
                SELECT *, {own} AS own, {excluded} AS excluded FROM {{rows}} AS rows
                WINDOW later AS {_following_number(funnel)}
            )
        )
        """,  # noqa: S608 - ours
        rows=_add_next_events(funnel, rows),
    )


def _list_rivals(query: FunnelsQuery, step: int) -> list[int]:
    """Return the earlier steps that an event of a step may be as well."""
    return [n for n in range(step) if query.steps[step].may_share_events(query.steps[n])]


def _add_next_events(funnel: Funnel, rows: Select) -> Select:
    """Number the rows of each actor, and add the events that may become each step: the next one,
    and as many more as earlier steps may take from it. An event is a pair of time and number."""
    steps = range(funnel.step_count)
    ties = "".join(f", step_{number} DESC" for number in steps)
    rows = build_select(
        f"""
        SELECT *, row_number() OVER ({_partition(funnel)} ORDER BY at{ties}) AS number
        FROM {{rows}} AS rows
        """,  # noqa: S608 - ours
        rows=rows,
    )
    counts = [len(_list_rivals(funnel.query, step)) + 1 for step in steps]
    for place in range(max(counts)):
        event, none = "tuple(at, number)", f"tuple({NEVER}, 0)"
        columns = []
        for step in (step for step in steps if place < counts[step]):
            if place == 0:
                found = f"min(if(step_{step} = 1, {event}, {none})) OVER later"
            else:
                # The event that follows the next one.
                both = f"tuple({event}, next_{step}_{place - 1})"
                found = f"min(if(step_{step} = 1, {both}, tuple({none}, {none})))"
                found = f"tupleElement({found} OVER later, 2)"
            columns.append(f"{found} AS next_{step}_{place}")
        rows = build_select(
            f"""
            SELECT *, {", ".join(columns)} FROM {{rows}} AS rows
            WINDOW later AS {_following_number(funnel)}
            """,  # noqa: S608 - ours
            rows=rows,
        )
    return rows


def _choose_events(query: FunnelsQuery) -> list[str]:
    """Build the event of each step but the own one of the row: the next that no earlier step
    takes. As in PostHog, an event is one step only, the first that lacks one."""
    chosen = []
    for step in range(len(query.steps)):
        rivals = _list_rivals(query, step)
        found = f"next_{step}_0"
        if rivals:
            taken = ", ".join(f"event_{n}" for n in rivals)
            events = ", ".join(f"next_{step}_{place}" for place in range(len(rivals) + 1))
            found = f"arrayFirst(event -> NOT has([{taken}], event), [{events}])"
        chosen.append(f"if(own = {step}, tuple({NEVER}, 0), {found}) AS event_{step}")
    return chosen


def _microseconds(funnel: Funnel) -> int:
    return int(funnel.query.window.total_seconds()) * 1_000_000


def _attribute(funnel: Funnel, rows: Select) -> Select:
    """Give each row the value that it counts for. With the attribution to all events, that is its
    own; to the first step, that of the event that an attempt begins with."""
    query = funnel.query
    if query.breakdown is None or not query.breakdown.properties:
        return rows
    if query.attribution is Attribution.STEP and query.attribution_step > 0:
        return _attribute_to_step(funnel, rows)
    if query.attribution in (Attribution.STEP, Attribution.ALL_EVENTS):
        return rows
    function = "argMax" if query.attribution is Attribution.LAST_TOUCH else "argMin"
    whole, counts = "OVER (PARTITION BY actor)", f"NOT has(value, '{NULL_LABEL}')"
    names = ", ".join(name for name in _column_names(funnel) if name != "value")
    return build_select(
        f"""
        SELECT {names}, if(
            countIf({counts}) {whole} > 0, {function}If(value, at, {counts}) {whole}, {{missing}}
        ) AS value
        FROM {{rows}} AS rows
        """,  # noqa: S608 - ours
        rows=rows,
        missing=constant([NULL_LABEL] * len(query.breakdown.properties)),
    )


def _attribute_to_step(funnel: Funnel, rows: Select) -> Select:
    """Repeat the rows of an actor for each value of its events of the step, where only events with
    that value are the step. As in PostHog, actors without an event of the step do not count."""
    step = f"step_{funnel.query.attribution_step}"
    names = ", ".join(name for name in _column_names(funnel) if name not in ("value", step))
    return build_select(
        f"""
        SELECT {names}, choice AS value, if({step} = 1 AND own = choice, 1, 0) AS {step}
        FROM (
            SELECT {names}, {step}, value AS own, arrayJoin(choices) AS choice
            FROM (
                SELECT *, groupUniqArrayIf(value, {step} = 1) OVER (PARTITION BY actor) AS choices
                FROM {{rows}} AS rows
            )
        )
        """,  # noqa: S608 - ours
        rows=rows,
    )
