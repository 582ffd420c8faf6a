"""``java.text.SimpleDateFormat`` in UTC and English, for the letters that occur in practice.

Specified by the class's documentation, "Date and Time Patterns". Letters for weeks are not supported.
"""

import datetime
import re
from typing import Final

_PIECES: Final = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|([^a-zA-Z']+)")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                  "November", "December")  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS: Final = "yuMdHhkKmsSaEDzZXG"
_ZONE: Final = re.compile(r"(Z|UTC|GMT)|([+-])(\d{2}):?(\d{2})?")


class SimpleDateFormat:
    """A pattern, compiled.

    Raises:
        ValueError: a letter that is none, or not supported.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._pieces: list[tuple[str, str]] = []
        position = 0
        while position < len(pattern):
            match = _PIECES.match(pattern, position)
            if match is None:
                raise ValueError("Unterminated quote")
            position = match.end()
            if match.group(2):
                if match.group(2) not in _LETTERS:
                    raise ValueError(f"Illegal pattern character '{match.group(2)}'")
                self._pieces.append((match.group(2), match.group()))
            else:
                quoted = match.group(1)
                literal = match.group(3) if quoted is None else quoted.replace("''", "'") or "'"
                self._pieces.append(("", literal))

    def format(self, milliseconds: int) -> str:
        """A moment, milliseconds since the Unix epoch, as text."""
        moment = _EPOCH + datetime.timedelta(milliseconds=milliseconds)
        return "".join(
            text if not letter else _formatted(letter, len(text), moment) for letter, text in self._pieces
        )

    def parse(self, text: str) -> int:
        """Milliseconds since the Unix epoch.

        Raises:
            ValueError: the text does not match the pattern.
        """
        found = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "S": 0, "zone": 0, "pm": -1}
        position = 0
        for index, (letter, piece) in enumerate(self._pieces):
            if not letter:
                if not text.startswith(piece, position):
                    raise ValueError("the text does not match the pattern")
                position += len(piece)
                continue
            following = self._pieces[index + 1 : index + 2]
            adjacent = bool(following and following[0][0])
            position = _parsed(letter, len(piece), text, position, adjacent, found)
        if found["pm"] >= 0 and "h" in found:
            found["H"] = found["h"] % 12 + 12 * found["pm"]
        elif "h" in found:
            found["H"] = found["h"] % 12
        month = found["M"] - 1
        start = datetime.datetime(found["y"] + month // 12, month % 12 + 1, 1, tzinfo=datetime.UTC)
        day = found.get("D", found["d"]) - 1
        moment = start + datetime.timedelta(
            days=day, hours=found["H"], minutes=found["m"], seconds=found["s"], milliseconds=found["S"]
        )
        return (moment - _EPOCH) // datetime.timedelta(milliseconds=1) - found["zone"] * 60_000


def _formatted(letter: str, width: int, t: datetime.datetime) -> str:  # noqa: PLR0911 - one per letter
    match letter:
        case "y" | "u" if letter == "y":
            return f"{t.year % 100:02d}" if width == 2 else f"{t.year:0{width}d}"
        case "M" if width >= 3:
            return _MONTHS[t.month - 1] if width > 3 else _MONTHS[t.month - 1][:3]
        case "E":
            return _DAYS[t.weekday()] if width > 3 else _DAYS[t.weekday()][:3]
        case "a":
            return "AM" if t.hour < 12 else "PM"
        case "G":
            return "AD"
        case "z":
            return "Coordinated Universal Time" if width > 3 else "UTC"
        case "Z":
            return "+0000"
        case "X":
            return "Z"
    number = {
        "u": t.isoweekday(), "M": t.month, "d": t.day, "H": t.hour, "h": t.hour % 12 or 12, "k": t.hour or 24,
        "K": t.hour % 12, "m": t.minute, "s": t.second, "S": t.microsecond // 1000,
        "D": t.timetuple().tm_yday,
    }[letter]  # fmt: skip
    return f"{number:0{width}d}"


def _parsed(letter: str, width: int, text: str, position: int, adjacent: bool, found: dict[str, int]) -> int:
    """Reads one field; the position after it."""
    if letter in "MEaG" and (letter != "M" or width >= 3):
        return _parsed_word(letter, text, position, found)
    if letter in "zZX":
        match = _ZONE.match(text, position)
        if match is None:
            raise ValueError("no time zone where the pattern has one")
        if match.group(2):
            minutes = int(match.group(3)) * 60 + int(match.group(4) or 0)
            found["zone"] = minutes if match.group(2) == "+" else -minutes
        return match.end()
    end = position
    limit = position + width if adjacent else len(text)
    while end < limit and end < len(text) and text[end].isdigit():
        end += 1
    if end == position:
        raise ValueError("no number where the pattern has one")
    number = int(text[position:end])
    if letter == "y" and width <= 2 and end - position == 2:
        number += 2000 if number < 70 else 1900
    name = {"k": "H", "K": "h", "u": "weekday"}.get(letter, letter)
    found[name] = number % 24 if letter == "k" else number
    return end


def _parsed_word(letter: str, text: str, position: int, found: dict[str, int]) -> int:
    words: dict[str, tuple[str, ...]] = {"M": _MONTHS, "E": _DAYS, "a": ("AM", "PM"), "G": ("AD", "BC")}
    for number, word in enumerate(words[letter]):
        for form in (word, word[:3]):
            if text[position : position + len(form)].lower() == form.lower():
                if letter == "M":
                    found["M"] = number + 1
                elif letter == "a":
                    found["pm"] = number
                return position + len(form)
    raise ValueError("no word where the pattern has one")
