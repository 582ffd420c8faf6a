"""Reads Java's ``.properties`` files, the form of a Kafka Connect worker's configuration.

Format: ``java.util.Properties.load(InputStream)``: ISO 8859-1; ``#`` and ``!`` start comments; a key ends at the first
unescaped ``=``, ``:`` or white space; a backslash at the end of a line continues it; ``\\uXXXX`` escapes. The last of
several equal keys counts. Pure: text in, a dictionary out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tidings_connect.errors import WorkerConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_BLANK = " \t\f"


def load_properties(path: Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        WorkerConfigError: the file cannot be read or is not a properties file; names the file and the line.
    """
    try:
        text = path.read_bytes().decode("latin-1")
    except OSError as error:
        raise WorkerConfigError(
            f"cannot read the worker's properties file {path}: {error.strerror}",
            hint="give the path of a Kafka Connect distributed worker's .properties file",
        ) from error
    if "\0" in text:
        raise WorkerConfigError(f"{path} is not a properties file: it holds NUL bytes")
    try:
        return parse_properties(text)
    except ValueError as error:
        raise WorkerConfigError(f"{path}: {error}") from error


def parse_properties(text: str) -> dict[str, str]:
    """Parse the text of a properties file.

    Raises:
        ValueError: a malformed ``\\uXXXX`` escape; names the line.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        key, rest = line[:end], line[end:].lstrip(_BLANK)
        if rest[:1] in {"=", ":"}:
            rest = rest[1:].lstrip(_BLANK)
        found[_unescape(key, number)] = _unescape(rest, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    natural = re.split(r"\r\n|\r|\n", text)
    index = 0
    while index < len(natural):
        number, line = index + 1, natural[index].lstrip(_BLANK)
        index += 1
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1]
            if index >= len(natural):
                break
            line += natural[index].lstrip(_BLANK)
            index += 1
        yield number, line


def _continues(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _end_of_key(line: str) -> int:
    index = 0
    while index < len(line):
        if line[index] == "\\":
            index += 2
            continue
        if line[index] in "=:" or line[index] in _BLANK:
            return index
        index += 1
    return len(line)


def _unescape(text: str, number: int) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise ValueError(f"line {number}: malformed \\uXXXX escape")
        return _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(replace, text) if "\\" in text else text
