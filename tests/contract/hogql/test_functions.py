"""Every function that a query may call is there in the real engine, and works."""

import json
import re
from pathlib import Path

import pytest

from hedgerow.hogql.catalogue import COMBINATORS
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.functions import AGGREGATES, FUNCTIONS, WINDOWED
from hedgerow.hogql.parse import parse_select
from hedgerow.hogql.printer import print_select
from tests.contract.hogql.world import Engine, world

SAMPLES: dict[str, str] = json.loads((Path(__file__).parent / "samples.json").read_text())
# What reads or tells something beside the rows, waits, or fails on purpose.
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


def test_there_are_enough() -> None:
    assert len(FUNCTIONS) >= 400
    assert len(AGGREGATES) >= 60


def test_all_are_in_the_engine(engine: Engine) -> None:
    known = {name for (name,) in engine.raw("SELECT name FROM system.functions")}
    every = [*FUNCTIONS.values(), *AGGREGATES.values(), *WINDOWED.values()]
    assert not [
        each.engine for each in every if each.group != "Special" and each.engine not in known
    ]


def test_all_have_a_sample() -> None:
    assert set(SAMPLES) == {*FUNCTIONS, *AGGREGATES, *WINDOWED}


def test_all_samples_run(engine: Engine) -> None:
    failed = {}
    for name, sample in SAMPLES.items():
        text = f"select {sample} from events limit 1"
        try:
            engine.ask(text)
        except Exception as error:  # noqa: BLE001 - all failures are told together
            failed[name] = str(error)
    assert not failed


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_forbidden_are_unknown(name: str) -> None:
    for text in (f"select {name}('a', 'b', 'c')", f"select {name}()", f"select `{name}`(1)"):
        with pytest.raises(HogQLError, match="Unknown function"):
            print_select(parse_select(text), world(), text=text)


def test_an_aggregation_named_in_a_text_is_a_known_one() -> None:
    with pytest.raises(HogQLError, match="arrayReduce needs the name of an aggregation"):
        print_select(parse_select("select arrayReduce('aggThrow(1)', [1])"), world())


@pytest.mark.parametrize(("expression", "detail"), WRONG_CALLS)
def test_wrong_calls_are_explained(expression: str, detail: str) -> None:
    text = f"select {expression}"
    with pytest.raises(HogQLError) as caught:
        print_select(parse_select(text), world(), text=text)
    assert caught.value.detail == detail


def test_names_in_any_case_and_with_endings(engine: Engine) -> None:
    asked = "COUNT(*), Sum(1), COUNTIF(event = 'paid'), maxOrNull(properties.price), sumDistinct(1)"
    assert engine.ask(f"select {asked} from events") == [(6, 6, 2, 20.5, 1)]


def test_the_reference_names_them_all() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/hogql.md").read_text()
    listed = set(re.findall(r"`(\w+)`", page.partition("\n## Functions\n")[2]))
    written_by_us = {"_caseWithExpression"}
    assert {*FUNCTIONS, *AGGREGATES, *WINDOWED} - written_by_us <= listed
    assert listed <= {*FUNCTIONS, *AGGREGATES, *WINDOWED, *COMBINATORS, "_"}
