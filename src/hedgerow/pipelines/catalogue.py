"""Which components there are: the built-in ones, and those of installed packages.

A package that cannot be loaded is kept as a Broken entry, so that people see it in the catalogue;
it never stops the service.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from hedgerow.lib.telling import describe_error
from hedgerow.pipelines.component import ENTRY_POINTS, Component
from hedgerow.pipelines.components import BUILT_IN
from hedgerow.pipelines.model import ComponentId, Family


class Loadable(Protocol):
    """As much of an importlib entry point as is needed here."""

    @property
    def name(self) -> str: ...
    def load(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A component with the number by which records name it."""

    id: ComponentId
    component: Component


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """An entry point that gave no component, and why."""

    name: str
    reason: str


class Catalogue:
    """All components by number. It starts with the built-in ones; packages' come once their
    numbers are known."""

    def __init__(self) -> None:
        self._components = {ComponentId(id): component for id, component in BUILT_IN.items()}
        self.broken: tuple[Broken, ...] = ()

    def add(
        self,
        ids: Mapping[str, ComponentId],
        components: Iterable[Component],
        broken: Iterable[Broken],
    ) -> None:
        self._components |= {ids[component.key]: component for component in components}
        self.broken = tuple(broken)

    def component(self, id: ComponentId) -> Component | None:
        return self._components.get(id)

    def is_ours(self, id: ComponentId) -> bool:
        """Whether it ships with Hedgerow."""
        return id in BUILT_IN

    def of_family(self, family: Family | None) -> list[Listed]:
        return [
            Listed(id=id, component=component)
            for id, component in sorted(self._components.items())
            if family is None or component.family is family
        ]


def installed() -> Iterable[EntryPoint]:
    return entry_points(group=ENTRY_POINTS)


def load_components(points: Iterable[Loadable]) -> tuple[list[Component], list[Broken]]:
    """All components of packages. The first to use a key keeps it."""
    components: dict[str, Component] = {}
    taken = {component.key for component in BUILT_IN.values()}
    broken = []
    for point in points:
        try:
            for component in _components_of(point):
                if component.key in taken:
                    raise ValueError(f"the key {component.key} is taken")
                taken.add(component.key)
                components[component.key] = component
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            broken.append(Broken(name=point.name, reason=describe_error(error)))
    return list(components.values()), broken


def _components_of(point: Loadable) -> Iterator[Component]:
    offered = point.load()
    if not isinstance(offered, Component) and callable(offered):
        offered = offered()
    for component in [offered] if isinstance(offered, Component) else _items(offered):
        if not isinstance(component, Component):
            raise TypeError(f"not a Component: {component!r}")
        yield component


def _items(offered: object) -> Iterable[object]:
    if not isinstance(offered, Iterable):
        raise TypeError(f"not a Component: {offered!r}")
    return offered
