"""Draws the verdict and the last figures: what the demo leaves on the terminal. Pure."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidings_shop.demo.checks import EventCheck, TableCheck, Verdict
from tidings_stack.pipeline.figures import Figures

_FINE, _OFF = ("✓", "green"), ("✗", "bold red")


def draw_summary(verdict: Verdict, figures: Figures) -> RenderableType:
    """The comparison, and one last line that says whether all is well."""
    events = _table("business events", "expected", "topic", "ids", "lake")
    for check in verdict.events:
        events.add_row(
            _mark(check),
            f"{check.name} v{check.version}",
            f"{check.expected:,}",
            f"{check.records:,}",
            f"{check.distinct:,}",
            f"{check.in_lake:,}",
        )
    tables = _table("tables", "rows", "lake", "missing", "surplus", "different")
    for one in verdict.tables:
        counts = (one.rows, one.in_lake, one.missing, one.surplus, one.differing)
        tables.add_row(_mark(one), one.table, *(f"{count:,}" for count in counts))
    lines: list[RenderableType] = [
        events,
        Text(f"  expected: the orders in {figures.database}; else what was committed amounts to", "dim"),
        tables,
        Text(f"  compared row by row: {figures.database}, and the lake's current state", "dim"),
        Text(),
        *_figures(figures),
    ]
    problems = verdict.problems()
    lines += [Text.assemble(_OFF, f" {problem}") for problem in problems]
    if not problems:
        lines.append(
            Text.assemble(
                _FINE, " every order is one event of each version, and the lake equals the database"
            )
        )
    return Group(*lines)


def _figures(figures: Figures) -> list[Text]:
    rolled_back = f"{figures.rolled_back:,} rolled back and never heard of"
    lines = [
        Text(
            f"  {figures.committed.total():,} transactions committed, {rolled_back}; {figures.dead_letters} dead letters"
        )
    ]
    if figures.first_event_seconds is not None:
        lines.append(Text(f"  first business event {figures.first_event_seconds:.1f} s after the start"))
    return lines


def _table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim")
    table.add_column(width=1)
    table.add_column(title, no_wrap=True, header_style="bold", min_width=20)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _mark(check: EventCheck | TableCheck) -> Text:
    return Text(*(_OFF if check.problem else _FINE))
