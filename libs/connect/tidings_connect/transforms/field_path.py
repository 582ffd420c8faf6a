"""Paths to nested fields: Kafka's ``field.syntax.version`` (KIP-821)."""


def field_path(text: str, *, version: str) -> list[str]:
    """The names on the way to a field.

    Args:
        text: V1: one name, whatever it holds; V2: names separated by dots, a name with dots between backticks, in
            which a backslash before a backtick and a dot makes it a part of the name.
        version: ``V1`` or ``V2``, in any case.

    Raises:
        ValueError: a backtick is not closed.
    """
    if version.upper() == "V1":
        return [text]
    steps: list[str] = []
    position = 0
    while position < len(text):
        if text[position] == "`":
            step, position = _quoted(text, position + 1)
            steps.append(step)
        else:
            end = text.find(".", position)
            steps.append(text[position:] if end < 0 else text[position:end])
            position = len(text) if end < 0 else end + 1
    return [*steps, ""] if text.endswith(".") else steps


def _quoted(text: str, start: int) -> tuple[str, int]:
    """A name between backticks, and where the next one starts."""
    name = ""
    position = start
    while True:
        end = text.find("`", position)
        if end < 0:
            raise ValueError(f"Incomplete backtick pair in path: [{text}]")
        is_escaped, is_last = text[end - 1] == "\\", end == len(text) - 1
        if is_last and is_escaped:
            raise ValueError(f"Incomplete backtick pair in path: [{text}]")
        if is_last:
            return name + text[start:end], end + 1
        if text[end + 1] != ".":
            position = end + 1
        elif is_escaped:
            name += text[start : end - 1] + "`"
            start = position = end + 1
        else:
            return name + text[start:end], end + 2
