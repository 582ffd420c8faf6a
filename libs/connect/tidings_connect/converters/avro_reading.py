"""Reads the body of an Avro message by code that is compiled for its schema, which takes half the time of fastavro's walk over it.

Values are those that fastavro gives, but for decimals: all their digits are kept, however many the schema tells of. A schema is one that
`avro_decoding` can make a Connect schema of: without recursion, and with unions of null and one type only.

Specified by Apache Avro 1.11, "Binary encoding".
"""

from collections.abc import Callable, Mapping
from itertools import count
from struct import Struct
from typing import Any, Final

from tidings_envelope.decimals import decimal_from_bytes

Reader = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value that begins at a place of the bytes, and says where it ends; that may be behind the end of bytes which are too few."""
MISREAD: Final = (LookupError, ValueError, TypeError, ArithmeticError)
"""What a reader may raise for bytes that do not follow its schema."""
_FLOAT: Final = Struct("<f").unpack_from
_DOUBLE: Final = Struct("<d").unpack_from
_EIGHT_BYTES: Final = Struct("<Q").unpack_from
_MOST_BITS: Final = 64
_GOES_ON: Final = 0x8080808080808080
"""Of each of eight bytes the bit that says that another one follows; of a number of eight bytes, and of six, which are set."""
_EIGHT: Final = 0x0080808080808080
_FIRST_SIX: Final = 0x808080808080
_SIX: Final = 0x008080808080
_ALL_BITS: Final = 0x7F7F7F7F7F7F7F7F
_SIX_BITS: Final = 0x7F7F7F7F7F7F


def compile_reader(parsed: Any, named: Mapping[str, Any] | None = None) -> Reader:
    """A reader of a schema.

    Args:
        parsed: as fastavro has parsed it.
        named: the types that it may name without defining them.
    """
    code = _Code(named or {})
    code.body(code.function(parsed))
    exec("\n".join(code.lines), code.names)  # noqa: S102 - numbers of our own, and names of fields as literals
    reader: Reader = code.names["read"]
    return reader


def _more(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a number of several bytes, whose first one is read; without its zigzag, and where it ends."""
    byte = data[at]
    if byte < 128:
        return first - 128 + (byte << 7), at + 1
    if at + 7 > len(data):
        return _rest(data, at, first)
    # Eight bytes at once: most numbers of more than two are times in milli-, micro- or nanoseconds, of 6, 8 and 9 bytes.
    (bits,) = _EIGHT_BYTES(data, at - 1)
    goes_on = bits & _GOES_ON
    if goes_on in (_EIGHT, _GOES_ON):
        bits &= _ALL_BITS
    elif goes_on & _FIRST_SIX == _SIX:
        bits &= _SIX_BITS
    else:
        return _rest(data, at, first)
    bits = (bits & 0x007F007F007F007F) | (bits & 0x7F007F007F007F00) >> 1
    bits = (bits & 0x00003FFF00003FFF) | (bits & 0x3FFF00003FFF0000) >> 2
    bits = (bits & 0x0FFFFFFF) | (bits & 0x0FFFFFFF00000000) >> 4
    if goes_on == _EIGHT:
        return bits, at + 7
    if goes_on != _GOES_ON:
        return bits, at + 5
    ninth = data[at + 7]
    return (bits | ninth << 56, at + 8) if ninth < 128 else _rest(data, at, first)


def _rest(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The same, byte by byte."""
    number, shift = first & 127, 7
    while (byte := data[at]) > 127:
        number |= (byte & 127) << shift
        at += 1
        shift += 7
        if shift >= _MOST_BITS:
            raise ValueError("a number has more than 64 bits")
    return number | byte << shift, at + 1


def _float(data: bytes, at: int) -> float:
    return float(_FLOAT(data[at : at + 4].ljust(4, b"\0"))[0])  # what is missing is seen by the place


def _double(data: bytes, at: int) -> float:
    return float(_DOUBLE(data[at : at + 8].ljust(8, b"\0"))[0])


class _Code:
    """Collects the lines."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "more": _more,
            "float_at": _float,
            "double_at": _double,
            "decimal": decimal_from_bytes,
        }
        self._numbers = count()
        self._named = dict(named)
        self._functions: dict[str, str] = {}
        """Of records, by their names."""

    def body(self, function: str) -> None:
        """What is called from outside."""
        self.lines += [f"read = {function}"]

    def function(self, schema: Any) -> str:
        """A function that reads values of a schema; its name."""
        name, lines = f"read_{next(self._numbers)}", list[str]()
        value = self._value(schema, lines)
        self._define(name, [*lines, f"return {value}, at"])
        return name

    def _define(self, name: str, lines: list[str]) -> None:
        self.lines += [f"def {name}(data, at):", *(f" {line}" for line in lines)]

    def _value(self, schema: Any, lines: list[str]) -> str:
        """Add the lines that read a value; what it is then."""
        if isinstance(schema, list):
            return self._union(schema, lines)
        if isinstance(schema, str):
            if schema in self._named:
                return self._value(self._named[schema], lines)
            schema = {"type": schema}
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self._value(kind, lines)
        if kind in ("record", "enum", "fixed"):
            self._named[schema["name"]] = schema
        match kind:
            case "record":
                return self._called(self._record(schema), lines)
            case "array" | "map":
                return self._called(self._collection(schema), lines)
            case _:
                return self._plain(kind, schema, lines)

    def _called(self, function: str, lines: list[str]) -> str:
        value = self._local()
        lines.append(f"{value}, at = {function}(data, at)")
        return value

    def _union(self, branches: list[Any], lines: list[str]) -> str:
        value = self._local()
        lines += ["n = data[at]", "at += 1"]
        for place, branch in enumerate(branches):
            inner = list[str]()
            found = "None" if branch == "null" else self._value(branch, inner)
            lines.append(f"{'if' if not place else 'elif'} n == {2 * place}:")
            lines += [f" {line}" for line in (*inner, f"{value} = {found}")]
        lines += ["else:", " raise LookupError"]
        return value

    def _record(self, schema: dict[str, Any]) -> str:
        known = self._functions.get(schema["name"])
        if known is None:
            known, lines = f"record_{next(self._numbers)}", list[str]()
            members = [
                f"{field['name']!r}: {self._value(field['type'], lines)}" for field in schema["fields"]
            ]
            self._define(known, [*lines, f"return {{{', '.join(members)}}}, at"])
            self._functions[schema["name"]] = known
        return known

    def _collection(self, schema: dict[str, Any]) -> str:
        is_map, name, item = schema["type"] == "map", f"items_{next(self._numbers)}", list[str]()
        key = self._plain("string", {}, item) if is_map else ""
        value = self._value(schema["values" if is_map else "items"], item)
        item.append(f"found[{key}] = {value}" if is_map else f"found.append({value})")
        lines = [
            f"found = {'{}' if is_map else '[]'}",
            "while True:",
            *(f" {line}" for line in self._number("size")),
            " if not size:",
            "  return found, at",
            " if size < 0:",  # a count of bytes follows, for those who pass over the block
            "  size = -size",
            *(f"  {line}" for line in self._number("n")),
            " for _ in range(size):",
            *(f"  {line}" for line in item),
        ]
        self._define(name, lines)
        return name

    def _plain(self, kind: str, schema: dict[str, Any], lines: list[str]) -> str:
        value = self._local()
        match kind:
            case "int" | "long":
                lines += self._number(value)
            case "boolean":
                lines += [f"{value} = data[at] != 0", "at += 1"]
            case "float":
                lines += [f"{value} = float_at(data, at)", "at += 4"]
            case "double":
                lines += [f"{value} = double_at(data, at)", "at += 8"]
            case "string":
                lines += [*self._sized(), f"{value} = data[at:end].decode()", "at = end"]
            case "bytes":
                lines += [*self._sized(), *self._bytes(value, schema)]
            case "fixed":
                lines += [f"end = at + {int(schema['size'])}", *self._bytes(value, schema)]
            case "enum":
                symbols = self._local()
                self.names[symbols] = tuple(schema["symbols"])
                lines += [*self._number("n"), "if n < 0:", " raise LookupError", f"{value} = {symbols}[n]"]
            case _:
                raise ValueError(kind)
        return value

    def _bytes(self, value: str, schema: dict[str, Any]) -> list[str]:
        if schema.get("logicalType") != "decimal":
            return [f"{value} = data[at:end]", "at = end"]
        return [f"{value} = decimal(data[at:end], {int(schema.get('scale', 0))})", "at = end"]

    def _sized(self) -> list[str]:
        """`end` is where a value ends that has its length before it."""
        return ["n = data[at]", "at += 1", "if n > 127:", " n, at = more(data, at, n)", "if n & 1:", " raise ValueError",
                "end = at + (n >> 1)"]  # fmt: skip

    def _number(self, name: str) -> list[str]:
        return ["n = data[at]", "at += 1", "if n > 127:", " n, at = more(data, at, n)", f"{name} = n >> 1 ^ -(n & 1)"]  # fmt: skip

    def _local(self) -> str:
        return f"v{next(self._numbers)}"
