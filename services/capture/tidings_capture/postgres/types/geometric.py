"""point, box, lseg, path, polygon, circle, line; and PostGIS's geometry and geography.

The shapes become little-endian WKB (OGC Simple Features, "Well-known Binary") in Debezium's ``Geometry``, with what WKB
cannot say (which PostgreSQL type it was, whether a path is closed) in its ``extensions``; circles and lines, which WKB
does not know, have structs of their own. PostGIS writes hexadecimal EWKB, which is passed on as it is with its SRID.
"""

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidings_capture.cdc.types.conversion import CellError, Conversion, NoRepresentationError
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_DOUBLE: Final = ConnectSchema(ConnectType.FLOAT64)
_SRID: Final = Field("srid", ConnectSchema(ConnectType.INT32, optional=True))
_WKB: Final = Field("wkb", ConnectSchema(ConnectType.BYTES))
_STRING: Final = ConnectSchema(ConnectType.STRING)


def _struct(
    name: str, version: int, doc: str, fields: Sequence[Field], *, optional: bool = False
) -> ConnectSchema:
    return ConnectSchema(
        ConnectType.STRUCT,
        name=f"io.debezium.data.geometry.{name}",
        version=version,
        doc=doc,
        fields=tuple(fields),
        optional=optional,
    )


POINT: Final = _struct(
    "Point",
    1,
    "Geometry (POINT)",
    (Field("x", _DOUBLE), Field("y", _DOUBLE), Field("wkb", _WKB.schema.as_optional()), _SRID),
)
GEOMETRY: Final = _struct(
    "Geometry",
    2,
    "Geometry",
    (
        _WKB,
        _SRID,
        Field("extensions", ConnectSchema(ConnectType.MAP, optional=True, keys=_STRING, items=_STRING)),
    ),
    optional=True,
)
"""Optional whatever the column says, like the next two: so Debezium builds them."""
CIRCLE: Final = _struct(
    "Circle", 1, "Geometry (CIRCLE)", (Field("center", POINT), Field("radius", _DOUBLE)), optional=True
)
LINE: Final = _struct(
    "Line", 1, "Geometry (LINE)", [Field(name, _DOUBLE) for name in ("a", "b", "c")], optional=True
)
GEOGRAPHY: Final = _struct("Geography", 1, "Geography", (_WKB, _SRID))

_NUMBER: Final = rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|Infinity|NaN)"
_PAIR = re.compile(rb"\((" + _NUMBER + rb"),(" + _NUMBER + rb")\)")
_SEPARATORS: Final = b"()[]{}<>,"
_WKB_POINT, _WKB_LINE_STRING, _WKB_POLYGON = 1, 2, 3
_EWKB_SRID: Final = 0x20000000
_EMPTY_COLLECTION: Final = bytes.fromhex("010700000000000000")
_SHORTEST_EWKB: Final = 9

_Points = list[tuple[float, float]]


def _points(cell: bytes, what: str) -> _Points:
    """The points of a cell, of which nothing but brackets and commas may be left."""
    points = [(float(x), float(y)) for x, y in _PAIR.findall(cell)]
    if not points or _PAIR.sub(b"", cell).translate(None, _SEPARATORS):
        raise CellError(f"not {what}")
    return points


def _numbers(cell: bytes, count: int, what: str) -> list[float]:
    numbers = [float(part) for part in cell.translate(None, b"()<>{}").split(b",")]
    if len(numbers) != count:
        raise CellError(f"not {what}")
    return numbers


def _point_value(x: float, y: float) -> dict[str, Any]:
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, _WKB_POINT, x, y), "srid": None}


def _coordinates(points: _Points) -> bytes:
    return struct.pack("<I", len(points)) + b"".join([struct.pack("<dd", x, y) for x, y in points])


def _shape(kind: str, wkb: bytes, **extensions: str) -> dict[str, Any]:
    return {"wkb": wkb, "srid": None, "extensions": {"type": kind, **extensions}}


def _line_string(kind: str, points: _Points, **extensions: str) -> dict[str, Any]:
    return _shape(kind, struct.pack("<BI", 1, _WKB_LINE_STRING) + _coordinates(points), **extensions)


def _ring(kind: str, points: _Points) -> dict[str, Any]:
    return _shape(kind, struct.pack("<BII", 1, _WKB_POLYGON, 1) + _coordinates(points))


def convert_point(cell: bytes) -> dict[str, Any]:
    ((x, y),) = _points(cell, "a point")
    return _point_value(x, y)


def convert_box(cell: bytes) -> dict[str, Any]:
    """The rectangle's ring, from the upper right corner, which PostgreSQL writes first, and back."""
    (x1, y1), (x2, y2) = _points(cell, "a box")
    return _ring("box", [(x1, y1), (x1, y2), (x2, y2), (x2, y1), (x1, y1)])


def convert_lseg(cell: bytes) -> dict[str, Any]:
    start, end = _points(cell, "a line segment")
    return _line_string("lseg", [start, end])


def convert_path(cell: bytes) -> dict[str, Any]:
    closed = "false" if cell.startswith(b"[") else "true"
    return _line_string("path", _points(cell, "a path"), closed=closed)


def convert_polygon(cell: bytes) -> dict[str, Any]:
    """The ring, closed where it is not."""
    points = _points(cell, "a polygon")
    if len(points) > 1 and points[0] != points[-1]:
        points.append(points[0])
    return _ring("polygon", points)


def convert_circle(cell: bytes) -> dict[str, Any]:
    x, y, radius = _numbers(cell, 3, "a circle")
    return {"center": _point_value(x, y), "radius": radius}


def convert_line(cell: bytes) -> dict[str, Any]:
    a, b, c = _numbers(cell, 3, "a line")
    return {"a": a, "b": b, "c": c}


def convert_ewkb(cell: bytes) -> dict[str, Any]:
    """PostGIS's hexadecimal EWKB: the bytes, and the SRID where they have one.

    Format: PostGIS, ``doc/ZMSgeoms.txt``: byte order, type with flags, then the SRID where flag 0x20000000 is set.
    """
    octets = bytes.fromhex(cell.decode("ascii"))
    if len(octets) < _SHORTEST_EWKB:
        raise NoRepresentationError("shorter than the shortest EWKB")
    order = "<" if octets[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", octets, 1)
    srid = struct.unpack_from(f"{order}i", octets, 5)[0] if kind & _EWKB_SRID else None
    return {"wkb": octets, "srid": srid, "extensions": None}


def _unit(kind: str) -> dict[str, Any]:
    """What Debezium invents for a null that the column does not allow: a small valid shape."""
    if kind == "box":
        return _ring(kind, [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
    if kind == "polygon":
        return _ring(kind, [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
    return _line_string(kind, [(0.0, 0.0), (1.0, 0.0)])


def _geometry(kind: str, convert: Callable[[bytes], Any]) -> Conversion:
    return Conversion(GEOMETRY, convert, _unit(kind))


_EMPTY: Final = {"wkb": _EMPTY_COLLECTION, "srid": None, "extensions": None}

CONVERSIONS: Final = {
    "point": Conversion(POINT, convert_point, _point_value(0.0, 0.0)),
    "box": _geometry("box", convert_box),
    "lseg": _geometry("lseg", convert_lseg),
    "path": _geometry("path", convert_path),
    "polygon": _geometry("polygon", convert_polygon),
    "circle": Conversion(CIRCLE, convert_circle, {"center": _point_value(0.0, 0.0), "radius": 0.0}),
    "line": Conversion(LINE, convert_line, {"a": 0.0, "b": 1.0, "c": 0.0}),
    "geometry": Conversion(GEOMETRY, convert_ewkb, _EMPTY),
    "geography": Conversion(GEOGRAPHY, convert_ewkb, _EMPTY),
}
"""By type name."""
