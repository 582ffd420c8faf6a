"""What a target is to a rebuild: a place for each version of a read model, and a name by which readers see one of them. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

_ODD: Final = re.compile(r"[^a-z0-9]+")
_SUFFIX: Final = re.compile(r"__([a-z0-9_]+)_v([0-9]+)")


@dataclass(frozen=True, slots=True)
class Naming:
    """How the versions of one read model are told apart; the first one has the connector's own name."""

    connector: str
    """The name of the first version."""

    def name(self, version: int) -> str:
        """The connector of a version."""
        return self.connector if version == 1 else f"{self.connector}-v{version}"

    def is_version(self, name: str) -> bool:
        """Whether a connector's name is that of a version."""
        return (
            name == self.connector or re.fullmatch(rf"{re.escape(self.connector)}-v[0-9]+", name) is not None
        )

    def suffix(self, version: int) -> str:
        """What stands behind the name of a schema, an index or a label of a version; lower case, digits and underscores."""
        return f"__{_slug(self.connector)}_v{version}"

    def version_in(self, name: str) -> int | None:
        """The version whose suffix a name ends with."""
        place = name.rfind(f"__{_slug(self.connector)}_v")
        match = _SUFFIX.fullmatch(name[place:]) if place >= 0 else None
        return int(match[2]) if match else None


def _slug(name: str) -> str:
    return _ODD.sub("_", name.lower()).strip("_") or "sink"


class ReadModel(Protocol):
    """The versions of one read model in its target.

    Raises (everything):
        TargetError, BusyError: the target cannot be asked, or refuses.
        RebuildError: it is not possible for this connector; says why.
    """

    converts: bool
    """Whether what the first version writes has the name that readers know, and has to make room for it."""

    def options(self, version: int, config: Mapping[str, str]) -> dict[str, str]:
        """The options by which a connector writes to the place of a version.

        Args:
            config: its other options; those of whichever version.
        """
        ...

    def version_of(self, config: Mapping[str, str]) -> int | None:
        """The version for which `options` made a configuration; None: it is a person's."""
        ...

    def shared(self, config: Mapping[str, str]) -> Sequence[str]:
        """What another connector writes besides this one, so that it cannot be removed with a version; by its configuration."""
        ...

    def live(self) -> int | None:
        """Which version readers see; None: nothing was ever switched, so it is the first one's."""
        ...

    def prepare(self, version: int) -> None:
        """Make an empty place for a version, whatever was there."""
        ...

    def counts(self, version: int) -> dict[str, int]:
        """How many rows, documents or nodes a version has, by the name that readers know."""
        ...

    def complete(self, version: int, live: int) -> Sequence[str]:
        """Give a version that has caught up what its live one has besides rows; gives what could not be done, in words."""
        ...

    def settle(self, version: int) -> bool:
        """Whether whoever looks from now on sees all of a version; ask again until it is so."""
        ...

    def switch(self, version: int, former: int, *, keeps: bool) -> None:
        """Let readers see `version`, at once, in place of `former`.

        Args:
            keeps: whether what the former one has is needed further.
        """
        ...

    def go_on(self, version: int) -> None:
        """Let the connector of a version write again, which a switch has hindered from it."""
        ...

    def drop(self, version: int, group: str) -> None:
        """Remove what a version has, and the positions of its group; nothing happens where there is nothing."""
        ...

    def close(self) -> None:
        """Let go of the target."""
        ...
