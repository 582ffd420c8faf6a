"""Checks that options of any connector share: a check returns what is wrong with a value, in Debezium's words, or None."""

import re
from collections.abc import Callable
from typing import Final

from tidings_connect.data.sizes import parse_size
from tidings_connect.java.regex import compile_java


def refused_by(parse: Callable[[str], object], words: str = "") -> Callable[[str], str | None]:
    """A check that says what a parser says of a value, after some words."""

    def check(value: str) -> str | None:
        try:
            parse(value)
        except (ValueError, re.error) as error:
            return f"{words}{error}"
        return None

    return check


size_problem: Final = refused_by(parse_size)
java_pattern_problem: Final = refused_by(compile_java, "is not a regular expression: ")


def port_problem(value: str) -> str | None:
    return None if value.isdigit() and 0 < int(value) < 65536 else "A port is expected, 1 to 65535"


def not_negative_problem(value: str) -> str | None:
    return None if int(value) >= 0 else "An non-negative integer is expected"  # Debezium's own words


def not_negative_long_problem(value: str) -> str | None:
    return None if int(value) >= 0 else "A non-negative long value is expected"


def at_least_one_problem(value: str) -> str | None:
    return None if int(value) >= 1 else "Value must be at least 1"


def positive_problem(value: str) -> str | None:
    return None if int(value) >= 1 else "A positive, non-zero integer value is expected"


def positive_long_problem(value: str) -> str | None:
    return None if int(value) >= 1 else "A positive, non-zero long value is expected"


_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(value: str) -> str | None:
    """Of a topic's name, or a part of one."""
    if _TOPIC.fullmatch(value):
        return None
    return f"{value} has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)"
