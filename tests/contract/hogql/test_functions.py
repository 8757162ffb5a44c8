"""Every function of the catalogue exists in ClickHouse and works."""

import json
import re
from pathlib import Path

import pytest

from hedgerow.hogql.catalogue import COMBINATORS
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.functions import AGGREGATES, FUNCTIONS, WINDOW_FUNCTIONS
from hedgerow.hogql.parser.parse import parse_select
from hedgerow.hogql.printer.statement import print_select
from tests.contract.hogql.engine import Engine, make_context

SAMPLES: dict[str, str] = json.loads((Path(__file__).parent / "samples.json").read_text())
# Functions that read anything except rows, that wait, or that fail on purpose.
_FORBIDDEN_LIST = """
file url remote mysql postgresql s3 jdbc odbc dictGet dictGetOrDefault joinGet
joinGetOrNull getSetting getSettingOrDefault getMacro sleep sleepEachRow throwIf hostName
fqdn version uptime currentUser user currentDatabase currentSchemas currentProfiles
currentRoles enabledRoles defaultRoles serverUUID tcpPort getServerPort
getClientHTTPHeader queryID initialQueryID connectionId serverTimezone buildId
getOSKernelVersion filesystemAvailable filesystemCapacity zookeeperSessionUptime
showCertificate addressToLine addressToSymbol demangle catboostEvaluate hasColumnInTable
shardNum shardCount blockNumber initializeAggregation evalMLMethod
structureToProtobufSchema generateRandomStructure transactionID aggThrow
"""
FORBIDDEN = _FORBIDDEN_LIST.split()
WRONG_CALLS: list[tuple[str, str]] = json.loads(
    (Path(__file__).parent / "wrong_calls.json").read_text()
)


def test_the_catalogue_is_large_enough() -> None:
    assert len(FUNCTIONS) >= 400
    assert len(AGGREGATES) >= 60


def test_all_functions_exist_in_clickhouse(engine: Engine) -> None:
    known = {name for (name,) in engine.raw("SELECT name FROM system.functions")}
    every = [*FUNCTIONS.values(), *AGGREGATES.values(), *WINDOW_FUNCTIONS.values()]
    assert not [
        each.engine_name
        for each in every
        if each.group != "Special" and each.engine_name not in known
    ]


def test_all_functions_have_a_sample() -> None:
    assert set(SAMPLES) == {*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS}


def test_all_samples_run(engine: Engine) -> None:
    failed = {}
    for name, sample in SAMPLES.items():
        text = f"select {sample} from events limit 1"
        try:
            engine.query(text)
        except Exception as error:  # noqa: BLE001 - all failures are reported together
            failed[name] = str(error)
    assert not failed


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_functions_are_unknown(name: str) -> None:
    for text in (f"select {name}('a', 'b', 'c')", f"select {name}()", f"select `{name}`(1)"):
        with pytest.raises(HogQLError, match="Unknown function"):
            print_select(parse_select(text), make_context(), text=text)


def test_array_reduce_accepts_known_aggregates_only() -> None:
    with pytest.raises(HogQLError, match="arrayReduce requires the name of an aggregate function"):
        print_select(parse_select("select arrayReduce('aggThrow(1)', [1])"), make_context())


@pytest.mark.parametrize(("expression", "detail"), WRONG_CALLS)
def test_wrong_calls_are_explained(expression: str, detail: str) -> None:
    text = f"select {expression}"
    with pytest.raises(HogQLError) as caught:
        print_select(parse_select(text), make_context(), text=text)
    assert caught.value.detail == detail


def test_function_names_ignore_case_and_accept_combinators(engine: Engine) -> None:
    price = "maxOrNull(toFloat(properties.price))"
    columns = f"COUNT(*), Sum(1), COUNTIF(event = 'paid'), {price}, sumDistinct(1)"
    assert engine.query(f"select {columns} from events") == [(6, 6, 2, 20.5, 1)]


def test_aggregations_of_two_numbers_convert_both_properties(engine: Engine) -> None:
    two = "(properties.price, properties.price)"
    names = "corr", "rankCorr", "covarPop", "covarSamp", "covarPopStable", "avgWeighted"
    columns = [f"round({name}{two}, 4)" for name in names]
    columns += [f"simpleLinearRegression{two}.1", "sumCount(properties.price).1"]
    assert engine.query(f"select {', '.join(columns)} from events") == [
        (1, 1, 41.7222, 62.5833, 41.7222, 15.3592, 1, 35.5)
    ]
    conditional = "corrIf(properties.price, properties.price, event = '$pageview')"
    assert engine.query(f"select {conditional} from events") == [(1,)]


def test_the_reference_documents_all_functions() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/hogql.md").read_text()
    listed = set(re.findall(r"`(\w+)`", page.partition("\n## Functions\n")[2]))
    written_by_us = {"_caseWithExpression", "_mayHaveKey", "_toNumber"}
    assert {*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS} - written_by_us <= listed
    assert listed <= {*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS, *COMBINATORS, "_"}
