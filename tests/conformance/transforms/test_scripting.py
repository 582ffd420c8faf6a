"""Filter and ContentBasedRouter, side by side by effect: Groovy expressions there, the same in Python here."""

from typing import Any

import pytest
from transform_chain import DEBEZIUM, KAFKA, Chain, tables

CONDITIONS = {
    "by_op": ("value.op == 'c' || value.op == 'u' && value.after.name == 'b'",) * 2,
    "by_number": (
        "value.after != null && value.after.f8 != null && value.after.f8 > 2",
        "value.after is not None and value.after.f8 is not None and value.after.f8 > 2",
    ),
    "by_decimal": (
        "value.after != null && value.after.amount == 4.5",
        "value.after is not None and value.after.amount == 4.5",
    ),
    "by_nulls": ("value == null || value.op != 'd'", "value is None or value.op != 'd'"),
    "by_header": ("header.site.value == 5 && key.id == 1", "header.site.value == 5 and key.id == 1"),
    "by_schema": (
        "valueSchema.name().endsWith('.Envelope') && topic.startsWith('{base}') && keySchema.field('id') != null",
        "valueSchema.name.endswith('.Envelope') and topic.startswith('{base}') and 'id' in keySchema.fields",
    ),
    "elsewhere": ("false", "False"),
}
TOPICS = {
    "routed": ("value.op == 'd' ? '{base}.gone' : null", "'{base}.gone' if value.op == 'd' else None"),
    "named": (
        "value == null ? '{base}.null' : '{base}.' + (value.after == null ? 'none' : value.after.name)",
        "'{base}.null' if value is None else '{base}.' + ('none' if value.after is None else value.after.name)",
    ),
}


def chain(language: str, part: int) -> Chain:
    """The transforms with the expressions of one side."""
    made = Chain(**{"skipped.operations": "none"})
    made.on("by_header", f"{KAFKA}InsertHeader", header="site", value__literal="5")
    nulls = {"by_number": "drop", "by_nulls": "evaluate", "named": "evaluate"}
    for kind, option, expressions in (
        ("Filter", "condition", CONDITIONS),
        ("ContentBasedRouter", "topic__expression", TOPICS),
    ):
        for table, texts in expressions.items():
            text = texts[part].replace("||", "or").replace("&&", "and") if part else texts[part]
            more = {"null__handling__mode": nulls[table]} if table in nulls else {}
            if table == "elsewhere":
                more["topic__regex"] = "no-such-topic"
            made.on(table, f"{DEBEZIUM}{kind}", language=language, **{option: text}, **more)
    return made


@pytest.mark.timeout(400)
def test_filters_and_routers_do_what_groovy_does(pair: Any) -> None:
    theirs, mine = chain("jsr223.groovy", 0).all(), chain("jsr223.python", 1).all()
    setup, steps = tables(*CONDITIONS, *TOPICS)
    both = pair(mine, *setup, only_theirs=theirs)
    both.run(*steps)
    found = {topic.removeprefix(both.mine.base): len(r) for (topic, _), r in both.compare().items()}
    # 5 changes, 3 of which Debezium makes 7 records: create, create, update, delete, tombstone, create, delete, tombstone.
    assert found[".public.by_op"] == 6
    assert found[".public.by_number"] == 3
    assert found[".public.elsewhere"] == 8
    assert found[".gone"] == 2
    assert ".none" in found
    assert found[".null"] == 2
