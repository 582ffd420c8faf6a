"""Plans kept by table: rows of a batch that are in memory, and beside each of them a text by which they are told apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.spark.small import KeptPlan, LocalRows


@dataclass(frozen=True)
class _Plans:
    made_for: tuple[Any, ...]
    layout: Any
    rows: KeptPlan
    told: KeptPlan


class Plans:
    """Made again when what they were made for, or a batch's columns, are not the same any more."""

    def __init__(self, local: LocalRows) -> None:
        self._local = local
        self._plans: dict[str, _Plans] = {}

    def of(
        self,
        table: str,
        batch: DataFrame,
        made_for: tuple[Any, ...],
        rows: Callable[[DataFrame], DataFrame],
        told: Callable[[DataFrame], DataFrame],
    ) -> tuple[DataFrame, list[list[Any]]] | None:
        """Rows for a table, and what is told of each; None when one of them needs a task.

        Args:
            batch: in memory.
            made_for: whatever `rows` and `told` depend on.
            told: gives `told_of` for each of the rows.
        """
        layout = self._local.layout(batch)
        plans = self._plans.get(table)
        if plans is None or plans.made_for != made_for or not plans.layout.equals(layout):
            plans = _Plans(made_for, layout, self._local.plan(batch, rows), self._local.plan(batch, told))
            self._plans[table] = plans
        found, texts = plans.rows.of(batch), plans.told.of(batch)
        if found is None or texts is None:
            return None
        return found, [list(json.loads(text).values()) for text in self._local.texts(texts)]


def told_of(*parts: Column) -> Column:
    """JSON of some values, numbers and texts."""
    named = [part.alias(f"f{number}") for number, part in enumerate(parts)]
    return sf.to_json(sf.struct(*named), {"ignoreNullFields": "false"})
