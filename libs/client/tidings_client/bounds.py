"""What an Avro schema lets a body do to its reader; looked at once for each schema.

fastavro goes as deep as the schema does, in C, where too deep is the end of the process; and an item of no bytes (null, a
record without fields) may be there as often as a count of nine bytes says. A schema in which either can happen is refused:
then a body takes no more than a multiple of its own length.
"""

from typing import Any, Final

_DEEPEST: Final = 64


def check_bounded(schema: Any) -> None:
    """Whether reading a body with this parsed schema takes a bounded stack and memory.

    Raises:
        ValueError: it does not.
    """
    _least_bytes(schema, {}, 0)


def _least_bytes(schema: Any, named: dict[str, int | None], depth: int) -> int:
    """The fewest bytes of a value: nought, one, or at least one."""
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if isinstance(schema, list):
        return max(1, *(_least_bytes(branch, named, depth + 1) for branch in schema)) if schema else 1
    if isinstance(schema, str):
        known = named.get(schema, int(schema != "null"))
        if known is None:
            raise ValueError("it holds itself")
        return known
    match kind := schema["type"]:
        case "record" | "error":
            named[schema["name"]] = None
            found = [_least_bytes(field["type"], named, depth + 1) for field in schema["fields"]]
            named[schema["name"]] = least = max(found, default=0)
            return least
        case "enum":
            named[schema["name"]] = 1
            return 1
        case "fixed":
            named[schema["name"]] = least = int(schema["size"] > 0)
            return least
        case "array":
            if not _least_bytes(schema["items"], named, depth + 1):
                raise ValueError("items of no bytes may be there in any number")
            return 1
        case "map":
            _least_bytes(schema["values"], named, depth + 1)
            return 1
    return _least_bytes(kind, named, depth + 1)
