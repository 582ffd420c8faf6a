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
    """By code in which a field of the right class costs one look; what is not is looked at by the field's own check."""
    fields = frozenset(field.name for field in schema.fields)

    def unknown(value: Any) -> DataError:
        found = sorted(str(name) for name in value.keys() - fields)
        return DataError(f"{where} has fields that its schema does not have: {', '.join(found)}")

    names: dict[str, Any] = {
        "Decimal": Decimal,
        "names": fields,
        "misfit": lambda value: _mismatch(where, "struct", value),
        "unknown": unknown,
    }
    lines = [
        "def check(value):",
        " if not isinstance(value, dict):",
        "  raise misfit(value)",
        " get = value.get",
    ]
    for place, field in enumerate(schema.fields):
        names[f"check_{place}"] = compile_check(field.schema, f"field {field.name}")
        lines += [
            f" item = get({field.name!r})",
            f" if {_looked_at(field.schema)}:",
            f"  check_{place}(item)",
        ]
    lines += [f" if len(value) > {len(fields)} or not value.keys() <= names:", "  raise unknown(value)"]
    exec("\n".join(lines), names)  # noqa: S102 - numbers of our own, and names of fields as literals
    check: Check = names["check"]
    return check


def _looked_at(schema: ConnectSchema) -> str:
    """Whether an item has to be looked at by its own check."""
    if schema.type in _BITS:
        limit = 1 << _BITS[schema.type] - 1
        return f"item.__class__ is not int or not {-limit} <= item < {limit}"
    if schema.name == CONNECT_DECIMAL:
        return "item.__class__ is not Decimal"
    found = _CLASSES.get(schema.type)
    return "True" if found is None else f"item.__class__ is not {found.__name__}"


def _items(item: Check, wanted: type, where: str) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, wanted) or not isinstance(value, (list, dict)):
            raise _mismatch(where, wanted.__name__, value)
        for member in value.values() if isinstance(value, dict) else value:
            item(member)

    return check
