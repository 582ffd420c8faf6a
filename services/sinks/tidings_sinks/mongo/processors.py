"""``post.processor.chain``: what is done to the documents of key and value before they are written. Pure.

The semantics are those of MongoDB's connector (``com.mongodb.kafka.connect.sink.processor``); documents are changed in place.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings_connect.java.regex import compile_java, compile_replacement
from tidings_sinks.mongo.documents import Document
from tidings_sinks.mongo.settings import Projection, Topic

Process = Callable[[Any, Document | None], None]
"""Changes the documents of a key and of a value; the key may be a single value, which has no fields."""
_ALL: Final = "**"


def copied(value: Any) -> Any:
    """A copy of a document whose documents and lists are its own."""
    if isinstance(value, dict):
        return {name: copied(item) if isinstance(item, dict | list) else item for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def projected(document: Document, projection: Projection) -> None:
    """Leave the fields of a projection."""
    if projection.blocks:
        for field in projection.fields:
            _block(document, field)
    else:
        _allow(document, with_parents(projection.fields), "")


def with_parents(fields: frozenset[str]) -> frozenset[str]:
    """The fields, and the documents that hold them."""
    found = set(fields)
    for field in fields:
        steps = field.split(".")
        found.update(".".join(steps[:length]) for length in range(1, len(steps)))
    return frozenset(filter(None, found))


def _allow(document: Document, fields: frozenset[str], parent: str) -> None:
    if _ALL in fields:
        return
    for name, value in list(document.items()):
        path = f"{parent}.{name}" if parent else name
        if path not in fields and not _matches(path, fields):
            del document[name]
        elif f"{path}.{_ALL}" not in fields or isinstance(value, list):
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict):
                    _allow(inner, fields, path)


def _matches(path: str, fields: frozenset[str]) -> bool:
    """Whether a field with wildcards is this one: ``*`` for one step, or ``name*`` for what begins so."""
    steps = path.split(".")
    for field in fields:
        if "*" not in field:
            continue
        if "." not in field and field != "*" and field.endswith("*") and path.startswith(field[:-1]):
            return True
        wanted = field.split(".")
        if len(wanted) == len(steps) and all(w in {"*", s} for w, s in zip(wanted, steps, strict=True)):
            return True
    return False


def _block(document: Document, field: str) -> None:
    first, dot, rest = field.partition(".")
    if first in {"*", _ALL}:
        _block_each(document, first, rest)
    elif not dot:
        if field.endswith("*"):
            for name in [name for name in document if name.startswith(field[:-1])]:
                del document[name]
        else:
            document.pop(field, None)
    else:
        value = document.get(first)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                _block(inner, rest)


def _block_each(document: Document, wildcard: str, rest: str) -> None:
    for name, value in list(document.items()):
        if wildcard == _ALL or not isinstance(value, dict):
            del document[name]
        elif rest:
            _block(value, rest)


def without_nulls(document: Document) -> None:
    """Remove the fields that are null, also of documents in it."""
    for name, value in list(document.items()):
        if value is None:
            del document[name]
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                without_nulls(inner)


def renamed(document: Document, path: str, new_name: Callable[[str, str], str]) -> None:
    """Rename fields; those that get a new name stand last. A name that is taken is not given: the field keeps its own."""
    last: Document = {}
    for name, value in list(document.items()):
        new = new_name(path, name)
        if new != name and new not in document and new not in last:
            last[new] = document.pop(name)
        else:
            new = name
        if isinstance(value, dict):
            renamed(value, f"{path}.{new}", new_name)
    document.update(last)


def _by_mapping(renames: Mapping[str, str]) -> Callable[[str, str], str]:
    return lambda path, name: renames.get(f"{path}.{name}", name)


def _by_regexps(settings: tuple[tuple[str, str, str], ...]) -> Callable[[str, str], str]:
    compiled = []
    for regexp, pattern, replace in settings:
        searched = compile_java(pattern)
        compiled.append((compile_java(regexp), searched, compile_replacement(searched, replace)))

    def new_name(path: str, name: str) -> str:
        found = name
        for regexp, searched, replacement in compiled:
            if regexp.matches(f"{path}.{name}"):
                found = searched.replace_all(replacement, found)
        return found

    return new_name


def _on_both(change: Callable[[Document, str], None]) -> Process:
    def process(key: Any, value: Document | None) -> None:
        if isinstance(key, dict):
            change(key, "key")
        if value is not None:
            change(value, "value")

    return process


def _on(side: str, change: Callable[[Document], None]) -> Process:
    def process(key: Any, value: Document | None) -> None:
        document = key if side == "key" else value
        if isinstance(document, dict):
            change(document)

    return process


def process_of(name: str, topic: Topic) -> Process | None:
    """What a link of the chain does; None: nothing. Not those that need the record itself (``id``, ``meta``)."""
    if name == "nulls":
        return _on("value", without_nulls)
    if name == "rename":
        names = _by_mapping(topic.renames)
        return _on_both(lambda document, side: renamed(document, side, names)) if topic.renames else None
    if name == "regexp":
        by_regexps = _by_regexps(topic.regexps)
        return _on_both(lambda document, side: renamed(document, side, by_regexps)) if topic.regexps else None
    kind, _, side = name.partition(".")
    projection = Projection(
        topic.key_projection if side == "key" else topic.value_projection, kind == "block"
    )
    return _on(side, lambda document: projected(document, projection))
