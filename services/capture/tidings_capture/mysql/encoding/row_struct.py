"""The code that writes a struct of a row's cells, a row or its key: generated functions are put together from it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidings_capture.cdc.encoding.snippets import LOOK_AGAIN
from tidings_capture.mysql.binlog.row_code import Code
from tidings_capture.mysql.encoding.fields import RowField, StructFields
from tidings_connect.converters.encoding import Converter
from tidings_envelope import semantic
from tidings_envelope.codec import Codec
from tidings_envelope.json_codec import JsonCodec


@dataclass(slots=True)
class Piece:
    """What becomes of one field."""

    lines: list[str]
    """The code that makes it of its cell."""
    result: str
    """What it is then: an expression."""
    format: str = "%b"
    """How it is written: as bytes, or as a number."""
    before: bytes = b""
    """What always stands before it."""
    is_loose: bool = False
    """Whether it is a text that is written without a look at what JSON writes otherwise."""


_NOT_NULL: Final = "raise ValueError('a null in a column that allows none')"
PieceMaker = Callable[[str, int, RowField], Piece]
"""Makes the code for one field, by a name for variables of its own, its column's number and the field. The cell is in a variable
``v`` with that number."""
_LOOK_AGAIN: Final = "ESCAPE in row and CONTROL in row or not row.isascii() and ASTRAL(row)"
"""What `cdc.encoding.snippets.LOOK_AGAIN` looks for."""


class RowStructs:
    """The code that makes ``row`` and ``key`` of the cells, encoded.

    Args:
        row: the row's struct.
        key: the key's; None: the table has none, and ``key`` is None.
        topic: the table's.
        converters: for keys and values; both have codecs.
        code: has the names that the code uses.
        pieces: gives what makes the code for the fields in one codec.
    """

    def __init__(
        self,
        row: StructFields,
        key: StructFields | None,
        topic: str,
        converters: tuple[Converter, Converter],
        code: Code,
        pieces: Callable[[Codec], PieceMaker],
    ) -> None:
        key_codec, value_codec = (converter.codec for converter in converters)
        code.names.update(LOOK_AGAIN[1])
        self._exact = Struct("x", row, pieces(value_codec), value_codec, code)
        self._loose = self._exact
        if isinstance(value_codec, JsonCodec):
            self._loose = Struct("r", row, pieces(value_codec), value_codec, code)
        self._key = None
        if key is not None:
            frame = converters[0].frame(topic, key.schema)
            self._key = Struct("k", key, pieces(key_codec), key_codec, code, frame.prefix, frame.suffix)

    def lines(self, nulls: int) -> list[str]:
        """For a row of which is known what is null: a bit for each column."""
        lines = [*self._loose.lines(nulls), f"row = {self._loose.joined(nulls)}"]
        if self._loose.looks_again:
            lines.append(f"if {_LOOK_AGAIN}:")
            lines += [
                f" {line}" for line in [*self._exact.lines(nulls), f"row = {self._exact.joined(nulls)}"]
            ]
        if self._key is None:
            return [*lines, "key = None"]
        return [*lines, *self._key.lines(nulls), f"key = {self._key.joined(nulls)}"]

    def null_lines(self, index: int) -> list[str]:
        """For a cell that is null."""
        return [line for struct in self._structs for line in struct.null_lines(index)]

    def present_lines(self, index: int) -> list[str]:
        """For a cell that is not null."""
        return [line for struct in self._structs for line in struct.present_lines(index)]

    def joined_lines(self) -> list[str]:
        """What stands behind `null_lines` and `present_lines` of all columns."""
        key = "None" if self._key is None else self._key.joined_any()
        return [f"row = {self._exact.joined_any()}", f"key = {key}"]

    @property
    def _structs(self) -> list["Struct"]:
        return [self._exact] if self._key is None else [self._exact, self._key]


class Struct:
    """The code that writes one struct: variables that begin with `name`, with the column's number behind.

    Args:
        name: ``r``: a row whose texts are written without a look at what JSON writes otherwise; ``x``: every text exactly;
            ``k``: a key, exactly as well.
        piece: makes the code for one field.
    """

    def __init__(
        self,
        name: str,
        fields: StructFields,
        piece: PieceMaker,
        codec: Codec,
        code: Code,
        prefix: bytes = b"",
        suffix: bytes = b"",
    ) -> None:
        self._name = name
        self._code = code
        self._is_json = isinstance(codec, JsonCodec)
        fragments = list(codec.struct_fragments(fields.schema))
        if fields.constant is not None:
            constant = codec.encoder(semantic.STRING)(fields.constant.value)
            fragments[-2:] = [fragments[-2] + constant + fragments[-1]]
        self._fragments = [prefix + fragments[0], *fragments[1:]]
        self._fragments[-1] += suffix
        self._indexes = [index for index, _ in fields.fields]
        self._pieces = {index: piece(f"{name}{index}", index, field) for index, field in fields.fields}
        self.looks_again = self._is_json and any(piece.is_loose for piece in self._pieces.values())
        """Whether a row that is written has to be looked at by `_LOOK_AGAIN`."""
        self._required = {index for index, field in fields.fields if not field.schema.optional}
        self._nulls = {
            index: codec.encoder(field.schema)(field.null) if field.schema.optional else b""
            for index, field in fields.fields
        }

    def lines(self, nulls: int) -> list[str]:
        """What makes the pieces that are not null."""
        if any(nulls >> index & 1 for index in self._required):
            return [_NOT_NULL]
        return [line for i in self._indexes if not nulls >> i & 1 for line in self._pieces[i].lines]

    def joined(self, nulls: int) -> str:
        """An expression for the whole."""
        if not self._is_json:
            parts: list[str | bytes] = []
            for fragment, index in zip(self._fragments, self._indexes, strict=False):
                piece = self._pieces[index]
                null = bool(nulls >> index & 1)
                parts.append(fragment + (self._nulls[index] if null else piece.before))
                if not null:
                    parts.append(piece.result)
            return self._join([*parts, self._fragments[-1]])
        template, values = b"", ""
        for fragment, index in zip(self._fragments, self._indexes, strict=False):
            template += _escaped(fragment)
            if nulls >> index & 1:
                template += _escaped(self._nulls[index])
            else:
                template += self._pieces[index].format.encode()
                values += self._pieces[index].result + ", "
        template += _escaped(self._fragments[-1])
        return f"{self._constant(template)} % ({values})"

    def null_lines(self, index: int) -> list[str]:
        """What makes the piece of a column that is null."""
        if index not in self._pieces:
            return []
        if index in self._required:
            return [_NOT_NULL]
        return [f"{self._name}{index} = {self._constant(self._nulls[index])}"]

    def present_lines(self, index: int) -> list[str]:
        """What makes the piece of a column that is not null, as bytes."""
        if index not in self._pieces:
            return []
        piece = self._pieces[index]
        result = f"b'%d' % {piece.result}" if piece.format == "%d" else piece.result
        if piece.before:
            result = f"{self._constant(piece.before)} + {result}"
        return [*piece.lines, f"{self._name}{index} = {result}"]

    def joined_any(self) -> str:
        """An expression for the whole, of pieces that are bytes."""
        parts: list[str | bytes] = []
        for fragment, index in zip(self._fragments, self._indexes, strict=False):
            parts += [fragment, f"{self._name}{index}"]
        return self._join([*parts, self._fragments[-1]])

    def _join(self, parts: Sequence[str | bytes]) -> str:
        texts, constant = [], b""
        for part in [*parts, ""]:
            if isinstance(part, bytes):
                constant += part
                continue
            if constant:
                texts.append(self._constant(constant))
                constant = b""
            if part:
                texts.append(part)
        return f"join(({''.join(f'{text}, ' for text in texts)}))"

    def _constant(self, value: bytes) -> str:
        names = self._code.names
        names["join"] = b"".join
        for name, known in names.items():
            if name.startswith("t_") and known == value:
                return name
        return self._code.name(f"t_{len(names)}", value)


def _escaped(constant: bytes) -> bytes:
    return constant.replace(b"%", b"%%")
