"""Packages that are imported on first use, because they are large or because not every installation
has them: the wheel `hedgerow-slim` leaves them to its extras.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

# The extra of pyproject.toml that installs each package.
EXTRAS = {
    "aiosmtplib": "server",
    "alembic": "server",
    "awscrt": "s3",
    "chdb": "embedded",
    "clickhouse_connect": "clickhouse",
    "cryptography": "server",
    "jinja2": "server",
    "jsonschema_rs": "server",
    "jwt": "server",
    "liquid": "liquid",
    "maxminddb": "server",
    "nats": "nats",
    "nh3": "server",
    "numpy": "experiments",
    "opentelemetry": "otel",
    "psycopg": "postgresql",
    "pyarrow": "parquet",
    "resvg_py": "server",
    "scipy": "experiments",
    "sqlalchemy": "server",
    "ttf_opensans": "server",
}


class MissingPackage(ImportError):
    """A package is not installed. The message says what to install."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"The Python package {package} is not installed. Install it with "
            f"`{build_install_command(EXTRAS[package])}`."
        )


def build_install_command(extra: str) -> str:
    """Return the command that adds an extra to the wheel that is installed: one of two."""
    is_slim = any(metadata.distributions(name="hedgerow-slim"))
    return f"pip install '{'hedgerow-slim' if is_slim else 'hedgerow'}[{extra}]'"


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Raise MissingPackage if an import of the block lacks an optional package."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingPackage(package) from error


def import_package(name: str) -> Any:
    """Import a module. Raises MissingPackage if it needs an optional package that is missing."""
    with name_missing_extra():
        return import_module(name)


def name_error(error: BaseException) -> str:
    """Return what may be shown of an error of a component: the package that is missing, otherwise
    the type, because the text may quote a secret."""
    return str(error).rstrip(".") if isinstance(error, MissingPackage) else type(error).__name__


def is_installed(package: str) -> bool:
    """Return whether a package is installed, without importing it."""
    return find_spec(package) is not None


class LazyPackage:
    """Stands for a module, and imports it with the first use of one of its names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_package(self._name), attribute)
