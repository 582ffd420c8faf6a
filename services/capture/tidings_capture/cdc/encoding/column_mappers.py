"""Options that change a column's values: mask, hash and truncate.

One rule applies to a column, the first that matches. A rule changes the row, never the key. What a rule makes of a
null or of an unchanged TOASTed value counts as well: a masked null is masked. Reference:
``io.debezium.relational.mapping``.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidings_capture.cdc.filters import compile_list, matches
from tidings_connect.java.regex import JavaPattern

_TRUNCATE: Final = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_MASK: Final = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_HASH: Final = re.compile(r"column\.mask\.hash\.(v2\.)?([^.]+)\.with\.salt\.(.+)")
PREFIXES: Final = ("column.mask.", "column.truncate.")
UNLIMITED: Final = 2**31 - 1
"""The length of types that have none."""
_ALGORITHMS: Final = {
    "MD5": "md5",
    "SHA": "sha1",
    "SHA-1": "sha1",
    "SHA1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA-512/224": "sha512_224",
    "SHA-512/256": "sha512_256",
    "SHA3-224": "sha3_224",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Java's names of digests, and hashlib's."""

Change = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """What rules ask of a column, whatever its database."""

    name: str
    is_text: bool
    """Whether it can be masked: Debezium masks what JDBC calls CHAR, VARCHAR and the like."""
    length: int = UNLIMITED
    """Of its values, in characters, digits or bits."""
    can_be_cut: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """One option's columns and what it does to them."""

    patterns: tuple[JavaPattern, ...]
    action: Literal["truncate", "mask", "hash", "hash v2"]
    length: int = 0
    algorithm: str = ""
    salt: bytes = b""

    def matches(self, schema: str, table: str, column: str) -> bool:
        """Whether the rule is for a column."""
        return matches(self.patterns, f"{schema}.{table}.{column}")

    def change(self, column: MappedColumn) -> Change | None:
        """What becomes of a column's values, None: nothing."""
        if self.action == "truncate":
            return truncation(self.length) if column.can_be_cut and column.length > self.length else None
        if not column.is_text:
            return None
        if self.action == "mask":
            mask = "*" * self.length
            return lambda _: mask
        return self._hash(column.length)

    def parameters(self, column: MappedColumn) -> dict[str, str]:
        """What the rule adds to the parameters of a column's schema."""
        if self.action == "truncate":
            return {"truncateLength": str(self.length)} if column.length > self.length else {}
        return {"masked": "true"}

    def _hash(self, length: int) -> Change:
        serialized = _java_serialized if self.action == "hash" else str.encode

        def change(value: Any) -> Any:
            if value is None:
                return None
            digest = hashlib.new(self.algorithm, self.salt, usedforsecurity=False)
            digest.update(serialized(value))
            return digest.hexdigest()[:length]

        return change


@dataclass(frozen=True, slots=True)
class ColumnMappers:
    """A connector's rules, in the order in which they are tried."""

    rules: tuple[Rule, ...] = ()

    def rule_for(self, schema: str, table: str, column: str) -> Rule | None:
        """The rule of a column."""
        return next((rule for rule in self.rules if rule.matches(schema, table, column)), None)


def read_mappers(config: Mapping[str, str]) -> ColumnMappers:
    """The rules of a checked configuration."""
    rules: list[tuple[int, Rule]] = []
    for name, value in config.items():
        if (match := _TRUNCATE.fullmatch(name)) is not None:
            rules.append((0, Rule(compile_list(value), "truncate", int(match[1]))))
        elif (match := _MASK.fullmatch(name)) is not None:
            rules.append((1, Rule(compile_list(value), "mask", int(match[1]))))
        elif (match := _HASH.fullmatch(name)) is not None:
            action: Literal["hash", "hash v2"] = "hash v2" if match[1] else "hash"
            algorithm = _ALGORITHMS[match[2].upper()]
            rules.append(
                (5 if match[1] else 4, Rule(compile_list(value), action, 0, algorithm, match[3].encode()))
            )
    return ColumnMappers(tuple(rule for _, rule in sorted(rules, key=lambda pair: pair[0])))


def mapper_problem(name: str, value: str) -> str | None:
    """What is wrong with an option whose name starts with one of `PREFIXES`, or None."""
    match = _HASH.fullmatch(name)
    if match is not None and match[2].upper() not in _ALGORITHMS:
        return f"{name} names the digest {match[2]}, which is not supported: {', '.join(_ALGORITHMS)}"
    if match is None and not (_TRUNCATE.fullmatch(name) or _MASK.fullmatch(name)):
        return (
            f"{name} is not an option of this connector; did you mean column.truncate.to.<length>.chars, "
            "column.mask.with.<length>.chars or column.mask.hash.<algorithm>.with.salt.<salt>?"
        )
    try:
        compile_list(value)
    except ValueError as error:
        return f"{name} is {error}"
    return None


def truncation(length: int) -> Change:
    """Cuts text, in UTF-16 units as Java counts, and bytes; leaves everything else."""

    def change(value: Any) -> Any:
        if isinstance(value, str):
            if len(value) <= length and value.isascii():
                return value
            return value.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "replace")
        return value[:length] if isinstance(value, bytes) else value

    return change


def _java_serialized(text: str) -> bytes:
    """A String through ``ObjectOutputStream`` (Java Object Serialization Specification, "Stream Elements")."""
    body = _modified_utf8(text)
    if len(body) < 1 << 16:
        return b"\xac\xed\x00\x05t" + len(body).to_bytes(2, "big") + body
    return b"\xac\xed\x00\x05|" + len(body).to_bytes(8, "big") + body


def _modified_utf8(text: str) -> bytes:
    if text.isascii() and "\0" not in text:
        return text.encode()
    return b"".join(_modified_character(unit) for unit in _utf16_units(text))


def _utf16_units(text: str) -> Iterable[int]:
    data = text.encode("utf-16-be")
    return (int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))


def _modified_character(unit: int) -> bytes:
    if unit == 0:
        return b"\xc0\x80"
    return chr(unit).encode("utf-8", "surrogatepass")
