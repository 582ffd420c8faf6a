"""Turns names of tables and columns into names of classes, fields and events."""

import itertools
import keyword
import re
from collections.abc import Container

_IRREGULAR = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "data": "data",
    "news": "news",
}
_TAKEN = frozenset(
    {"Aggregate", "Any", "Change", "Decimal", "Iterator", "None", "Row", "True", "False", "UTC", "UUID"}
)


def singular(word: str) -> str:
    """``order_items`` to ``order_item``; English words, and others as they are."""
    start, _, last = word.rpartition("_")
    head = f"{start}_" if start else ""
    if last in _IRREGULAR:
        return head + _IRREGULAR[last]
    for ending, instead in (
        ("ies", "y"),
        ("sses", "ss"),
        ("shes", "sh"),
        ("ches", "ch"),
        ("xes", "x"),
        ("zes", "ze"),
    ):
        if last.endswith(ending) and len(last) > len(ending) + 1:
            return head + last[: -len(ending)] + instead
    if last.endswith("s") and not last.endswith(("ss", "us", "is")) and len(last) > 1:
        return head + last[:-1]
    return word


def identifier(text: str) -> str:
    """A name that Python and Avro take: letters, digits, underscores, not a keyword, not with an underscore in front."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "column"
    if name[0].isdigit():
        name = f"n{name}"
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def class_name(table: str, used: Container[str], ending: str = "") -> str:
    """``public.order_items`` to ``OrderItem``; with the schema in front, or a number behind, where that is used."""
    schema, _, name = table.partition(".")
    for number in itertools.count(1):
        words = f"{schema}_{singular(name)}" if number > 1 else singular(name)
        parts = re.split(r"[_\W]+", identifier(words), flags=re.ASCII)
        found = "".join(part[:1].upper() + part[1:] for part in parts) + ending
        if number > 2:
            found += str(number)
        if found not in _TAKEN and found not in used:
            return found
    raise AssertionError


def kebab(name: str) -> str:
    """``OrderItem`` to ``order-item``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
