"""Java's properties files (``java.util.Properties.load``), as far as they are written here."""

import re
from collections.abc import Mapping


def properties_text(values: Mapping[str, str]) -> str:
    """A file with these values."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in values.items())


def _escaped(text: str) -> str:
    text = re.sub(r"([\\ \t=:#!])", r"\\\1", text)
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\f", "\\f")
    return re.sub(r"[^\x20-\x7e\t]", lambda match: _code_units(match[0]), text)


def _code_units(character: str) -> str:
    data = character.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))
