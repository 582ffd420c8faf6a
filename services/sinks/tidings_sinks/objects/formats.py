"""How records become an object's bytes. The same records make the same bytes, whenever and in whatever batches they come."""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
from pyarrow import parquet

from tidings_connect.converters.encoding import JsonConverter
from tidings_connect.data.errors import DataError
from tidings_connect.transforms.checking import compile_check
from tidings_connect.transforms.encoding import Encoding
from tidings_envelope.avro.codec import AvroCodec, long_avro
from tidings_envelope.avro.schema import avro_schema_json
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.json_codec import DecimalFormat, JsonCodec
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_sinks.arrow_columns import type_of
from tidings_sinks.errors import RowError

_ROW_GROUP: Final = 1 << 16
_AVRO_BLOCK: Final = 1 << 16
_MAGIC: Final = b"Obj\x01"


class Rows(Protocol):
    """The rows of one object, in order; all are of one schema."""

    def finish(self, name: str) -> bytes:
        """The object."""
        ...

    def compact(self) -> None:
        """Keep nothing but its own rows."""
        ...

    def add(self, row: Any) -> None:
        """One that `Format.encoded` gave."""
        ...


class Format(Protocol):
    """A format of objects."""

    extension: str

    def encoded(self, schema: ConnectSchema | None, values: Sequence[Any]) -> Sequence[Any]:
        """Values as rows; a `RowError` in place of one that cannot be one."""
        ...

    def rows(self, schema: ConnectSchema | None) -> Rows:
        """A new object's, for rows of a schema."""
        ...


class JsonFormat:
    """JSON lines, as the JsonConverter writes values without their schemas; also of values that have none."""

    def __init__(self, compression: str, decimals: str) -> None:
        self._gzip = compression == "gzip"
        self.extension = ".json.gz" if self._gzip else ".json"
        codec = JsonCodec(decimal_format=DecimalFormat(decimals.lower()))
        self._encoding = Encoding(JsonConverter(codec, schemas_enable=False))

    def encoded(self, schema: ConnectSchema | None, values: Sequence[Any]) -> Sequence[Any]:
        """See `Format.encoded`."""
        return [self._one(schema, value) for value in values]

    def _one(self, schema: ConnectSchema | None, value: Any) -> bytes | RowError:
        try:
            return (self._encoding("", schema, value, trusted=False) or b"null") + b"\n"
        except (DataError, EnvelopeError) as error:
            return RowError(f"{error}")

    def rows(self, schema: ConnectSchema | None) -> Rows:  # noqa: ARG002 - lines have none
        """See `Format.rows`."""
        return _Lines(compressed=self._gzip)


class _Lines:
    def __init__(self, *, compressed: bool) -> None:
        self._lines: list[bytes] = []
        self._gzip = compressed

    def add(self, row: bytes) -> None:
        self._lines.append(row)

    def compact(self) -> None:
        pass

    def finish(self, name: str) -> bytes:  # noqa: ARG002 - it is not in it
        data = b"".join(self._lines)
        return gzip.compress(data, mtime=0) if self._gzip else data


class AvroFormat:
    """Avro's container files, with the schema that the AvroConverter would register."""

    extension = ".avro"

    def __init__(self, codec: str) -> None:
        self._deflate = codec == "deflate"
        self._known: dict[int, tuple[ConnectSchema, Any, Any]] = {}

    def encoded(self, schema: ConnectSchema | None, values: Sequence[Any]) -> Sequence[Any]:
        """See `Format.encoded`."""
        if schema is None:
            return [RowError("a value without a schema cannot be written in Avro")] * len(values)
        try:
            known = self._known.get(id(schema))
            if known is None:
                if len(self._known) > 1000:
                    self._known.clear()
                avro_schema_json(schema)
                encode = AvroCodec(replace_null_with_default=False).encoder(schema)
                known = self._known[id(schema)] = (schema, encode, compile_check(schema))
        except EnvelopeError as error:
            return [RowError(f"{error}")] * len(values)
        _, encode, check = known
        return [_checked(check, encode, value) for value in values]

    def rows(self, schema: ConnectSchema | None) -> Rows:
        """See `Format.rows`."""
        assert schema is not None
        return _Container(avro_schema_json(schema), deflate=self._deflate)


def _checked(check: Any, encode: Any, value: Any) -> bytes | RowError:
    try:
        check(value)
        data: bytes = encode(value)
    except (DataError, EnvelopeError) as error:
        return RowError(f"{error}")
    return data


class _Container:
    """https://avro.apache.org/docs/1.12.0/specification/#object-container-files"""

    def __init__(self, schema: str, *, deflate: bool) -> None:
        self._schema = schema
        self._deflate = deflate
        self._rows: list[bytes] = []

    def add(self, row: bytes) -> None:
        self._rows.append(row)

    def compact(self) -> None:
        pass

    def finish(self, name: str) -> bytes:
        mark = hashlib.md5(
            name.encode(), usedforsecurity=False
        ).digest()  # random elsewhere: a replay's would be another
        out = io.BytesIO()
        codec = b"deflate" if self._deflate else b"null"
        meta = {b"avro.schema": json.dumps(json.loads(self._schema)).encode(), b"avro.codec": codec}
        out.write(_MAGIC + long_avro(len(meta)))
        for key, value in meta.items():
            out.write(long_avro(len(key)) + key + long_avro(len(value)) + value)
        out.write(long_avro(0) + mark)
        block: list[bytes] = []
        size = 0
        for row in self._rows:
            block.append(row)
            size += len(row)
            if size >= _AVRO_BLOCK:
                self._end(out, block, mark)
                block, size = [], 0
        if block:
            self._end(out, block, mark)
        return out.getvalue()

    def _end(self, out: io.BytesIO, block: list[bytes], mark: bytes) -> None:
        data = b"".join(block)
        if self._deflate:
            made = zlib.compressobj(wbits=-15)
            data = made.compress(data) + made.flush()
        out.write(long_avro(len(block)) + long_avro(len(data)) + data + mark)


class ParquetFormat:
    """Parquet files. A struct's fields are the columns."""

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self.extension = {"none": "", "snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd"}[codec] + ".parquet"
        self._known: dict[int, tuple[ConnectSchema, pa.Schema, Any]] = {}

    def encoded(self, schema: ConnectSchema | None, values: Sequence[Any]) -> Sequence[Any]:
        """See `Format.encoded`."""
        try:
            arrow, convert = self._schema(schema)
        except RowError as error:
            return [error] * len(values)
        try:
            batch = _batch(arrow, convert, values)
            return [(batch, number) for number in range(len(values))]
        except _NOT_FITTING:
            return [self._alone(arrow, convert, value) for value in values]

    def _alone(self, arrow: pa.Schema, convert: Any, value: Any) -> Any:
        try:
            return _batch(arrow, convert, [value]), 0
        except _NOT_FITTING:
            return RowError(f"column {_wrong_column(arrow, convert, value)} does not take its value")

    def _schema(self, schema: ConnectSchema | None) -> tuple[pa.Schema, Any]:
        if schema is None or schema.type is not ConnectType.STRUCT:
            raise RowError("only a struct with a schema can be written in Parquet")
        known = self._known.get(id(schema))
        if known is None:
            if len(self._known) > 1000:
                self._known.clear()
            kind, convert = type_of(schema)
            known = self._known[id(schema)] = (schema, pa.schema(list(kind)), convert)
        return known[1], known[2]

    def rows(self, schema: ConnectSchema | None) -> Rows:
        """See `Format.rows`."""
        return _Table(self._schema(schema)[0], self._codec)


_NOT_FITTING: Final = (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError, AttributeError)
"""What Arrow and the conversions say of a value of another type."""


def _batch(arrow: pa.Schema, convert: Any, values: Sequence[Any]) -> pa.RecordBatch:
    found = values if convert is None else [convert(value) for value in values]
    made = pa.RecordBatch.from_arrays(
        [pa.array([value.get(field.name) for value in found], field.type) for field in arrow], schema=arrow
    )
    for field, column in zip(arrow, made.columns, strict=True):
        if not field.nullable and column.null_count:
            raise ValueError(field.name)
    made.validate(full=True)
    return made


def _wrong_column(arrow: pa.Schema, convert: Any, value: Any) -> str:
    for field in arrow:
        alone = {field.name: value.get(field.name)} if isinstance(value, dict) else {}
        try:
            _batch(pa.schema([field]), convert, [alone])
        except _NOT_FITTING:
            return str(field.name)
    return "?"


class _Table:
    def __init__(self, schema: pa.Schema, codec: str) -> None:
        self._schema, self._codec = schema, codec
        self._batches: list[pa.RecordBatch] = []
        self._from: pa.RecordBatch | None = None
        self._numbers: list[int] = []

    def add(self, row: tuple[pa.RecordBatch, int]) -> None:
        batch, number = row
        if batch is not self._from:
            self.compact()
            self._from = batch
        self._numbers.append(number)

    def compact(self) -> None:
        if self._from is not None:
            self._batches.append(self._from.take(pa.array(self._numbers, pa.int64())))
        self._from, self._numbers = None, []

    def finish(self, name: str) -> bytes:  # noqa: ARG002 - it is not in it
        self.compact()
        table = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
        out = pa.BufferOutputStream()
        parquet.write_table(
            table,
            out,
            row_group_size=_ROW_GROUP,
            compression=self._codec,
            coerce_timestamps=None,
            allow_truncated_timestamps=False,
        )
        data: bytes = out.getvalue().to_pybytes()
        return data
