"""What becomes of somebody's properties when somebody tells more of them. Pure."""

from collections.abc import Mapping
from typing import Any

from hedgerow.persons.model import Person


def laid_over(before: Person | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given goes over what is stored."""
    return {**(before.properties if before else {}), **given}


def changed(before: Person, given: Mapping[str, Any]) -> dict[str, Any]:
    """The same, and a null takes its property away; one that was stored long ago stays."""
    return {
        name: value
        for name, value in laid_over(before, given).items()
        if value is not None or name not in given
    }
