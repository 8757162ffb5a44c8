"""One test for many cases that takes little more time than the cases."""

import functools
import inspect
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Test = Callable[..., None]


def check_all(name: str, cases: Iterable[Any], at_once: int = 1) -> Callable[[Test], Test]:
    """Call the test with each case as its argument `name`, and report every case that fails.

    Like `pytest.mark.parametrize`, for thousands of short cases: pytest-xdist collects each test in
    each process and reports it to another one, which takes longer than a short request. Cases that
    mostly wait can run several at once.
    """

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            def find_fault(case: Any) -> str | None:
                try:
                    test(**{name: case}, **fixtures)
                except AssertionError as error:
                    return f"{case}: {error}"
                return None

            if at_once == 1:
                faults = [find_fault(case) for case in cases]
            else:
                with ThreadPoolExecutor(at_once) as threads:
                    faults = list(threads.map(find_fault, cases))
            wrong = [each for each in faults if each is not None]
            assert not wrong, f"{len(wrong)} of {len(faults)} cases:\n" + "\n".join(wrong)
            assert faults

        own = inspect.signature(test)
        kept = [each for each in own.parameters.values() if each.name != name]
        vars(run)["__signature__"] = own.replace(parameters=kept)
        return run

    return decorate
