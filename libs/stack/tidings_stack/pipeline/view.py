"""Draws the figures: a live picture for a terminal, a line now and then for everything else. Pure.

The picture is a strip of the four stages, what has happened at each, and below it the business events by version, the
tables, and the newest business events. It is made for 100 columns, uses more when there are more, and keeps its height.
"""

from collections.abc import Sequence

from rich import box
from rich.align import Align
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tidings_stack.pipeline.figures import LATEST, Figures, Lag, Series, State

UNKNOWN = "-"
"""Stands where nobody has said a figure yet."""

_BARS = " ▁▂▃▄▅▆▇█"
_HEIGHT_BESIDE_LATEST = 23
_SPINNER = "◐◓◑◒"
_STATES = {State.WAITING: ("○", "dim"), State.READY: ("●", "green"), State.FAILED: ("✗", "red bold")}


def draw(figures: Figures, height: int = _HEIGHT_BESIDE_LATEST + 7) -> RenderableType:
    """The whole picture, for a terminal of `height` lines: the newest events take what the rest leaves."""
    shown = max(3, min(LATEST, height - _HEIGHT_BESIDE_LATEST))
    with figures.lock:
        return Group(
            _title(figures),
            _parts(figures),
            _stages(figures),
            _tables(figures),
            _latest(figures, shown),
        )


def line(figures: Figures) -> str:
    """The figures in one line, for a log."""
    with figures.lock:
        if not figures.transactions.total:
            starting = [part.name for part in figures.parts if part.state is State.STARTING]
            return f"starting {', '.join(starting)}" if starting else figures.phase
        return (
            f"{figures.phase}: "
            f"{figures.transactions.total:,} transactions, "
            f"{figures.technical.total:,} technical events, "
            f"{figures.business.total:,} business events, "
            f"{figures.lake.total:,} rows in the lake; "
            f"lag: capture {_lag(figures.capture_lag)}, sequencer {_lag(figures.sequencer_lag)}, "
            f"translator {_lag(figures.translator_lag)}, lakehouse {_lag(figures.lakehouse_lag)}; "
            f"{figures.log} kept {size(figures.retained_log_bytes)}"
        )


def _title(figures: Figures) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True, ratio=1)
    grid.add_column(width=22)
    grid.add_column(justify="right", width=6)
    progress = ProgressBar(
        total=1.0,
        completed=max(0.0, min(1.0, figures.progress)),
        pulse=figures.progress < 0,
        animation_time=figures.elapsed,
        width=22,
        complete_style="dark_cyan",
        finished_style="green",
        pulse_style="dark_cyan",
    )
    title = Text.assemble((" Tidings ", "bold white on dark_cyan"), (f"  {figures.title}", "bold"))
    minutes, seconds = divmod(int(figures.elapsed), 60)
    grid.add_row(title, Text(figures.phase), progress, Text(f"{minutes}:{seconds:02}", "bold"))
    return grid


def _parts(figures: Figures) -> Text:
    elapsed = figures.elapsed
    text = Text(no_wrap=True, overflow="ellipsis")
    for part in figures.parts:
        spinning = _SPINNER[int(elapsed * 4) % len(_SPINNER)]
        symbol, style = _STATES.get(part.state, (spinning, "yellow"))
        text.append(f" {symbol} ", style)
        text.append(part.name, "dim" if part.state is State.WAITING else "")
        if part.seconds is not None and not figures.transactions.total:  # only of interest while one waits
            text.append(f" {part.seconds:.0f}s", "dim")
        elif part.state is State.STARTING:
            text.append(f" {elapsed - part.since:.0f}s", "yellow")
    return text


def _stages(figures: Figures) -> RenderableType:
    stages = (
        (
            figures.database,
            ("transactions", figures.transactions),
            (
                ("rolled back", f"{figures.rolled_back:,}"),
                (f"{figures.log} kept", size(figures.retained_log_bytes)),
            ),
        ),
        (
            "capture",
            ("technical events", figures.technical),
            (("lag", _seconds(figures.capture_lag)), ("unconfirmed", size(figures.capture_lag.bytes))),
        ),
        (
            "translator",
            ("business events", figures.business),
            (
                ("lag", f"{_records(figures.sequencer_lag)} + {_records(figures.translator_lag)}"),
                (
                    "latency",
                    UNKNOWN if figures.latency_seconds is None else duration(figures.latency_seconds),
                ),
            ),
        ),
        (
            "lakehouse",
            ("rows", figures.lake),
            (("lag", _records(figures.lakehouse_lag)), ("newest row", _age(figures.lakehouse_lag))),
        ),
    )
    grid = Table.grid(expand=True)
    for number in range(len(stages)):
        if number:
            grid.add_column(width=1, vertical="middle")
        grid.add_column(ratio=1)
    cells: list[RenderableType] = []
    for title, (unit, series), notes in stages:
        if cells:
            cells.append(Text("▶", "dark_cyan"))
        cells.append(_stage(title, unit, series, notes))
    grid.add_row(*cells)
    return grid


def _stage(title: str, unit: str, series: Series, notes: Sequence[tuple[str, str]]) -> Panel:
    head = Table.grid(expand=True)
    head.add_column(no_wrap=True, ratio=1, style="bold")
    head.add_column(justify="right", no_wrap=True)
    head.add_row(f"{series.total:,}", f"{series.rate():,.0f}/s")
    facts = Table.grid(expand=True)
    facts.add_column(no_wrap=True, style="dim", ratio=1)  # where it is narrow, the label gives way
    facts.add_column(justify="right", no_wrap=True)
    for label, value in notes:
        facts.add_row(label, value)
    return Panel(
        Group(head, Text(unit, no_wrap=True, overflow="ellipsis"), Curve(series.rates), facts),
        title=f"[bold]{title}[/]",
        title_align="left",
        border_style="dark_cyan",
        box=box.ROUNDED,
        padding=(0, 1),
    )


class Curve:
    """Rates as a curve that is as wide as there is room."""

    def __init__(self, rates: Sequence[float]) -> None:
        self._rates = rates

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the newest rates."""
        yield Text(curve_of(self._rates, options.max_width), "dark_cyan", no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """As wide as there is room."""
        return Measurement(4, options.max_width)


def _tables(figures: Figures) -> RenderableType:
    events = _figure_table("business events", "events", "lake")
    for name, versions in figures.events:
        for version in reversed(versions):
            events.add_row(
                Text.assemble((name, figures.styles.get(name, "")), (f" v{version}", "dim")),
                _count(figures.business_by_version[name, version]),
                _count(figures.lake_by_table[f"business.{snake(name)}_v{version}"]),
            )
    tables = _figure_table("tables", "events", "lake")
    for name in figures.tables or sorted(figures.technical_by_table):
        tables.add_row(
            Text(name),
            _count(figures.technical_by_table[name]),
            _count(figures.lake_by_table[f"technical.{name}_log"]),
        )
    grid = Table.grid(expand=True, padding=(0, 2))
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(events, tables)
    return grid


def _figure_table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1), header_style="dim")
    table.add_column(title, no_wrap=True, ratio=1, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _latest(figures: Figures, shown: int) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", style="dim", no_wrap=True)
    newest = list(figures.latest)[-shown:][::-1]
    for event in newest:
        grid.add_row(
            event.clock,
            Text(event.name, figures.styles.get(event.name, "")),
            f"v{event.version}",
            Text.assemble((f"{event.subject}  ", "bold"), event.text),
            "" if event.latency_seconds is None else duration(event.latency_seconds),
        )
    for _ in range(shown - len(newest)):
        grid.add_row("", "", "", "", "")
    title = "[bold]newest business events[/]"
    if figures.first_event_seconds is not None:
        title += f" [dim]the first came {figures.first_event_seconds:.0f} s after the start[/]"
    letters = (
        f"[red]{figures.dead_letters:,} dead letters[/]"
        if figures.dead_letters
        else "[dim]no dead letters[/]"
    )
    body: RenderableType = (
        grid if newest else Align.center(Text("none yet", "dim"), vertical="middle", height=shown)
    )
    return Panel(
        body,
        title=title,
        title_align="left",
        subtitle=letters,
        subtitle_align="right",
        border_style="dim",
        box=box.ROUNDED,
    )


def curve_of(rates: Sequence[float], width: int) -> str:
    """The last `width` rates as a curve of block characters, the highest of them full."""
    recent = list(rates)[-width:]
    top = max(recent, default=0.0)
    if top <= 0:
        return _BARS[1] * len(recent)
    steps = len(_BARS) - 1
    return "".join(_BARS[max(1, round(rate / top * steps))] for rate in recent)


def size(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return UNKNOWN
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def duration(seconds: float) -> str:
    """Seconds for people."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def snake(name: str) -> str:
    """``OrderPlaced`` as ``order_placed``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _lag(lag: Lag) -> str:
    """A lag in one word: records where a stage counts them, else seconds."""
    return f"{lag.records:,} records" if lag.records is not None else _seconds(lag)


def _seconds(lag: Lag) -> str:
    return UNKNOWN if lag.seconds is None else duration(lag.seconds)


def _age(lag: Lag) -> str:
    return UNKNOWN if lag.seconds is None else f"{duration(lag.seconds)} old"


def _records(lag: Lag) -> str:
    return UNKNOWN if lag.records is None else f"{lag.records:,}"


def _count(count: int) -> Text:
    return Text(f"{count:,}", "" if count else "dim")
