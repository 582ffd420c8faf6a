"""Takes a Java regular expression (``java.util.regex``) apart, and writes it for RE2 and for Python's engine. Pure.

Named groups, ``\\Q..\\E``, ``\\p{Alpha}`` and the like, ``\\z`` and ``\\uXXXX`` are rewritten. Classes such as ``\\w`` are ASCII, as
in Java, and so is it what ``CASE_INSENSITIVE`` makes equal; RE2 would take all letters of Unicode, so for it a letter is
written as both. Not supported, and refused by name: set operations and brackets within brackets, ``\\R \\X \\G \\h \\c``,
and the flags ``x``, ``d``, ``u`` and ``U``.
"""

import re
from dataclasses import dataclass, field
from typing import Final

_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})([?+]?)")
_OPEN: Final = re.compile(
    r"\((?:\?(?:<(?P<name>[A-Za-z]\w*)>|(?P<look><?[=!])|(?P<atomic>>)|(?P<flags>[a-zA-Z]*(?:-[a-zA-Z]+)?)(?P<end>[:)])))?"
)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})|x\{(?P<xx>[0-9a-fA-F]{1,6})\}|p\{(?P<p>\w+)\}|P\{(?P<np>\w+)\}"
    r"|k<(?P<k>\w+)>|(?P<number>[1-9]\d*)|(?P<other>.))",
    re.DOTALL,
)
_POSIX: Final = {
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Upper": "A-Z",
    "Lower": "a-z",
    "Punct": "!-/:-@\\[-`{-~",
    "XDigit": "0-9a-fA-F",
}
_CLASSES: Final = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": "\\t\\n\\x0b\\f\\r ",
}
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS: Final = {"b": r"\b", "B": r"\B", "A": r"\A"}


@dataclass(slots=True)
class Scanned:
    """An expression in both notations, and what matching it costs."""

    linear: str = ""
    """For RE2."""
    python: str = ""
    needs: list[str] = field(default_factory=list)
    """What RE2 does not have, in words."""
    choices: int = 0
    """Quantifiers that leave a choice, and alternatives within groups: an engine that backtracks tries their products."""
    repeats_group: bool = False
    """A group is repeated: what backtracking costs is not bounded by the number of choices."""


def scan(pattern: str, *, ignore_case: bool) -> Scanned:
    """Take an expression apart.

    Raises:
        ValueError: it is none, or uses what neither engine has.
    """
    return _Scanner(pattern, ignore_case).run()


class _Scanner:
    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern = pattern
        self._fold = ignore_case
        self._folds: list[bool] = []
        self._found = Scanned()
        self._at = 0
        self._after = "nothing"
        """What a quantifier would repeat: ``nothing``, ``atom`` or ``group``."""

    def run(self) -> Scanned:
        handlers = {"\\": self._escape, "[": self._bracket, "(": self._open, ")": self._close, "|": self._or}
        pattern = self._pattern
        while self._at < len(pattern):
            char = pattern[self._at]
            if char in "*+?" or (char == "{" and _QUANTIFIER.match(pattern, self._at)):
                self._quantifier()
            elif char in handlers:
                handlers[char]()
            else:
                self._at += 1
                if char in ".^$":
                    self._emit(char, char, "atom" if char == "." else "nothing")
                else:
                    self._literal(char)
        if self._folds:
            raise ValueError("Invalid regex: a group is not closed")
        return self._found

    def _emit(self, linear: str, python: str, after: str) -> None:
        self._found.linear += linear
        self._found.python += python
        self._after = after

    def _literal(self, char: str) -> None:
        plain = char if char.isalnum() and char.isascii() else _code(char)
        both = (
            f"[{char.lower()}{char.upper()}]" if self._fold and char.isascii() and char.isalpha() else plain
        )
        self._emit(both, re.escape(char), "atom")

    def _quantifier(self) -> None:
        match = _QUANTIFIER.match(self._pattern, self._at)
        assert match is not None
        if self._after == "nothing":
            raise ValueError(f"Invalid regex: nothing to repeat at position {self._at}")
        low, comma, _high, how = match.groups()
        if how == "+":
            self._found.needs.append("possessive quantifiers")
        if self._after == "group":
            self._found.repeats_group = True
        if low is None or comma is not None:
            self._found.choices += 1
        self._at = match.end()
        self._emit(match.group(), match.group(), "nothing")

    def _open(self) -> None:
        match = _OPEN.match(self._pattern, self._at)
        assert match is not None
        found, self._at = match.groupdict(), match.end()
        if found["look"]:
            self._found.needs.append("lookahead" if "<" not in found["look"] else "lookbehind")
        if found["atomic"]:
            self._found.needs.append("atomic groups")
        flags, end = found["flags"] or "", found["end"]
        if match.group() == "(" and self._pattern.startswith("?", self._at):
            raise ValueError(f"Invalid regex: unknown group at position {match.start()}")
        if end is not None:
            self._flags(flags, end)
            return
        self._folds.append(self._fold)
        named = f"(?P<{found['name']}>" if found["name"] else match.group()
        self._emit(named, named, "nothing")

    def _flags(self, flags: str, end: str) -> None:
        on, _, off = flags.partition("-")
        unknown = set(on + off) - set("ims")
        if unknown:
            raise ValueError(f"the flag {min(unknown)} is not supported")
        if end == ":":
            self._folds.append(self._fold)
        elif not flags:
            raise ValueError("Invalid regex: empty flags")
        # Letters are written in both cases for RE2, whose own flag is for all of Unicode.
        self._fold = ("i" in on or self._fold) and "i" not in off
        rest = on.replace("i", "") + ("-" + kept if (kept := off.replace("i", "")) else "")
        text = f"(?{rest}{end}" if rest or end == ":" else ""
        self._emit(text, f"(?{flags}{end}", "nothing")

    def _close(self) -> None:
        if not self._folds:
            raise ValueError(f"Invalid regex: unmatched ')' at position {self._at}")
        self._fold = self._folds.pop()
        self._at += 1
        self._emit(")", ")", "group")

    def _or(self) -> None:
        self._at += 1
        if self._folds:
            self._found.choices += 1
        self._emit("|", "|", "nothing")

    def _escape(self) -> None:
        pattern = self._pattern
        if pattern.startswith("\\Q", self._at):
            end = pattern.find("\\E", self._at)
            quoted = pattern[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(pattern)
            for char in quoted:
                self._literal(char)
            return
        match = self._match_escape()
        found = match.groupdict()
        other = found["other"]
        if found["k"] or found["number"]:
            self._found.needs.append("backreferences")
            reference = f"(?P={found['k']})" if found["k"] else match.group()
            self._emit("", reference, "atom")
        elif other in _ANCHORS:
            self._emit(_ANCHORS[other], _ANCHORS[other], "nothing")
        elif other in {"z", "Z"}:
            self._emit(r"\z", r"\Z", "nothing")
        else:
            literal, inner, negative = _meaning(match, self._fold)
            if literal is not None:
                self._literal(literal)
            elif inner is None:  # a class of Unicode's, which only RE2 has
                self._emit(match.group(), match.group(), "atom")
            else:
                text = f"[{'^' if negative else ''}{inner}]"
                self._emit(text, text, "atom")

    def _match_escape(self) -> re.Match[str]:
        match = _ESCAPE.match(self._pattern, self._at)
        if match is None:
            raise ValueError("Invalid regex: bad escape (end of pattern)")
        self._at = match.end()
        return match

    def _bracket(self) -> None:
        """A class: its members with letters of both cases where the case is ignored."""
        pattern, start = self._pattern, self._at
        self._at += 1
        negative = pattern.startswith("^", self._at)
        self._at += negative
        parts: list[str] = []
        ranges: list[tuple[str, str]] = []
        first = True
        while True:
            if self._at >= len(pattern):
                raise ValueError(f"Invalid regex: unterminated character set at position {start}")
            char = pattern[self._at]
            if char == "]" and not first:
                self._at += 1
                break
            first = False
            if char == "[" or pattern.startswith("&&", self._at):
                raise ValueError("set operations and brackets within brackets (&&, [) are not supported")
            low, inner = self._member()
            if low is None:
                parts.append(inner)
                continue
            high = low
            if pattern.startswith("-", self._at) and pattern[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._at += 1
                found, inner = self._member()
                if found is None or found < low:
                    raise ValueError(f"Invalid regex: bad character range in the set at position {start}")
                high = found
            ranges.append((low, high))
        plain = "".join(_range(low, high) for low, high in ranges) + "".join(parts)
        folded = "".join(_folded(low, high) for low, high in ranges) if self._fold else ""
        sign = "^" if negative else ""
        self._emit(f"[{sign}{plain}{folded}]", f"[{sign}{_for_python(plain)}]", "atom")

    def _member(self) -> tuple[str | None, str]:
        """A character of a class, or, without one, what stands for several."""
        if self._pattern[self._at] != "\\":
            self._at += 1
            return self._pattern[self._at - 1], ""
        match = self._match_escape()
        char, inner, negative = _meaning(match, self._fold)
        if char is not None:
            return char, ""
        if inner is None:
            return None, match.group()
        if negative and not match.groupdict()["other"]:
            raise ValueError(f"{match.group()} within brackets is not supported")
        return None, match.group() if negative else inner


def _meaning(match: re.Match[str], fold: bool) -> tuple[str | None, str | None, bool]:
    """What an escape stands for: a character, or the members of a class and whether they are those it has not.

    Args:
        fold: the case is ignored; then ``\\p{Upper}`` is every letter, as in Java.
    """
    found = match.groupdict()
    code = found["u"] or found["x"] or found["xx"]
    if code is not None:
        if int(code, 16) > 0x10FFFF:
            raise ValueError(f"Invalid regex: bad escape {match.group()}")
        return chr(int(code, 16)), None, False
    for name, negative in ((found["p"], False), (found["np"], True)):
        if name is not None:
            return None, _POSIX.get("Alpha" if fold and name in {"Upper", "Lower"} else name), negative
    other = found["other"] or ""
    if other.lower() in _CLASSES:
        return None, _CLASSES[other.lower()], other.isupper()
    if other in _CONTROL:
        return _CONTROL[other], None, False
    if other.isalnum() and other.isascii():
        raise ValueError(f"Invalid regex: bad escape {match.group()}")
    return other, None, False


def _code(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


def _for_python(text: str) -> str:
    return re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", text)


def _range(low: str, high: str) -> str:
    return _code(low) if low == high else f"{_code(low)}-{_code(high)}"


def _folded(low: str, high: str) -> str:
    """The letters of the other case than those between two characters."""
    found = ""
    for first, last, shift in (("a", "z", -32), ("A", "Z", 32)):
        start, end = max(low, first), min(high, last)
        if start <= end:
            found += _range(chr(ord(start) + shift), chr(ord(end) + shift))
    return found
