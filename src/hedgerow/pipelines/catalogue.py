"""The catalogue of components: the built-in ones, and those of installed packages.

A package that cannot be loaded is listed with its error and never stops the service.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from hedgerow.lib.text import describe_error
from hedgerow.pipelines.builtin import BUILTIN_COMPONENTS
from hedgerow.pipelines.model import ComponentId
from hedgerow.plugin.component import ENTRY_POINT_GROUP, Component, Family


class ComponentEntryPoint(Protocol):
    """The part of an importlib entry point that is used here."""

    @property
    def name(self) -> str: ...
    def load(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A component with the id by which records refer to it."""

    id: ComponentId
    component: Component


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPackage:
    """An entry point without a usable component, and why."""

    name: str
    reason: str


class Catalogue:
    """All components by id. It starts with the built-in ones; components of packages are added once
    the database has assigned their ids."""

    def __init__(self) -> None:
        self._components = {
            ComponentId(id): component for id, component in BUILTIN_COMPONENTS.items()
        }
        self.broken: tuple[BrokenPackage, ...] = ()

    def add(
        self,
        ids: Mapping[str, ComponentId],
        components: Iterable[Component],
        broken: Iterable[BrokenPackage],
    ) -> None:
        self._components |= {ids[component.key]: component for component in components}
        self.broken = tuple(broken)

    def component(self, id: ComponentId) -> Component | None:
        return self._components.get(id)

    def is_builtin(self, id: ComponentId) -> bool:
        """Whether the component ships with Hedgerow."""
        return id in BUILTIN_COMPONENTS

    def list_components(self, family: Family | None) -> list[CatalogueEntry]:
        return [
            CatalogueEntry(id=id, component=component)
            for id, component in sorted(self._components.items())
            if family is None or component.family is family
        ]


def find_entry_points() -> Iterable[EntryPoint]:
    return entry_points(group=ENTRY_POINT_GROUP)


def load_components(
    points: Iterable[ComponentEntryPoint],
) -> tuple[list[Component], list[BrokenPackage]]:
    """Load the components of packages. The first component with a key keeps it."""
    components: dict[str, Component] = {}
    taken = {component.key for component in BUILTIN_COMPONENTS.values()}
    broken = []
    for point in points:
        try:
            for component in _load_entry_point(point):
                if component.key in taken:
                    raise ValueError(f"the key {component.key} is already in use")
                taken.add(component.key)
                components[component.key] = component
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            broken.append(BrokenPackage(name=point.name, reason=describe_error(error)))
    return list(components.values()), broken


def _load_entry_point(point: ComponentEntryPoint) -> Iterator[Component]:
    offered = point.load()
    if not isinstance(offered, Component) and callable(offered):
        offered = offered()
    for component in [offered] if isinstance(offered, Component) else _check_iterable(offered):
        if not isinstance(component, Component):
            raise TypeError(f"expected a Component, not {component!r}")
        yield component


def _check_iterable(offered: object) -> Iterable[object]:
    if not isinstance(offered, Iterable):
        raise TypeError(f"expected a Component, not {offered!r}")
    return offered
