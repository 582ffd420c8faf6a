"""Writes the texts of a starting domain: aggregates, rules, contracts and a test, formatted as ruff would."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tidings_domain.contracts.contracts import camel
from tidings_domain.starting.naming import identifier, kebab
from tidings_domain.starting.proposal import Child, Held, Member, Proposal, Proposed, key_columns
from tidings_domain.starting.tables import Column, Table

_DELETE_COLUMNS = "Delete the columns that no rule uses: what is not declared can change in the database without any effect."
_LINE = 88  # ruff's and black's own
_IMPORTS = (
    ("from datetime import {}", ("UTC", "date", "datetime", "time")),
    ("from decimal import {}", ("Decimal",)),
    ("from typing import {}", ("Annotated", "Any")),
    ("from uuid import {}", ("UUID",)),
)


def file_texts(domain: str, package: str, proposal: Proposal) -> dict[str, str]:
    """Path to text, for everything but the generated event classes."""
    files = {
        f"{package}/__init__.py": f'"""What the tables of {domain} mean, and what of it is news."""\n',
        f"{package}/aggregates.py": aggregates_text(proposal),
        f"{package}/rules.py": rules_text(package, proposal),
        f"test_{package}.py": test_text(package, proposal),
    }
    for aggregate in proposal.aggregates:
        event = event_name(aggregate)
        text = json.dumps(contract(domain, aggregate), indent=2, ensure_ascii=False) + "\n"
        files[f"schemas/{domain}/{event}/v1.avsc"] = text
    return files


def event_name(aggregate: Proposed) -> str:
    """``order-created``."""
    return f"{kebab(aggregate.root.cls)}-created"


def event_fields(aggregate: Proposed) -> list[Column]:
    """The columns that the first event of an aggregate tells: its key, as far as a contract can hold it."""
    return [column for column in key_columns(aggregate.root.table) if column.kind.avro is not None]


def contract(domain: str, aggregate: Proposed) -> dict[str, Any]:
    """The contract of the first event; the database's other columns stay private until somebody needs them."""
    event, table = event_name(aggregate), aggregate.root.table.name
    return {
        "type": "record",
        "name": camel(event),
        "namespace": f"{domain}.{event.replace('-', '_')}.v1",
        "doc": f"There is a new {kebab(aggregate.root.cls).replace('-', ' ')}.",
        "fields": [
            {"name": identifier(c.name), "type": c.kind.avro, "doc": f"Which one: {table}.{c.name}."}
            for c in event_fields(aggregate)
        ],
    }


def aggregates_text(proposal: Proposal) -> str:
    """aggregates.py: rows that are referred to, then each aggregate after its children."""
    body = "\n\n\n".join(aggregate_blocks(proposal))
    imports = list(_imports(body))
    if "field(name=" in body:
        imports += ["", "from msgspec import field"]
    head = [
        '"""What the tables mean. Written once by `tidings init`, and now yours.',
        "",
        _DELETE_COLUMNS,
        '"""',
        "",
        *([*imports, ""] if imports else []),
        f"from tidings_domain import {', '.join(_language(body))}",
    ]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def aggregate_blocks(proposal: Proposal) -> list[str]:
    """The classes: rows that are referred to, then each aggregate after its children."""
    blocks = [_block(member, f'Row, table="{member.table.name}"', ()) for member in proposal.referred]
    for aggregate in proposal.aggregates:
        blocks += [
            _block(child.member, f'Row, table="{child.member.table.name}"', child.children)
            for child in reversed(list(aggregate.descendants()))
        ]
        root = aggregate.root
        blocks.append(_block(root, f'Aggregate, root="{root.table.name}"', aggregate.children))
    return blocks


def module_text(package: str, proposal: Proposal) -> str:
    """A module with one aggregate and its rule; `proposal` holds that aggregate, and the rows that it refers to."""
    (aggregate,) = proposal.aggregates
    body = "\n\n\n".join([*aggregate_blocks(proposal), rule_text(aggregate)])
    imports = [*_imports(body), "from collections.abc import Iterator"]
    imports.sort(key=lambda line: line.split()[1])
    language = sorted({*_language(body), "Change", "rule"}, key=lambda word: (word[0].islower(), word))
    head = [
        f'"""What {aggregate.root.table.name} means, and what of it is news. Written once by `tidings init`, and now yours.',
        "",
        _DELETE_COLUMNS,
        '"""',
        "",
        *imports,
        "",
        *(["from msgspec import field"] if "field(name=" in body else []),
        f"from tidings_domain import {', '.join(language)}",
        "",
        f"from {package}.events import {camel(event_name(aggregate))}",
    ]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def _language(body: str) -> list[str]:
    return [
        word
        for word in ("MILLISECONDS", "Aggregate", "Row", "children", "reference")
        if f"{word}(" in body or f"({word}" in body or f", {word}]" in body
    ]


def _imports(body: str) -> Iterator[str]:
    body = _COMMENT.sub("", body)
    for line, names in _IMPORTS:
        found = [name for name in names if any(f"{mark}{name}{end}" in body for mark, end in _MARKS)]
        if found:
            yield line.format(", ".join(found))


_COMMENT = re.compile(r"  #.*")
_MARKS = [(mark, end) for mark in (": ", "[", ", ", "=", "(") for end in ("\n", " ", "(", "[", "]", ")", ",")]


def _block(member: Member, base: str, children: tuple[Child, ...]) -> str:
    table = member.table
    key = f'"{table.key[0]}"' if len(table.key) == 1 else f"({', '.join(json.dumps(c) for c in table.key)})"
    lines = [f"class {member.cls}({base}, key={key}):"]
    lines += [_field_line(column) for column in table.columns]
    relations = [
        f"    {child.field} = children({child.member.cls}, by={_by(child.key.columns)})  # {child.why}"
        for child in children
    ]
    relations += [_reference_line(held) for held in member.references]
    return "\n".join([*lines, *([""] if relations else []), *relations])


def _reference_line(held: Held) -> str:
    guess = "  # guessed from the name" if held.key.guessed else ""
    required = ", required=True" if held.required else ""
    return f"    {held.field} = reference({held.cls}, by={_by(held.key.columns)}{required}){guess}"


def _by(columns: tuple[str, ...]) -> str:
    return json.dumps(columns[0]) if len(columns) == 1 else f"({', '.join(json.dumps(c) for c in columns)})"


def _field_line(column: Column) -> str:
    name = identifier(column.name)
    kind = f"{column.kind.python} | None" if column.nullable else column.kind.python
    other = f" = field(name={json.dumps(column.name)})" if name != column.name else ""
    note = f"  # {column.kind.note}" if column.kind.note else ""
    return f"    {name}: {kind}{other}{note}"


def rules_text(package: str, proposal: Proposal) -> str:
    """rules.py: one rule for each aggregate, which tells that there is a new one."""
    classes = ", ".join(sorted(aggregate.root.cls for aggregate in proposal.aggregates))
    events = ", ".join(sorted(camel(event_name(aggregate)) for aggregate in proposal.aggregates))
    blocks = [rule_text(aggregate) for aggregate in proposal.aggregates]
    head = [
        '"""What is news. Written once by `tidings init`, and now yours: say what your business calls news."""',
        "",
        "from collections.abc import Iterator",
        "",
        *_wrapped_import(f"{package}.aggregates", classes),
        *_wrapped_import(f"{package}.events", events),
        "from tidings_domain import Change, rule",
    ]
    return "\n".join(head) + "\n\n\n" + "\n\n\n".join(blocks) + "\n"


def rule_text(aggregate: Proposed) -> str:
    """The rule that tells that there is a new one."""
    cls, event = aggregate.root.cls, camel(event_name(aggregate))
    names = [identifier(column.name) for column in event_fields(aggregate)]
    fields = ", ".join(f"{name}=change.current.{name}" for name in names)
    return (
        f"@rule({cls}, emits={event})\n"
        f"def {event_name(aggregate).replace('-', '_')}(change: Change[{cls}]) -> Iterator[{event}]:\n"
        f'    """There is a new row in {aggregate.root.table.name}."""\n'
        f"    if change.created:\n"
        f"        yield {event}({fields})"
    )


def _wrapped_import(module: str, names: str) -> list[str]:
    line = f"from {module} import {names}"
    if len(line) <= 100:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names.split(", ")), ")"]


def test_text(package: str, proposal: Proposal) -> str:
    """The test: a new row of each aggregate is news, an update that changes nothing is none, nor is its deletion."""
    blocks = []
    for aggregate in proposal.aggregates:
        rows = list(_rows_around(aggregate, proposal))
        root, children = aggregate.root, [child.member for child in aggregate.descendants()]
        event = camel(event_name(aggregate))
        literals = [f"{identifier(c.name)}={c.kind.literal}" for c in event_fields(aggregate)]
        lines = [
            f"def test_{event_name(aggregate).replace('-', '_')}() -> None:",
            f'    domain = Rehearsal(load_domain("{package}"))',
        ]
        if rows:
            lines += ["    domain.given(", *(_call_lines("insert", table) for table in rows), "    )"]
        made = [root.table, *(member.table for member in children)]
        lines += [
            "    outcome = domain.when(",
            *(_call_lines("insert", table) for table in made),
            "    )",
            f"    outcome.expects({event}({', '.join(literals)}))",
            "    domain.when(",
            _call_lines("update", root.table),
            "    ).expects()",
            "    domain.when(",
            *(_call_lines("delete", table, table.key) for table in reversed(made)),
            "    ).expects()",
        ]
        blocks.append("\n".join(lines))
    body = "\n\n\n".join(blocks)
    events = ", ".join(sorted(camel(event_name(aggregate)) for aggregate in proposal.aggregates))
    head = [
        '"""Written once by `tidings init`, and now yours. Rows look as Debezium writes them."""',
        "",
        *([*imports, ""] if (imports := list(_imports(body))) else []),
        "from tidings_domain import load_domain",
        "from tidings_domain.testing import Rehearsal, delete, insert, update",
        "",
        *_wrapped_import(f"{package}.events", events),
    ]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def _rows_around(aggregate: Proposed, proposal: Proposal) -> Iterator[Table]:
    """The tables that the aggregate's rows refer to, without its own."""
    tables = {member.cls: member.table for member in proposal.referred}
    own = {aggregate.root.table.name, *(child.member.table.name for child in aggregate.descendants())}
    members: Iterable[Member] = (aggregate.root, *(child.member for child in aggregate.descendants()))
    found = {tables[held.cls].name: tables[held.cls] for member in members for held in member.references}
    return (table for name, table in found.items() if name not in own)


def _call_lines(what: str, table: Table, only: tuple[str, ...] | None = None) -> str:
    """A row of a test, with an argument a line where a line has no room for all."""
    indent = " " * 8
    columns = [column for column in table.columns if only is None or column.name in only]
    arguments = [json.dumps(table.name)]
    arguments += [f"{c.name}={_sample(c)}" for c in columns if identifier(c.name) == c.name]
    other = [f"{json.dumps(c.name)}: {_sample(c)}" for c in columns if identifier(c.name) != c.name]
    if other:
        arguments.append("**{" + ", ".join(other) + "}")
    line = f"{indent}{what}({', '.join(arguments)}),"
    if len(line) <= _LINE:
        return line
    return "\n".join([f"{indent}{what}(", *(f"{indent}    {one}," for one in arguments), f"{indent}),"])


def _sample(column: Column) -> str:
    sample = column.kind.sample
    return json.dumps(sample, ensure_ascii=False) if isinstance(sample, str) else repr(sample)
