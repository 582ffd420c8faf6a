"""Java's regular expressions and replacements (``java.util.regex``) with Python's engine.

What differs in notation is rewritten: named groups, ``\\Q..\\E``, and the replacement's ``$1`` and ``${name}``. Classes
such as ``\\w`` are ASCII, as in Java. Set operations within brackets (``[a-z&&[^b]]``) are not supported.
"""

import re
from collections.abc import Callable
from typing import Final

_NAMED: Final = re.compile(r"\(\?<(?![=!])")
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_NAMED_BACK: Final = re.compile(r"\\k<(\w+)>")
_POSIX: Final = {"Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Upper": "A-Z", "Lower": "a-z"}
_CLASS: Final = re.compile(r"\\p\{(\w+)\}")


def compile_java(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Compile a Java regular expression.

    Args:
        flags: beside ASCII.

    Raises:
        ValueError: it is none, or uses what Python's engine does not have.
    """
    if "&&" in pattern:
        raise ValueError("set operations within brackets (&&) are not supported")
    text = _QUOTED.sub(lambda match: re.escape(match.group(1)), pattern)
    text = _NAMED.sub("(?P<", text)
    text = _NAMED_BACK.sub(r"(?P=\1)", text)
    text = _CLASS.sub(lambda match: f"[{_POSIX.get(match.group(1), match.group(0))}]", text).replace(
        r"\z", r"\Z"
    )
    try:
        return re.compile(text, re.ASCII | flags)
    except re.error as error:
        raise ValueError(f"Invalid regex: {error}") from error


def compile_replacement(pattern: re.Pattern[str], text: str) -> Callable[[re.Match[str]], str]:
    """A function from a match to Java's replacement text (``Matcher.appendReplacement``).

    Raises:
        ValueError: it refers to a group that there is not.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            if position == len(text):
                raise ValueError("character to be escaped is missing")
            parts.append(text[position])
            position += 1
        elif char == "$":
            group, position = _group(pattern, text, position)
            parts.append(group)
        else:
            parts.append(char)
    return lambda match: "".join(
        [part if isinstance(part, str) else match.group(part) or "" for part in parts]
    )


def _group(pattern: re.Pattern[str], text: str, position: int) -> tuple[int, int]:
    """The group that the text after a dollar sign names, and the position after it."""
    if text[position : position + 1] == "{":
        end = text.find("}", position)
        name = text[position + 1 : end] if end > 0 else ""
        if name not in pattern.groupindex:
            raise ValueError(f"No group with name {{{name}}}")
        return pattern.groupindex[name], end + 1
    if not text[position : position + 1].isdigit():
        raise ValueError("Illegal group reference")
    number = int(text[position])
    if number > pattern.groups:
        raise ValueError(f"No group {number}")
    position += 1
    while text[position : position + 1].isdigit() and number * 10 + int(text[position]) <= pattern.groups:
        number = number * 10 + int(text[position])
        position += 1
    return number, position


class TopicRewriter:
    """Renames topics whose whole name matches: ``matches`` and then ``replaceFirst``, as both routers do.

    Raises:
        ValueError: see `compile_java` and `compile_replacement`.
    """

    def __init__(self, pattern: str, replacement: str) -> None:
        self._pattern = compile_java(pattern)
        self._replacement = compile_replacement(self._pattern, replacement)
        self._known: dict[str, str | None] = {}

    def __call__(self, topic: str) -> str | None:
        """The new name; None where the expression does not match."""
        try:
            return self._known[topic]
        except KeyError:
            pass
        matched = self._pattern.fullmatch(topic) is not None
        result = self._pattern.sub(self._replacement, topic, count=1) if matched else None
        if len(self._known) >= 1_000:
            self._known.clear()
        self._known[topic] = result
        return result


def regex_problem(pattern: str) -> str | None:
    """What is wrong with an expression, or None."""
    try:
        compile_java(pattern)
    except ValueError as error:
        return str(error)
    return None
