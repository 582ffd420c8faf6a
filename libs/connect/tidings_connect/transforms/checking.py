"""Whether a value that a transform made fits its schema: what Java's ``Struct.validate`` finds out.

The codecs trust their input, because plans make no mistakes; transforms do, one's own most of all.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from tidings_connect.transforms.record import DataError
from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType

Check = Callable[[Any], None]

_CLASSES: Final[Mapping[ConnectType, type]] = {
    ConnectType.BOOLEAN: bool,
    ConnectType.STRING: str,
    ConnectType.BYTES: bytes,
    ConnectType.FLOAT32: float,
    ConnectType.FLOAT64: float,
}
_BITS: Final = {ConnectType.INT8: 8, ConnectType.INT16: 16, ConnectType.INT32: 32, ConnectType.INT64: 64}


def compile_check(schema: ConnectSchema, where: str = "the value") -> Check:
    """A function that raises `DataError`, naming the field, where a value does not fit."""
    present = _present(schema, where)

    def check(value: Any) -> None:
        if value is not None:
            present(value)
        elif not schema.optional and schema.default is NO_DEFAULT:
            raise DataError(
                f"Invalid value: null used for required {where}, schema type: {schema.type.value}"
            )

    return check


def _present(schema: ConnectSchema, where: str) -> Check:
    match schema.type:
        case ConnectType.STRUCT:
            return _struct(schema, where)
        case ConnectType.ARRAY if schema.items is not None:
            return _items(compile_check(schema.items, f"an item of {where}"), list, where)
        case ConnectType.MAP if schema.items is not None:
            return _items(compile_check(schema.items, f"an item of {where}"), dict, where)
        case _ if schema.type in _BITS:
            return _integer(schema, where)
        case _:
            wanted = Decimal if schema.name == CONNECT_DECIMAL else _CLASSES.get(schema.type, object)
            return _class(wanted, schema, where)


def _mismatch(where: str, wanted: str, value: Any) -> DataError:
    return DataError(f"{where} is of type {type(value).__name__}, but its schema is of type {wanted}")


def _class(wanted: type, schema: ConnectSchema, where: str) -> Check:
    def check(value: Any) -> None:
        if value.__class__ is not wanted and not isinstance(value, wanted):
            raise _mismatch(where, schema.type.value, value)

    return check


def _integer(schema: ConnectSchema, where: str) -> Check:
    limit = 1 << _BITS[schema.type] - 1

    def check(value: Any) -> None:
        if value.__class__ is not int:
            raise _mismatch(where, schema.type.value, value)
        if not -limit <= value < limit:
            raise DataError(f"{where} is out of the range of {schema.type.value}")

    return check


def _struct(schema: ConnectSchema, where: str) -> Check:
    checks = [(field.name, compile_check(field.schema, f"field {field.name}")) for field in schema.fields]
    names = frozenset(name for name, _ in checks)

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise _mismatch(where, "struct", value)
        for name, field in checks:
            field(value.get(name))
        if len(value) > len(names) or not value.keys() <= names:
            unknown = sorted(str(name) for name in value.keys() - names)
            raise DataError(f"{where} has fields that its schema does not have: {', '.join(unknown)}")

    return check


def _items(item: Check, wanted: type, where: str) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, wanted) or not isinstance(value, (list, dict)):
            raise _mismatch(where, wanted.__name__, value)
        for member in value.values() if isinstance(value, dict) else value:
            item(member)

    return check
