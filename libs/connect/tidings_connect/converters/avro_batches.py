"""Reads the bodies of many Avro messages of one schema at once, field by field: what each field costs is paid once for all of them.

Values are those of `avro_reading`, which reads one message at a time. Bodies that do not follow their schema are not told apart
here: whoever wants to know which one it is reads them one by one.

A place in the bytes never goes back, so bodies that all end where they should were read within their own bytes.

Specified by Apache Avro 1.11, "Binary encoding".
"""

import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

# Else numpy starts a thread for each processor, for linear algebra, of which there is none here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from tidings_connect.converters.avro_reading import MISREAD, compile_reader
from tidings_connect.data.columns import Column, OptionalColumn, StructColumn
from tidings_envelope.decimals import decimal_from_bytes

Places = NDArray[np.int64]
_Found = tuple[Column, Places]
"""Values, and where they end."""
_Read = Callable[["_Bodies", Places], _Found]
_ENVELOPE: Final = frozenset({"before", "after", "op", "source"})
_PADDING: Final = bytes(16)
"""So that eight bytes can be read at every place."""
_GOES_ON: Final = np.uint64(0x8080808080808080)
_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE, _ZERO, _LAST = np.uint64(1), np.uint64(0), np.uint64(56)
_PAIRS: Final = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Bring groups of 7 bits together, then of 14, then of 28."""


class MisfitError(ValueError):
    """One of the bodies does not follow the schema."""


class _Bodies:
    """Bodies one behind the other."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.data = b"".join((*bodies, _PADDING))
        self.bytes = np.frombuffer(self.data, np.uint8)
        count = len(self.data) - 7
        self.words: NDArray[np.uint64] = np.ndarray((count,), "<u8", self.data, strides=(1,))
        """The eight bytes at each place."""
        self.text = self.data.decode("latin-1")
        """A character for each byte."""

    def numbers(self, at: Places) -> tuple[NDArray[np.int64], Places]:
        """An ``int`` or a ``long`` at each place, and where it ends."""
        first = self.bytes[at]
        if not (first > 127).any():
            small = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1), at + 1
        words = self.words[at]
        ends = ~words & _GOES_ON
        last = ends & (_ZERO - ends)  # the lowest bit that is set: that of the byte that ends the number
        long = last == 0
        words &= (last << _ONE) - _ONE
        words &= _BITS
        for low, high, shift in _PAIRS:
            words = (words & low) | ((words & high) >> shift)
        sizes = (np.bitwise_count(last - _ONE) + 1).astype(np.int64) >> 3
        if long.any():
            words, sizes = self._long(at, words, sizes, long)
        found = (words >> _ONE) ^ (_ZERO - (words & _ONE))
        return found.view(np.int64), at + sizes

    def _long(
        self, at: Places, words: NDArray[np.uint64], sizes: Places, long: NDArray[np.bool]
    ) -> tuple[NDArray[np.uint64], Places]:
        """The same of numbers of nine and ten bytes."""
        places = at[long] + 8
        ninth, tenth = self.bytes[places].astype(np.uint64), self.bytes[places + 1].astype(np.uint64)
        goes_on = ninth > 127
        if (tenth[goes_on] > 1).any():
            raise MisfitError  # more than 64 bits
        more = (ninth & np.uint64(127)) << _LAST
        more[goes_on] |= tenth[goes_on] << np.uint64(63)
        words[long] |= more
        sizes[long] = 9 + goes_on
        return words, sizes

    def sized(self, at: Places) -> tuple[Places, Places]:
        """Where values begin and end that have their length before them."""
        sizes, starts = self.numbers(at)
        if sizes.view(np.uint64).max() > len(self.data):  # or it is below nought
            raise MisfitError
        return starts, starts + sizes

    def parts(self, starts: Places, ends: Places) -> list[bytes]:
        """The bytes between places."""
        data = self.data
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def texts(self, starts: Places, ends: Places) -> list[str]:
        """The texts between places."""
        text, first = self.text, self.text[starts[0] : ends[0]]
        size = len(first)
        if (
            size <= 32
            and first == text[starts[-1] : ends[-1]]
            and first.isascii()
            and (ends - starts == size).all()
        ):
            spans = starts[:, None] + np.arange(size)
            if (self.bytes[spans] == self.bytes[spans[0]]).all():  # as the name of a state in many rows is
                return [first] * starts.size
        found = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        if "".join(found).isascii():
            return found
        return [part.decode() for part in self.parts(starts, ends)]


class BatchReader:
    """Reads bodies of a schema.

    Args:
        parsed: the schema, as fastavro has parsed it.
        reads: the fields of an envelope that are wanted, such as ``after`` and ``source.ts_us``; others are left out. None: all.
    """

    def __init__(self, parsed: Any, reads: Collection[str] | None = None) -> None:
        self._read = _Reader(reads if _is_envelope(parsed) else None).of(parsed)

    def __call__(self, messages: Sequence[bytes], header: int) -> list[Any]:
        """The values of messages.

        Args:
            header: how many bytes stand before each body.

        Raises:
            MisfitError: one of them does not follow the schema.
        """
        values = self.column(messages, header)
        try:
            return values()
        except MISREAD as error:
            raise MisfitError from error

    def column(self, messages: Sequence[bytes], header: int) -> Column:
        """The same, not made yet: texts may turn out not to be UTF-8, and decimals longer than any database's, when they are made.

        Raises:
            MisfitError: one of them does not follow the schema.
        """
        bodies = _Bodies(messages)
        ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) + header
        try:
            values, at = self._read(bodies, starts)
        except MISREAD as error:
            raise MisfitError from error
        if not np.array_equal(at, ends):
            raise MisfitError
        return values


def _is_envelope(schema: Any) -> bool:
    return (
        isinstance(schema, dict)
        and schema["type"] == "record"
        and _ENVELOPE.issubset(field["name"] for field in schema["fields"])
    )


class _Reader:
    """Makes the readers of one schema, whose named types may be referred to.

    Args:
        reads: see `BatchReader`; of the next record.
    """

    def __init__(self, reads: Collection[str] | None) -> None:
        self._named: dict[str, Any] = {}
        self._reads = reads

    def of(self, schema: Any) -> _Read:
        """What reads values of a schema.

        Raises:
            ValueError, LookupError: it has something that is none of Connect's.
        """
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            schema = self._named.get(schema) or {"type": schema}
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind)
        if kind in ("record", "enum", "fixed"):
            self._named[schema["name"]] = schema
        match kind:
            case "record":
                return self._record(schema)
            case "array" | "map":
                return self._one_by_one(schema)
            case "bytes" | "fixed":
                return _bytes(schema)
            case "enum":
                return _symbols(schema["symbols"])
            case _:
                return _PLAIN[kind]

    def _union(self, branches: list[Any]) -> _Read:
        if branches == ["null"] or len(branches) > 2 or (len(branches) == 2 and "null" not in branches):
            raise ValueError("a union of several types")
        present = next(place for place, branch in enumerate(branches) if branch != "null")
        read = self.of(branches[present])
        is_optional = len(branches) == 2

        def union(bodies: _Bodies, at: Places) -> _Found:
            branch = bodies.bytes[at]
            at = at + 1
            here = branch == 2 * present
            if here.all():
                return read(bodies, at)
            if not is_optional or (branch[~here] != 2 * (1 - present)).any():
                raise MisfitError
            count, places = at.size, np.flatnonzero(here)
            if not places.size:
                return OptionalColumn(None, places.tolist, count), at
            values, at[places] = read(bodies, at[places])
            return OptionalColumn(values, places.tolist, count), at

        return union

    def _record(self, schema: dict[str, Any]) -> _Read:
        wanted, reads, names = self._reads, [], []
        for field in schema["fields"]:
            name = field["name"]
            is_wanted = wanted is None or name in wanted
            within = {path.partition(".")[2] for path in wanted or () if path.startswith(f"{name}.")}
            self._reads = within if within and not is_wanted else None
            if is_wanted or within:
                names.append(name)
            reads.append((self.of(field["type"]), is_wanted or bool(within)))
        self._reads = None
        made = _maker(names)

        def record(bodies: _Bodies, at: Places) -> _Found:
            columns, count = [], at.size
            for read, is_wanted in reads:
                values, at = read(bodies, at)
                if is_wanted:
                    columns.append(values)
            fields = dict(zip(names, columns, strict=True))
            return StructColumn(fields, count, made, bodies.data.__contains__), at

        return record

    def _one_by_one(self, schema: Any) -> _Read:
        """Of what has any number of parts."""
        read = compile_reader(schema, self._named)

        def collections(bodies: _Bodies, at: Places) -> _Found:
            data = bodies.data
            found = [read(data, place) for place in at.tolist()]
            return lambda: [value for value, _ in found], np.array([end for _, end in found], np.int64)

        return collections


def _maker(names: Sequence[str]) -> Callable[[list[list[Any]], int], list[dict[str, Any]]]:
    """Makes so many dicts of the values of fields; the code is that of a display, which takes half the time of ``dict(zip(...))``."""
    if not names:
        return lambda _, count: [{} for _ in range(count)]
    variables = [f"v{number}" for number in range(len(names))]
    members = ", ".join(f"{name!r}: {variable}" for name, variable in zip(names, variables, strict=True))
    code = f"lambda columns, _: [{{{members}}} for {', '.join(variables)}, in zip(*columns, strict=True)]"
    made: Callable[[list[list[Any]], int], list[dict[str, Any]]] = eval(code)  # noqa: S307 - names of fields as literals
    return made


def _numbers(bodies: _Bodies, at: Places) -> _Found:
    found, at = bodies.numbers(at)
    return found.tolist, at


def _strings(bodies: _Bodies, at: Places) -> _Found:
    starts, ends = bodies.sized(at)
    return partial(bodies.texts, starts, ends), ends


def _bytes(schema: dict[str, Any]) -> _Read:
    size = int(schema["size"]) if schema["type"] == "fixed" else None
    scale = int(schema.get("scale", 0)) if schema.get("logicalType") == "decimal" else None

    def read(bodies: _Bodies, at: Places) -> _Found:
        starts, ends = bodies.sized(at) if size is None else (at, at + size)
        if scale is None:
            return partial(bodies.parts, starts, ends), ends
        return lambda: [decimal_from_bytes(part, scale) for part in bodies.parts(starts, ends)], ends

    return read


def _symbols(symbols: Sequence[str]) -> _Read:
    def read(bodies: _Bodies, at: Places) -> _Found:
        found, at = bodies.numbers(at)
        if found.min() < 0 or found.max() >= len(symbols):
            raise MisfitError
        return lambda: [symbols[number] for number in found.tolist()], at

    return read


def _booleans(bodies: _Bodies, at: Places) -> _Found:
    return (bodies.bytes[at] != 0).tolist, at + 1


def _floats(bodies: _Bodies, at: Places) -> _Found:
    return bodies.words[at].astype(np.uint32).view("<f4").tolist, at + 4


def _doubles(bodies: _Bodies, at: Places) -> _Found:
    return bodies.words[at].view("<f8").tolist, at + 8


_PLAIN: Final[dict[str, _Read]] = {
    "int": _numbers,
    "long": _numbers,
    "string": _strings,
    "boolean": _booleans,
    "float": _floats,
    "double": _doubles,
}
