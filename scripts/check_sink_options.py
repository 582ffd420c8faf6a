"""Compares the tables of options in the sinks' pages with the options that their connectors define.

Each option of a connector is named on its page; a table names no option that there is not; and the default that it shows is
the one that the connector has. The remarks are written by hand. Used by ``make check``.
"""

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

from tidings_connect.config.sink_options import SINK_OPTIONS
from tidings_sinks.file.connector import FileStreamSinkConnector, FileStreamSourceConnector
from tidings_sinks.graph.connector import Neo4jSink
from tidings_sinks.http.connector import HttpSink
from tidings_sinks.jdbc.connector import AivenJdbcSink, ConfluentJdbcSink, JdbcSinkConnector
from tidings_sinks.mongo.connector import MongoSink
from tidings_sinks.objects.connector import ObjectStorageSink, S3Sink
from tidings_sinks.search.connector import OpenSearchSink
from tidings_sinks.warehouse.connector import WarehouseSink

PAGES: Final[dict[str, Sequence[Any]]] = {
    "sinks": (
        JdbcSinkConnector,
        AivenJdbcSink,
        ConfluentJdbcSink,
        FileStreamSinkConnector,
        FileStreamSourceConnector,
    ),
    "mongodb": (MongoSink,),
    "search": (OpenSearchSink,),
    "warehouse": (WarehouseSink,),
    "webhooks": (HttpSink,),
    "graph": (Neo4jSink,),
    "object-storage": (ObjectStorageSink, S3Sink),
}
_HEAD: Final = "| Option | Default | Remark |"
_CODE: Final = re.compile(r"`([^`\n]+)`")
_FENCED: Final = re.compile(r"^```.*?^```", re.S | re.M)


def expanded(name: str) -> Iterator[str]:
    """The names that `a.{b,c}.d` stands for."""
    parts = [
        part[1:-1].split(",") if part.startswith("{") else [part] for part in re.split(r"(\{[^}]*\})", name)
    ]
    return map("".join, product(*parts))


def names_in(text: str, options: Collection[str]) -> Iterator[str]:
    """What stands between backticks; one that begins with a dot or a hyphen goes on where the name before it has one."""
    former = ""
    for code in _CODE.findall(text):
        for name in expanded(code):
            if name.startswith((".", "-")):
                ends = [match.start() for match in re.finditer(r"[.-]", former)]
                name = next((one for end in ends[::-1] if (one := former[:end] + name) in options), name)  # noqa: PLW2901
            if name in options:
                former = name
            yield name


def rows_of(text: str, options: Collection[str]) -> Iterator[tuple[list[str], str]]:
    """The names of options in each row of the tables of options, and its column of defaults."""
    inside = False
    for line in text.splitlines():
        inside = line == _HEAD or (inside and line.startswith("|"))
        if inside and line.startswith("| `"):
            cells = re.split(r"(?<!\\)\|", line)
            yield list(names_in(cells[1], options)), cells[2].strip()


def problems_of(page: str, connectors: Sequence[Any]) -> Iterator[str]:
    text = Path(f"docs/{page}.md").read_text(encoding="utf-8")
    options = {option.name: option for connector in connectors for option in connector.own_options}
    named = [_as_pattern(name) for name in names_in(_FENCED.sub("", text), options)]
    for name in options:
        if not any(re.fullmatch(one, name) for one in named):
            yield f"docs/{page}.md does not name {name}"
    for names, default in rows_of(text, options):
        for name in names:
            if name not in options and name not in SINK_OPTIONS and not re.search(r"[*<]", name):
                yield f"docs/{page}.md has a row of {name}, which no connector of the page defines"
        codes = _CODE.findall(default)
        if len(codes) not in {1, len(names)} or ", ".join(f"`{code}`" for code in codes) != default:
            continue  # in words
        for name, code in zip(names, codes * len(names) if len(codes) == 1 else codes, strict=True):
            defaults = {
                option.default
                for connector in connectors
                for option in connector.own_options
                if option.name == name and option.default  # else it is what the page says in words
            }
            if defaults and code not in defaults | {str(one).rpartition(".")[2] for one in defaults}:
                yield f"docs/{page}.md says that {name} is {code} by default, but it is {sorted(map(str, defaults))}"


def _as_pattern(name: str) -> str:
    return re.sub(r"\\\*|<[^>]*>", ".+", re.escape(name))


if __name__ == "__main__":
    found = [problem for page, connectors in PAGES.items() for problem in problems_of(page, connectors)]
    sys.exit("\n".join(found) or 0)
