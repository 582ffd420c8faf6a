"""Names of topics, schemas and fields, as Debezium makes them from tables and columns. Pure.

Reference: ``io.debezium.schema.*TopicNamingStrategy`` (``topic.naming.strategy`` and its options) and
``io.debezium.schema.SchemaNameAdjuster`` (``schema.name.adjustment.mode``, ``field.name.adjustment.mode``).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidings_connect.java.regex import JavaPattern, compile_java

MAX_TOPIC_LENGTH: Final = 249
"""Kafka's limit; longer names are cut."""
_STRATEGIES: Final = "io.debezium.schema."
SCHEMA_STRATEGY: Final = f"{_STRATEGIES}SchemaTopicNamingStrategy"
DEFAULT_STRATEGY: Final = f"{_STRATEGIES}DefaultTopicNamingStrategy"
SCHEMA_REGEX_STRATEGY: Final = f"{_STRATEGIES}SchemaRegexTopicNamingStrategy"
DEFAULT_REGEX_STRATEGY: Final = f"{_STRATEGIES}DefaultRegexTopicNamingStrategy"
SCHEMA_UNICODE_STRATEGY: Final = f"{_STRATEGIES}SchemaUnicodeTopicNamingStrategy"
DEFAULT_UNICODE_STRATEGY: Final = f"{_STRATEGIES}DefaultUnicodeTopicNamingStrategy"
STRATEGIES: Final = (
    SCHEMA_STRATEGY,
    DEFAULT_STRATEGY,
    SCHEMA_REGEX_STRATEGY,
    DEFAULT_REGEX_STRATEGY,
    SCHEMA_UNICODE_STRATEGY,
    DEFAULT_UNICODE_STRATEGY,
)
"""The strategies that Debezium ships; those that start with ``Default`` name the database where there is one in a
table's id, which a PostgreSQL connector's tables have not, and no schema: tables of one name share a topic."""
_DEFAULT_STRATEGIES: Final = (DEFAULT_STRATEGY, DEFAULT_REGEX_STRATEGY, DEFAULT_UNICODE_STRATEGY)
REGEX_STRATEGIES: Final = (SCHEMA_REGEX_STRATEGY, DEFAULT_REGEX_STRATEGY)
_UNICODE_STRATEGIES: Final = (SCHEMA_UNICODE_STRATEGY, DEFAULT_UNICODE_STRATEGY)

_NOT_IN_TOPIC: Final = re.compile(r"[^a-zA-Z0-9._-]")
_NOT_IN_UNICODE_TOPIC: Final = re.compile(r"[^a-zA-Z0-9.-]")
_GROUP: Final = re.compile(r"\\(.)|\$(?:\{(\w+)\}|(\d))")


class NameAdjustment(StrEnum):
    """``schema.name.adjustment.mode`` and ``field.name.adjustment.mode``."""

    NONE = "none"
    AVRO = "avro"
    """What Avro does not allow becomes ``_``; a leading digit gets one before it."""
    AVRO_UNICODE = "avro_unicode"
    """What Avro does not allow, and ``_`` itself, becomes ``_u`` and the code in hexadecimal."""


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"_u{_hexadecimal(unit)}" for unit in _utf16(match.group()))


def _hexadecimal(unit: int) -> str:
    digits = f"{unit:x}"
    return f"00{digits}" if len(digits) <= 2 else digits


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def _underscored(match: re.Match[str]) -> str:
    return "_" * len(_utf16(match.group()))


_AVRO_FIRST: Final = re.compile(r"\A[^a-zA-Z_]")
_UNICODE_FIRST: Final = re.compile(r"\A[^a-zA-Z]")
_AVRO_REST: Final = {True: re.compile(r"[^a-zA-Z0-9_]"), False: re.compile(r"[^a-zA-Z0-9_.]")}
_UNICODE_REST: Final = {True: re.compile(r"[^a-zA-Z0-9]"), False: re.compile(r"[^a-zA-Z0-9.]")}


def adjusted(name: str, mode: NameAdjustment, *, field: bool = False) -> str:
    """A name that Avro allows.

    Args:
        field: a field's name, in which a dot is not allowed either.
    """
    if mode is NameAdjustment.NONE or not name:
        return name
    if mode is NameAdjustment.AVRO:
        first = _AVRO_FIRST.sub(
            lambda m: f"_{m.group()}" if m.group().isdigit() else _underscored(m), name[:1]
        )
        return first + _AVRO_REST[field].sub(_underscored, name[1:])
    return _UNICODE_FIRST.sub(_escaped, name[:1]) + _UNICODE_REST[field].sub(_escaped, name[1:])


@dataclass(frozen=True, slots=True)
class KeyField:
    """A field that tells in keys from which table a record of a shared topic comes."""

    name: str
    value: str


class TopicNames:
    """The names of a connector's topics, from its options.

    Args:
        options: gives an option's value, or its default, by the option's name.
    """

    def __init__(self, prefix: str, options: Callable[[str], str]) -> None:
        self._prefix = prefix
        self._delimiter = options("topic.delimiter") or "."
        self.transaction = self._delimiter.join((prefix, options("topic.transaction")))
        self.heartbeat = options("topic.heartbeat.name") or self._delimiter.join(
            (options("topic.heartbeat.prefix"), prefix)
        )
        strategy = options("topic.naming.strategy")
        self._names_schema = strategy not in _DEFAULT_STRATEGIES
        self._unicode = strategy in _UNICODE_STRATEGIES
        self._regex: JavaPattern | None = None
        self._replacement = ""
        self._key_field = ""
        self._key_regex: JavaPattern | None = None
        self._key_replacement = ""
        if strategy in REGEX_STRATEGIES:
            self._regex = compile_java(options("topic.regex"))
            self._replacement = options("topic.replacement")
            if options("topic.key.enforce.uniqueness").lower() == "true":
                self._key_field = options("topic.key.field.name")
            if options("topic.key.field.regex"):
                self._key_regex = compile_java(options("topic.key.field.regex"))
                self._key_replacement = options("topic.key.field.replacement")

    def of_table(self, schema: str, table: str) -> str:
        """The topic of a table's changes."""
        topic = self._sanitized(self._origin(schema, table))
        if self._regex is not None:
            topic = replaced(self._regex, self._replacement, topic) or topic
        return topic

    def key_field(self, schema: str, table: str) -> KeyField | None:
        """What keys of a table's changes have besides the table's own columns."""
        if not self._key_field:
            return None
        origin = self._origin(schema, table)
        if self._key_regex is None:
            return KeyField(self._key_field, origin)
        found = replaced(self._key_regex, self._key_replacement, origin)
        return KeyField(self._key_field, origin if found is None else found)

    def _origin(self, schema: str, table: str) -> str:
        parts = (self._prefix, schema, table) if self._names_schema else (self._prefix, table)
        return self._delimiter.join(part for part in parts if part.strip())

    def _sanitized(self, name: str) -> str:
        if self._unicode:
            name = _NOT_IN_UNICODE_TOPIC.sub(_escaped, name)
        else:
            name = _NOT_IN_TOPIC.sub(_underscored, name)
        return name[:MAX_TOPIC_LENGTH]


def replaced(pattern: JavaPattern, replacement: str, text: str) -> str | None:
    """What Java's ``replaceFirst`` makes of a text that the pattern matches as a whole; None where it does not match.

    Raises:
        IndexError: the replacement names a group that the pattern has not.
    """
    match = pattern.fullmatch(text)
    if match is None:
        return None

    def part(found: re.Match[str]) -> str:
        literal, name, number = found.groups()
        if literal is not None:
            return str(literal)
        return match.group(name if name is not None else int(number)) or ""

    return _GROUP.sub(part, replacement)


def regex_problem(pattern: str, replacement: str) -> str | None:
    """What is wrong with a pattern and its replacement, or None."""
    try:
        compiled = compile_java(pattern)
    except ValueError as error:
        return f"is not a regular expression: {error}"
    for literal, name, number in _GROUP.findall(replacement):
        unknown = name not in compiled.groupindex if name else number and int(number) > compiled.groups
        if not literal and unknown:
            return f"names a group that the pattern {pattern!r} does not have"
    return None


def topic_option_problems(config: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with the options of regular expressions for topics, by option."""
    problems: dict[str, str] = {}
    strategy = config.get("topic.naming.strategy", "").strip()
    for regex, replacement in (
        ("topic.regex", "topic.replacement"),
        ("topic.key.field.regex", "topic.key.field.replacement"),
    ):
        pattern, text = config.get(regex, "").strip(), config.get(replacement, "").strip()
        if regex == "topic.regex" and strategy in REGEX_STRATEGIES and not pattern:
            problems[regex] = f"{regex} is required with topic.naming.strategy={strategy}"
        elif pattern and not text:
            problems[replacement] = f"{replacement} must not be empty where {regex} is set"
        elif pattern and (problem := regex_problem(pattern, text)) is not None:
            problems[regex] = f"{regex} {problem}"
    return problems
