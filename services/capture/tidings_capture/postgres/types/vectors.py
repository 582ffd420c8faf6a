"""pgvector's vector, halfvec and sparsevec.

Cells: pgvector's README: ``[1,2,3]``, and ``{1:1.5,3:2}/5`` with indices from 1 and the number of dimensions.
"""

from typing import Any, Final

from tidings_capture.cdc.types.conversion import CellError, Conversion, NoRepresentationError
from tidings_envelope.java.hash_order import java_map_order
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_INT16: Final = ConnectSchema(ConnectType.INT16)
_FLOAT64: Final = ConnectSchema(ConnectType.FLOAT64)
_MAX_INT16: Final = 32_767

DOUBLE_VECTOR: Final = ConnectSchema(
    ConnectType.ARRAY, name="io.debezium.data.DoubleVector", version=1, items=_FLOAT64
)
FLOAT_VECTOR: Final = ConnectSchema(
    ConnectType.ARRAY,
    name="io.debezium.data.FloatVector",
    version=1,
    items=ConnectSchema(ConnectType.FLOAT32),
)
SPARSE_VECTOR: Final = ConnectSchema(
    ConnectType.STRUCT,
    name="io.debezium.data.SparseDoubleVector",
    version=1,
    doc="Sparse double vector",
    fields=(
        Field("dimensions", _INT16),
        Field("vector", ConnectSchema(ConnectType.MAP, keys=_INT16, items=_FLOAT64)),
    ),
)


def convert_vector(cell: bytes) -> list[float]:
    if cell[:1] != b"[" or cell[-1:] != b"]":
        raise CellError("not a vector")
    return [float(element) for element in cell[1:-1].split(b",")]


def convert_sparse_vector(cell: bytes) -> dict[str, Any]:
    """Debezium counts dimensions and indices in 16 bits; a longer vector has no representation."""
    body, slash, dimensions = cell.partition(b"/")
    if not slash or body[:1] != b"{" or body[-1:] != b"}":
        raise CellError("not a sparse vector")
    count = int(dimensions)
    if count > _MAX_INT16:
        raise NoRepresentationError("a sparse vector of more than 32767 dimensions")
    pairs = [element.split(b":") for element in body[1:-1].split(b",")] if len(body) > 2 else []
    values = {int(index): float(value) for index, value in pairs}
    return {"dimensions": count, "vector": {index: values[index] for index in java_map_order(list(values))}}


CONVERSIONS: Final = {
    "vector": Conversion(DOUBLE_VECTOR, convert_vector, []),
    "halfvec": Conversion(FLOAT_VECTOR, convert_vector, []),
    # Debezium's own stand-in for a null does not fit its schema, and its task fails
    "sparsevec": Conversion(SPARSE_VECTOR, convert_sparse_vector, {"dimensions": 0, "vector": {}}),
}
"""By type name."""
