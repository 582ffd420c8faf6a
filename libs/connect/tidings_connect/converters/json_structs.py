"""Reads structs of JSON by code that is compiled for their schemas: what is of the right type already is taken by one look at its type."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidings_envelope.schema import ConnectSchema, ConnectType

Decode = Callable[[Any], Any]
_WHOLE: Final = {ConnectType.INT8: 8, ConnectType.INT16: 16, ConnectType.INT32: 32, ConnectType.INT64: 64}
_TYPES: Final = {
    ConnectType.STRING: "str",
    ConnectType.BOOLEAN: "bool",
    ConnectType.FLOAT32: "float",
    ConnectType.FLOAT64: "float",
}
"""Of those without a name that gives their values another form, JSON's own values."""


def compile_struct(
    fields: Sequence[tuple[str, ConnectSchema, Decode]], misfit: Callable[[], Exception]
) -> Decode:
    """A function from JSON's objects to structs.

    Args:
        fields: of each its name, its schema, and what reads any value of it, or none; called for what needs more than a look.
        misfit: makes the error for what is not an object.
    """
    names: dict[str, Any] = {"misfit": misfit}
    lines = ["def read(value):", " if type(value) is not dict:", "  raise misfit()", " get = value.get"]
    for place, (name, schema, decode) in enumerate(fields):
        names[f"read_{place}"] = decode
        lines += [f" v{place} = get({name!r})", *_looked_at(f"v{place}", f"read_{place}", schema)]
    members = ", ".join(f"{name!r}: v{place}" for place, (name, _, _) in enumerate(fields))
    lines.append(f" return {{{members}}}")
    exec("\n".join(lines), names)  # noqa: S102 - numbers of our own, and names of fields as literals
    read: Decode = names["read"]
    return read


def _looked_at(value: str, decode: str, schema: ConnectSchema) -> list[str]:
    bits = _WHOLE.get(schema.type)
    if bits is not None:
        most = 1 << (bits - 1)
        looked = f"type({value}) is not int or not {-most} <= {value} < {most}"
    elif schema.type in _TYPES:
        looked = f"type({value}) is not {_TYPES[schema.type]}"
    else:
        return [f" {value} = {decode}({value})"]
    return [f" if {looked}:", f"  {value} = {decode}({value})"]
