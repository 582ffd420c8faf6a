"""Many values of one schema, field by field: those of a field are made when they are asked for, and no object for each struct is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

MOST_BYTES: Final = 2 << 20
"""Of messages that are decoded at once, for which some eight times as much memory is needed."""
Made = list[dict[str, Any]]


class Column(Protocol):
    """The values of a field, or of whole messages."""

    def __call__(self) -> list[Any]:
        """All of them, in their order; made anew each time.

        Raises:
            ValueError, DecodeError: one of them is not what its schema says.
        """
        ...


class StructColumn:
    """Structs of one schema, none of which is null.

    Args:
        fields: their columns.
        count: how many structs there are.
        make: makes the structs of the values of their fields.
        holds: whether bytes stand anywhere in what the structs are read from.
    """

    __slots__ = ("_fields", "_holds", "_make", "count")

    def __init__(
        self,
        fields: Mapping[str, Column],
        count: int,
        make: Callable[[list[list[Any]], int], Made],
        holds: Callable[[bytes], bool],
    ) -> None:
        self._fields, self.count, self._make, self._holds = fields, count, make, holds

    def __call__(self) -> Made:
        """See `Column`."""
        return self._make([column() for column in self._fields.values()], self.count)

    @property
    def fields(self) -> Mapping[str, Column]:
        """Their columns, by name, in the schema's order; those that were not asked for are missing."""
        return self._fields

    def may_hold(self, data: bytes) -> bool:
        """Whether a text or bytes with these bytes in them may be among the values; False: there are none."""
        return self._holds(data)


class OptionalColumn:
    """Values of which some are null.

    Args:
        values: those that are not; None where all are.
        places: makes their places.
        count: of all.
    """

    __slots__ = ("_places", "count", "values")

    def __init__(self, values: Column | None, places: Callable[[], list[int]], count: int) -> None:
        self.values, self._places, self.count = values, places, count

    def __call__(self) -> list[Any]:
        """See `Column`."""
        found: list[Any] = [None] * self.count
        if self.values is not None:
            for place, value in zip(self._places(), self.values(), strict=True):
                found[place] = value
        return found

    @property
    def places(self) -> Sequence[int]:
        """Where among all the values are that are not null."""
        return self._places()
