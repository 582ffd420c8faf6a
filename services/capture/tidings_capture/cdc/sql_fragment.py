"""SQL that somebody else wrote, to stand between parentheses in a statement of ours: it must not get out of them. Pure.

``true) TO PROGRAM '...' --`` would be one statement, too, so it is not enough that the server is sent one. Lexical rules:
PostgreSQL documentation, "Lexical Structure". Where a backslash stands before a quote they depend on the form of the
string and on settings, which a function in the fragment can change: that is refused.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)  # in which a dollar is a letter
  | (?P<text>'(?:[^']|'')*')
  | (?P<name>"(?:[^"]|"")*")
  | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)
  | (?P<line>--[^\r\n]*)
  | (?P<block>/\*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK: Final = re.compile(r"/\*|\*/")
_CLOSES: Final = {")": "(", "]": "["}


def enclosed(text: str) -> str:
    """The fragment without its comments and without a semicolon at its end.

    Raises:
        ValueError: it ends a statement, closes what it has not opened, or leaves something open.
    """
    parts: list[str] = []
    open_: list[str] = []
    position, text = 0, text.strip().rstrip(";").rstrip()
    if "\\'" in text:
        raise ValueError("the SQL holds a backslash before a quote; write the string as U&'...'")
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        kind, piece = match.lastgroup, match.group()
        position = match.end()
        if kind == "dollar":
            end = text.find(piece, position)
            if end < 0:
                raise ValueError(f"the SQL leaves {piece} open")
            piece, position = text[match.start() : end + len(piece)], end + len(piece)
        elif kind == "block":
            position, piece = _end_of_comment(text, position), " "
        elif kind == "line":
            piece = " "
        elif kind == "other":
            _follow(piece, open_)
        parts.append(piece)
    if open_:
        raise ValueError(f"the SQL leaves {open_[-1]} open")
    return "".join(parts)


_MARIADB: Final = re.compile(
    r"""
    (?P<text>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<name>`(?:[^`]|``)*`)
  | (?P<line>--(?=[\x00-\x20]|$)[^\r\n]*|\#[^\r\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def enclosed_mariadb(text: str) -> str:
    """As `enclosed`, by MariaDB's lexical rules: backticks, comments with ``#``, and no quotes of dollars.

    Raises:
        ValueError: see `enclosed`; or it holds a backslash, which may hide a quote, or a comment that the server executes.
    """
    parts: list[str] = []
    open_: list[str] = []
    text = text.strip().rstrip(";").rstrip()
    if "\\" in text:
        raise ValueError("the SQL holds a backslash; write the character with CHAR(...)")
    for match in _MARIADB.finditer(text):
        kind, piece = match.lastgroup, match.group()
        if kind == "block" and re.match(r"/\*M?!", piece):
            raise ValueError("the SQL holds a comment that the server executes")
        if kind in {"line", "block"}:
            piece = " "
        elif kind == "other":
            if text.startswith("/*", match.start()):
                raise ValueError("the SQL leaves /* open")
            _follow(piece, open_)
        parts.append(piece)
    if open_:
        raise ValueError(f"the SQL leaves {open_[-1]} open")
    return "".join(parts)


def _follow(piece: str, open_: list[str]) -> None:
    if piece == ";":
        raise ValueError("the SQL holds more than one statement")
    if piece in "'\"`":
        raise ValueError(f"the SQL leaves {piece} open")
    if piece == "\0":
        raise ValueError("the SQL holds a zero byte")
    if piece in "([":
        open_.append(piece)
    elif piece in _CLOSES and (not open_ or open_.pop() != _CLOSES[piece]):
        raise ValueError(f"the SQL closes {piece}, which it has not opened")


def _end_of_comment(text: str, position: int) -> int:
    depth = 1
    while depth:
        match = _BLOCK.search(text, position)
        if match is None:
            raise ValueError("the SQL leaves /* open")
        depth += 1 if match.group() == "/*" else -1
        position = match.end()
    return position


def statements_of(text: str) -> tuple[str, ...]:
    """Statements of an option: each ends with a semicolon, and two of them are one that belongs to a statement."""
    parts = re.split(r"(?<!;);(?!;)", text)
    return tuple(part.replace(";;", ";").strip() for part in parts if part.strip())
