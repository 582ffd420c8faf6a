"""Java's regular expressions and replacements (``java.util.regex``), matched in a time that no expression can stretch.

Whoever writes a connector's configuration or a signal writes expressions, and an engine that backtracks, as Java's and
Python's do, takes a minute for ``(a+)+$`` on thirty letters. So RE2 matches, in linear time. It has no lookaround,
backreferences, possessive quantifiers or atomic groups: an expression with one of these is left to Python's engine only if
it is simple enough for its time to be bounded (at most two choices, no group repeated, a text of at most
`LONGEST_TEXT` characters); else it is refused, unless ``tidings.regex.backtracking`` allows it. Where nothing is left to
choose Python's engine is linear as well, and faster. Notation: `java.patterns`.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # it brings no types

from tidings_connect.errors import ConnectError
from tidings_connect.java.patterns import Scanned, scan
from tidings_connect.limits import BACKTRACKING, current_limits

LONGEST_TEXT: Final = 1000
"""Characters of a text that an expression with lookaround and the like is applied to."""
_LONGEST_PATTERN: Final = 10_000
_CHOICES: Final = 2
_KNOWN: Final = 1000


class JavaPattern:
    """A compiled expression. Equal to another of the same text and flags.

    Args:
        pattern: the Java expression.
        engine: compiled, by Python or RE2; the two have the same methods.
        longest: the longest text that it is applied to; None: any.
    """

    __slots__ = ("_engine", "_flags", "_known", "_longest", "groupindex", "groups", "pattern")

    def __init__(self, pattern: str, flags: re.RegexFlag, engine: Any, longest: int | None) -> None:
        self.pattern = pattern
        self._flags = flags
        self._engine = engine
        self._longest = longest
        self._known: dict[str, bool] = {}
        self.groups: int = engine.groups
        self.groupindex: dict[str, int] = dict(engine.groupindex)

    def fullmatch(self, text: str) -> "re.Match[str] | None":
        """The match of the whole text, None without.

        Raises:
            ConnectError: the text is too long for an expression of this kind.
        """
        self._check(text)
        found: re.Match[str] | None = self._engine.fullmatch(text)
        return found

    def matches(self, text: str) -> bool:
        """Whether the whole text matches; remembered, because the same names come again and again."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[text] = self.fullmatch(text) is not None
        return found

    def replace_first(self, replacement: "Callable[[re.Match[str]], str]", text: str) -> str:
        """The text with its first match replaced."""
        self._check(text)
        result: str = self._engine.sub(replacement, text, count=1)
        return result

    def replace_all(self, replacement: "Callable[[re.Match[str]], str]", text: str) -> str:
        """The text with all its matches replaced."""
        self._check(text)
        result: str = self._engine.sub(replacement, text)
        return result

    def _check(self, text: str) -> None:
        if self._longest is not None and len(text) > self._longest:
            raise ConnectError(
                f"the expression {self.pattern} needs an engine that backtracks, and is not applied to a text of "
                f"{len(text)} characters",
                hint=f"write it without lookaround, or set {BACKTRACKING}=true in the worker's properties",
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JavaPattern) and (self.pattern, self._flags) == (other.pattern, other._flags)

    def __hash__(self) -> int:
        return hash((self.pattern, self._flags))

    def __repr__(self) -> str:
        return f"JavaPattern({self.pattern!r})"


def compile_java(pattern: str, flags: re.RegexFlag = re.NOFLAG, *, trusted: bool = False) -> JavaPattern:
    """Compile a Java regular expression.

    Args:
        flags: IGNORECASE or none.
        trusted: it is the operator's, and may backtrack.

    Raises:
        ValueError: it is none, or needs what the linear-time engine does not have; says what.
    """
    return _compiled(pattern, flags, trusted or current_limits().backtracking)


@lru_cache(maxsize=_KNOWN)
def _compiled(pattern: str, flags: re.RegexFlag, backtracking: bool) -> JavaPattern:
    if len(pattern) > _LONGEST_PATTERN:
        raise ValueError(f"an expression may have {_LONGEST_PATTERN} characters")
    found = scan(pattern, ignore_case=bool(flags & re.IGNORECASE))
    if not found.needs:
        if found.choices <= 1 and not found.repeats_group and (fast := _python(found, flags)) is not None:
            return JavaPattern(pattern, flags, fast, None)
        return JavaPattern(pattern, flags, _linear(found), None)
    needs = ", ".join(dict.fromkeys(found.needs))
    bounded = found.choices <= _CHOICES and not found.repeats_group
    if not (bounded or backtracking):
        raise ValueError(
            f"{needs} in an expression with more than {_CHOICES} choices (quantifiers, alternatives), or with a group that is "
            f"repeated, would need an engine that backtracks, which the worker's {BACKTRACKING} does not allow"
        )
    engine = _python(found, flags)
    if engine is None:
        raise ValueError(f"Invalid regex: {needs} cannot stand there")
    return JavaPattern(pattern, flags, engine, None if backtracking else LONGEST_TEXT)


def _python(found: Scanned, flags: re.RegexFlag) -> "re.Pattern[str] | None":
    try:
        return re.compile(found.python, re.ASCII | flags)
    except (re.error, OverflowError, RecursionError):
        return None


def _linear(found: Scanned) -> Any:
    options = re2.Options()
    options.log_errors = False  # it would write expressions to standard error
    try:
        return re2.compile(found.linear, options)
    except re2.error as error:
        (words,) = error.args
        raise ValueError(f"Invalid regex: {words.decode() if isinstance(words, bytes) else words}") from error


def compile_replacement(pattern: JavaPattern, text: str) -> Callable[[re.Match[str]], str]:
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


def _group(pattern: JavaPattern, text: str, position: int) -> tuple[int, int]:
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
        result = self._pattern.replace_first(self._replacement, topic) if matched else None
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
