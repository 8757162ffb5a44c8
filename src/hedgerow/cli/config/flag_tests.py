"""`hedgerow flags test`: the tests of a flag file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from hedgerow.cli.config.as_code import FileArgument, read_document, report_invalid
from hedgerow.cli.options import JsonOption
from hedgerow.cli.output import colorize, print_json
from hedgerow.filters.values import MISSING
from hedgerow.flags.as_code.flag_tests import FlagTestResult, run_tests
from hedgerow.lib import jsonio
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import escape_control_characters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def run_flag_tests(file: FileArgument, as_json: JsonOption = False) -> None:
    """Run the tests of a flag file.

    A flag of a YAML file for `hedgerow flags apply` can have `tests`: subjects, and the value that
    each must get. They are evaluated as the service does it, without a database. Exits with status
    1 if a test fails.
    """
    document = read_document(file)
    with report_invalid(file):
        results = run_tests(document, utc_now())
    failed = [each for each in results if not each.has_passed]
    if as_json:
        print_json([_to_plain(each) for each in results])
    else:
        for line in _describe(results):
            is_failure = line.startswith("  FAIL")
            print(colorize(escape_control_characters(line), "red" if is_failure else None))
        print(f"{len(results)} test(s): {len(results) - len(failed)} passed, {len(failed)} failed.")
    if not results and not as_json:
        print(f"No flag of {file} has `tests`.", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _describe(results: Sequence[FlagTestResult]) -> Iterator[str]:
    key = None
    for each in results:
        if each.key != key:
            key = each.key
            yield key
        yield f"  {'ok  ' if each.has_passed else 'FAIL'}  {_name(each)}"
        if each.has_other_value:
            yield f"          expected: {_show(each.test.expected)}"
            yield f"          got:      {_show(each.value)} ({each.reason})"
        if each.has_other_payload:
            yield f"          expected payload: {_show(each.test.payload)}"
            yield f"          got payload:      {_show(each.payload)}"


def _name(result: FlagTestResult) -> str:
    test = result.test
    name = test.name or f"{test.subject.distinct_id} gets {_show(test.expected)}"
    return f"{name} ({test.environment})" if test.environment else name


def _show(value: Any) -> str:
    return jsonio.encode(value).decode()


def _to_plain(result: FlagTestResult) -> dict[str, Any]:
    test = result.test
    plain = {
        "key": result.key,
        "name": _name(result),
        "passed": result.has_passed,
        "expected": test.expected,
        "value": result.value,
        "payload": result.payload,
        "reason": result.reason,
    }
    return plain if test.payload is MISSING else {**plain, "expected_payload": test.payload}
