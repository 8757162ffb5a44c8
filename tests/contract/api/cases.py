"""One test for many cases that takes little more time than the cases."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]


def check_all(name: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Call the test with each case as its argument `name`, and report every case that fails.

    Like `pytest.mark.parametrize`, for thousands of short cases: pytest-xdist collects each test in
    each process and reports it to another one, which takes longer than a short request.
    """

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            wrong = []
            count = 0
            for case in cases:
                count += 1
                try:
                    test(**{name: case}, **fixtures)
                except AssertionError as error:
                    wrong.append(f"{case}: {error}")
            assert not wrong, f"{len(wrong)} of {count} cases:\n" + "\n".join(wrong)
            assert count

        own = inspect.signature(test)
        kept = [each for each in own.parameters.values() if each.name != name]
        vars(run)["__signature__"] = own.replace(parameters=kept)
        return run

    return decorate
