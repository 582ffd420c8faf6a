"""A column's type in the database as parameters of its schema (``*.propagate.source.type``), whatever the database. Pure.

Reference: ``io.debezium.relational.mapping.PropagateSourceMetadataToSchemaParameter``.
"""

from typing import Final

_PREFIX: Final = "__debezium.source.column."


def told_type(
    column: str, type_name: str, length: int | None, scale: int | None, comment: str = ""
) -> dict[str, str]:
    """The parameters.

    Args:
        column: its name in the database.
        length: None: the type has none; so of `scale`.
        comment: empty: it has none, or none is told.
    """
    told = {"type": type_name.upper()}
    if length is not None:
        told["length"] = str(length)
    if scale is not None:
        told["scale"] = str(scale)
    if comment:
        told["comment"] = comment
    told["name"] = column
    return {f"{_PREFIX}{name}": value for name, value in told.items()}
