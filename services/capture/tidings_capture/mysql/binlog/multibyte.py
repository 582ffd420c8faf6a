"""Texts of character sets that Python reads otherwise than the server: by the server's own table, which is asked for once.

Format: ``strings/ctype-big5.c``, ``ctype-sjis.c``, ``ctype-ujis.c`` and ``ctype-eucjpms.c`` (``mb_charlen``): which bytes belong together.
"""

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import MariaDbError

_Bytes = Sequence[int]
_HIGH: Final = range(0xA1, 0xFF)
_SJIS_TRAIL: Final = (*range(0x40, 0x7F), *range(0x80, 0xFD))
_EUC: Final[Sequence[Sequence[_Bytes]]] = (
    (_HIGH, _HIGH),
    ((0x8E,), range(0xA1, 0xE0)),
    ((0x8F,), _HIGH, _HIGH),
)
FORMS: Final[dict[str, Sequence[Sequence[_Bytes]]]] = {
    "big5": ((range(0xA1, 0xFA), (*range(0x40, 0x7F), *_HIGH)),),
    "sjis": (
        ((*range(0x81, 0xA0), *range(0xE0, 0xFD)), _SJIS_TRAIL),
        (range(0xA1, 0xE0),),
    ),
    "ujis": _EUC,
    "eucjpms": _EUC,
}
"""By character set: which bytes may stand in each place of a character, but for those of ASCII."""
_AT_ONCE: Final = 2_000
"""Characters that one statement asks for."""


def characters(name: str) -> list[bytes]:
    """All characters of a character set but those of ASCII."""
    return [bytes(character) for form in FORMS[name] for character in product(*form)]


def server_decoder(session: Session, name: str) -> Callable[[bytes], str]:
    """What makes texts as the server does; raises ValueError for bytes that are none.

    Raises:
        MariaDbError: the server cannot be asked.
    """
    known: dict[bytes, bytes] = {}
    every = characters(name)
    for place in range(0, len(every), _AT_ONCE):
        part = every[place : place + _AT_ONCE]
        digits = b"".join(part).hex()
        ((told,),) = session.rows(f"SELECT CONVERT(CONVERT(_binary x'{digits}' USING {name}) USING utf8mb4)")
        text = told if isinstance(told, str) else bytes(told).decode()
        if len(text) != len(part):
            raise MariaDbError(
                f"the server's character set {name} has other characters than the one that capture knows"
            )
        known |= {character: read.encode() for character, read in zip(part, text, strict=True)}
    forms = [b"".join(b"[%s]" % re.escape(bytes(place)) for place in form) for form in FORMS[name]]
    pattern = re.compile(b"|".join((*forms, rb"[\x80-\xff]")), re.DOTALL)

    def utf8(match: re.Match[bytes]) -> bytes:
        found = known.get(match[0])
        if found is None:
            raise ValueError(f"a text is not in {name}")
        return found

    return lambda data: pattern.sub(utf8, data).decode()
