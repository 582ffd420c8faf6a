"""Which versions of a read model there are, as the worker's connectors and the target tell it: nothing else is kept anywhere, so
that whoever comes after an interruption knows as much."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidings_connect.rest.client import Connector
from tidings_sinks.errors import RebuildError
from tidings_sinks.read_model import Naming, ReadModel


@dataclass(frozen=True, slots=True)
class Versions:
    """The connectors of one read model, by version, and the one that readers see."""

    connectors: Mapping[int, Connector]
    live: int

    @property
    def newest(self) -> int:
        """The highest number there is."""
        return max(self.connectors)

    @property
    def building(self) -> int | None:
        """The version that is beside the live one to take its place."""
        return self.newest if self.newest > self.live else None

    @property
    def former(self) -> int | None:
        """The version whose place the live one has taken, while it is there."""
        older = [version for version in self.connectors if version < self.live]
        return max(older, default=None)


def first_name(name: str, connectors: Mapping[str, Connector]) -> str:
    """The name of the first version, of whichever version's is given; that need not be there any more.

    Raises:
        RebuildError: there is no connector of that name, nor a version of one.
    """
    if name in connectors:
        match = re.fullmatch(r"(.+)-v[0-9]+", name)
        return match[1] if match and Naming(match[1]).version_in(_marks(connectors[name])) else name
    if any(_number(name, other) for other in connectors):
        return name
    known = ", ".join(sorted(connectors)) or "none"
    raise RebuildError(f"there is no connector {name} on the worker", hint=f"it has: {known}")


def read_versions(naming: Naming, model: ReadModel, connectors: Mapping[str, Connector]) -> Versions:
    """The versions that are there.

    Raises:
        RebuildError: the live one is not, or a connector has the name of a version and is none.
    """
    found = {}
    for name, connector in connectors.items():
        number = 1 if name == naming.connector else _number(naming.connector, name)
        if number is None:
            continue
        if number > 1 and model.version_of(connector.config) != number:
            raise RebuildError(
                f"connector {name} has the name of a version of {naming.connector}, and does not write to one",
                hint="delete it, or give it another name",
            )
        found[number] = connector
    live = model.live() or 1
    if live not in found:
        raise RebuildError(
            f"readers see version {live} of {naming.connector}, and the worker has no connector {naming.name(live)}",
            hint="create it again with its configuration",
        )
    return Versions(found, live)


def _number(first: str, name: str) -> int | None:
    match = re.fullmatch(rf"{re.escape(first)}-v([2-9]|[1-9][0-9]+)", name)
    return int(match[1]) if match else None


def _marks(connector: Connector) -> str:
    """Where a suffix may stand, as one text that ends with it."""
    for value in connector.config.values():
        match = re.search(r"__[a-z0-9_]+_v[0-9]+", value)
        if match:
            return match[0]
    return ""
