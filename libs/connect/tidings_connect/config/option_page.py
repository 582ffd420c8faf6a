"""Writes a connector's tables of options into its page, for a module of the connector that calls `main`.

A table stands between ``<!-- options: <part> -->`` and ``<!-- end of options -->``; the parts are those of `PARTS`. What is
between them comes from the connector's options alone, so that the page says what the code does. With ``--check`` nothing is
written, and a page that is not what the code says is an error.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidings_connect.config.option import Family, Option, Passed
from tidings_service.generated import page_command

_PLACE: Final = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end of options -->)", re.DOTALL)
_HEAD: Final = "| Option | Default | Values | Meaning |\n|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Page:
    """A connector's options as its page shows them."""

    sections: Mapping[str, Sequence[Option | Family]]
    """Options that are obeyed, by subject."""
    own: Sequence[Option] = ()
    """Those that no other connector has."""
    passed: Sequence[Passed] = ()
    fixed: Sequence[Option] = ()
    """Options that take one value only."""
    refused: Sequence[str | Passed] = ()
    """Names and prefixes that the reference connector has and this one refuses."""


def obeyed_tables(page: Page) -> str:
    """A heading and a table for each subject."""
    return "\n".join(f"### {title}\n\n{table(options)}" for title, options in page.sections.items())


def own_table(page: Page) -> str:
    """The options of our own."""
    return table(page.own)


def passed_table(page: Page) -> str:
    """The prefixes, and who reads what is behind them."""
    rows = "".join(f"| `{passed.prefix}` | {_cell(passed.goes_to)} |\n" for passed in page.passed)
    return f"| Prefix | Goes to |\n|---|---|\n{rows}"


def fixed_table(page: Page) -> str:
    """The options that take one value."""
    rows = "".join(
        f"| `{option.name}` | {f'`{option.only}`' if option.only else 'empty'} |\n" for option in page.fixed
    )
    return f"| Option | The value |\n|---|---|\n{rows}"


def refused_table(page: Page) -> str:
    """The options that are refused by name."""
    names = sorted(
        (f"{entry.prefix}*", entry.goes_to) if isinstance(entry, Passed) else (entry, "")
        for entry in page.refused
    )
    rows = "".join(f"| `{name}`{f' ({_cell(text)})' if text else ''} |\n" for name, text in names)
    return f"| Option |\n|---|\n{rows}"


PARTS: Final[Mapping[str, Callable[[Page], str]]] = {
    "obeyed": obeyed_tables,
    "own": own_table,
    "passed": passed_table,
    "fixed": fixed_table,
    "refused": refused_table,
}


def filled(text: str, page: Page) -> str:
    """A page's text with its tables as the code says.

    Raises:
        ValueError: the text has a place for a part that there is not, or lacks one that there is.
    """
    places = [found[2] for found in _PLACE.finditer(text)]
    wrong = sorted(set(places) ^ set(PARTS))
    if wrong:
        raise ValueError(f"a page of options has places for {', '.join(PARTS)}; look at {', '.join(wrong)}")
    return _PLACE.sub(lambda found: f"{found[1]}\n{PARTS[found[2]](page)}\n{found[3]}", text)


def table(options: Iterable[Option | Family]) -> str:
    """Options with their defaults, values and meaning."""
    return _HEAD + "".join(
        f"| `{option.name}` | {_default(option)} | {_values(option)} | {_meaning(option)} |\n"
        for option in options
    )


def _default(option: Option | Family) -> str:
    if isinstance(option, Family):
        return ""
    if option.required:
        return "required"
    return option.default_text or (f"`{option.default}`" if option.default else "")


def _values(option: Option | Family) -> str:
    if option.form or isinstance(option, Family):
        return option.form
    # A value that a check refuses is not offered, although the reference's message lists it.
    taken = [value for value in option.values if option.check is None or option.check(value) is None]
    return ", ".join(f"`{value}`" for value in taken) or option.kind


def _meaning(option: Option | Family) -> str:
    return _cell(" ".join(filter(None, (option.documentation, option.remark))))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(page: Page, command: str, arguments: Sequence[str] | None = None) -> int:
    """The command of a connector's page."""
    return page_command(command, lambda path: filled(path.read_text("utf-8"), page), arguments)
