"""Draws rows of the Grafana dashboard as an SVG, from what a Prometheus answers that scrapes a running pipeline.

    make demo KEEP=1 ARGS="--seconds 300"      # under traffic; its end says the addresses, `tidings-shop traffic` makes more
    scripts/draw_dashboard.py --target tidings-capture=127.0.0.1:8083 --target tidings-translator=127.0.0.1:8092 \\
        --row "At a glance" --seconds 200 > docs/assets/dashboard.svg

Grafana itself is in no package registry, so this is not Grafana's own picture: places, titles, units, thresholds, colours of
states and queries are the dashboard's, the drawing is ours. Prometheus is found as `scripts/check_dashboards.py` does.
"""

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from check_dashboards import NO_TOOL, ROOT, Prometheus, find_prometheus, running

DASHBOARD = ROOT / "helm/tidings/dashboards/tidings.json"
RATE_WINDOW = "1m"
STEP_SECONDS = 2
UNIT_WIDTH, UNIT_HEIGHT, GAP = 50, 28, 6
BACK, CARD, LINE, TEXT, FAINT = "#111217", "#181b1f", "#2c3038", "#d8d9da", "#8e949c"
COLOURS = {"green": "#3f9e56", "orange": "#c77a1f", "red": "#c4424c", "blue": "#3b73b9", "yellow": "#b8952b", "purple": "#8355ad"}  # fmt: skip
PALETTE = (
    "#7eb26d",
    "#eab839",
    "#6ed0e0",
    "#ef843c",
    "#e24d42",
    "#5195ce",
    "#ba43a9",
    "#a16ed8",
    "#508642",
    "#cca300",
)
GREATER = {"s": (("s", 60), ("min", 60), ("h", 24), ("d", math.inf))}
PREFIXES = ("", "K", "M", "G", "T")

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel: its legend, and times in seconds with values."""

    legend: str
    points: Points

    @property
    def last(self) -> float:
        return self.points[-1][1]


def main() -> int:
    """Read the arguments, scrape for a while, and print the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", required=True, metavar="JOB=HOST:PORT")
    parser.add_argument("--row", action="append", required=True, metavar="TITLE", help="of the dashboard")
    parser.add_argument(
        "--seconds", type=float, default=200.0, help="how long to scrape before (default 200)"
    )
    parser.add_argument("--prometheus", default=find_prometheus(), help="the program to run")
    options = parser.parse_args()
    if not options.prometheus:
        print("there is no prometheus: run scripts/tools.sh prometheus", file=sys.stderr)
        return NO_TOOL
    with running(options.prometheus, dict(item.split("=", 1) for item in options.target)) as prometheus:
        time.sleep(options.seconds)
        panels = panels_of(DASHBOARD, options.row)
        answers = {panel["id"]: series_of(prometheus, panel, options.seconds) for panel in panels}
    print(picture(panels, answers))
    return 0


def panels_of(dashboard: Path, rows: Sequence[str]) -> list[dict[str, Any]]:
    """The rows and the panels under them, moved up to follow each other."""
    found: list[dict[str, Any]] = []
    take, shift, bottom = False, 0, 0
    for panel in json.loads(dashboard.read_text())["panels"]:
        place = panel["gridPos"]
        if panel["type"] == "row":
            take = panel["title"] in rows
            shift = bottom - place["y"]
        if take:
            found.append({**panel, "gridPos": {**place, "y": place["y"] + shift}})
            bottom = max(bottom, place["y"] + shift + place["h"])
    return found


def series_of(prometheus: Prometheus, panel: Mapping[str, Any], seconds: float) -> list[Series]:
    """The answers to a panel's queries, values that are not numbers left out."""
    end = time.time()
    found = []
    for target in panel.get("targets", []):
        expression = re.sub(r"\$\{?__(rate_interval|interval|range)\}?", RATE_WINDOW, target["expr"])
        expression = re.sub(r"\$\{?[a-z]\w*(:\w+)?\}?", ".*", expression)
        answer = prometheus.get(
            "/api/v1/query_range",
            query=expression,
            start=str(end - seconds),
            end=str(end),
            step=str(STEP_SECONDS),
        )
        found += [drawn(target["legendFormat"], item) for item in answer["result"]]
    return [series for series in found if series.points]


def drawn(legend: str, answer: Mapping[str, Any]) -> Series:
    """A series of Prometheus's answer, with its legend filled in."""
    labels = answer["metric"]
    said = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend)
    points = [(float(at), float(value)) for at, value in answer["values"]]
    return Series(said, [point for point in points if math.isfinite(point[1])])


def picture(panels: Sequence[Mapping[str, Any]], answers: Mapping[int, Sequence[Series]]) -> str:
    """The whole picture."""
    width = 24 * UNIT_WIDTH
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * UNIT_HEIGHT
    times = [at for many in answers.values() for series in many for at, _ in series.points]
    span = (min(times), max(times))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Inter, Helvetica, Arial, sans-serif">',
        "<title>The dashboard Tidings, drawn from Prometheus's answers</title>",
        f'<rect width="{width}" height="{height}" fill="{BACK}"/>',
    ]
    for panel in panels:
        place = panel["gridPos"]
        x, y = place["x"] * UNIT_WIDTH + GAP / 2, place["y"] * UNIT_HEIGHT + GAP / 2
        w, h = place["w"] * UNIT_WIDTH - GAP, place["h"] * UNIT_HEIGHT - GAP
        parts.append(f'<g transform="translate({x:g} {y:g})">')
        parts += DRAWN[panel["type"]](panel, answers.get(panel["id"], []), w, h, span)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"])


def text(x: float, y: float, said: str, size: float, fill: str = TEXT, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}" {more}>{escape(said)}</text>'


def card(panel: Mapping[str, Any], w: float, h: float, fill: str = CARD) -> list[str]:
    """A panel's box and title."""
    return [
        f'<rect width="{w:g}" height="{h:g}" rx="2" fill="{fill}" stroke="{LINE}"/>',
        text(8, 17, panel["title"], 12, more='font-weight="500"'),
    ]


def row(panel: Mapping[str, Any], _series: object, _w: float, h: float, _span: object) -> list[str]:
    return [text(4, h - 5, f"⌄  {panel['title']}", 14, more='font-weight="600"')]


def stat(panel: Mapping[str, Any], series: Sequence[Series], w: float, h: float, _span: object) -> list[str]:
    """The last numbers, in the threshold's colour."""
    defaults = panel["fieldConfig"]["defaults"]
    steps = defaults["thresholds"]["steps"]
    worst = max((_step(steps, one.last) for one in series), default=0)
    colour = COLOURS[steps[worst]["color"]]
    whole = panel["options"]["colorMode"] == "background"
    parts = card(panel, w, h, colour if whole else CARD)
    for number, one in enumerate(series):
        middle = w * (2 * number + 1) / (2 * len(series))
        said = number_with_unit(one.last, defaults.get("unit", "none"), defaults.get("decimals"))
        parts.append(text(middle, h / 2 + 16, said, 26, TEXT if whole else colour, 'text-anchor="middle" font-weight="600"'))  # fmt: skip
        if len(series) > 1:
            parts.append(text(middle, h - 10, one.legend, 11, TEXT, 'text-anchor="middle"'))
    return parts


def _step(steps: Sequence[Mapping[str, Any]], value: float) -> int:
    return max(number for number, step in enumerate(steps) if step["value"] is None or value >= step["value"])


def timeseries(
    panel: Mapping[str, Any], series: Sequence[Series], w: float, h: float, span: tuple[float, float]
) -> list[str]:
    """Lines over time; the legend has the last value of each."""
    unit = panel["fieldConfig"]["defaults"].get("unit", "none")
    columns = 2 if w > 400 else 1
    rows = min(math.ceil(len(series) / columns), max(1, int((h - 120) / 15)))
    left, top, right, bottom = 52.0, 28.0, w - 10, h - 24 - 15 * rows
    most = _round_up(max((value for one in series for _, value in one.points), default=1.0))
    least = min(0.0, min((value for one in series for _, value in one.points), default=0.0))
    parts = card(panel, w, h)
    for tick in range(3):
        y = bottom - (bottom - top) * tick / 2
        parts.append(f'<path d="M{left:g} {y:.1f}H{right:g}" stroke="{LINE}"/>')
        said = number_with_unit(least + (most - least) * tick / 2, unit)
        parts.append(text(left - 5, y + 4, said, 10, FAINT, 'text-anchor="end"'))
    parts += _clock(span, left, right, bottom + 13)

    def at(point: tuple[float, float]) -> str:
        x = left + (right - left) * (point[0] - span[0]) / (span[1] - span[0])
        return f"{x:.1f} {bottom - (bottom - top) * (point[1] - least) / (most - least):.1f}"

    for number, one in enumerate(series):
        colour = PALETTE[number % len(PALETTE)]
        lines = "L".join(at(point) for point in one.points)
        parts.append(f'<path d="M{lines}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        if number < rows * columns:
            x, y = 10 + (number % columns) * (w / columns), bottom + 29 + 15 * (number // columns)
            said = f"{one.legend or panel['title']}  {number_with_unit(one.last, unit)}"
            parts.append(f'<rect x="{x:g}" y="{y - 6:.1f}" width="12" height="4" rx="2" fill="{colour}"/>')
            parts.append(text(x + 17, y, _shortened(said, (w / columns - 30) / 5.6), 11, FAINT))
    if not series:
        parts.append(text(w / 2, (top + bottom) / 2 + 4, "No data", 13, FAINT, 'text-anchor="middle"'))
    return parts


def state_timeline(
    panel: Mapping[str, Any], series: Sequence[Series], w: float, h: float, span: tuple[float, float]
) -> list[str]:
    """A band for each series, in the colours of its states."""
    left, top, right, bottom = min(190.0, w * 0.4), 30.0, w - 10, h - 20
    height = min(30.0, (bottom - top) / max(1, len(series)))
    states = _states(panel)
    parts = card(panel, w, h)
    for number, one in enumerate(series):
        y = top + number * height
        parts.append(text(left - 6, y + height / 2 + 4, _shortened(one.legend, left / 6), 11, FAINT, 'text-anchor="end"'))  # fmt: skip
        for begin, end, value in _stretches(one.points):
            x1, x2 = (left + (right - left) * (t - span[0]) / (span[1] - span[0]) for t in (begin, end))
            colour = states.get(value, COLOURS["green"])
            parts.append(f'<rect x="{x1:.1f}" y="{y + 2:.1f}" width="{max(1.0, x2 - x1):.1f}" height="{height - 4:.1f}" fill="{colour}"/>')  # fmt: skip
    return [*parts, *_clock(span, left, right, bottom + 12)]


def _states(panel: Mapping[str, Any]) -> dict[float, str]:
    return {
        float(value): COLOURS.get(shown.get("color", ""), COLOURS["green"])
        for mapping in panel["fieldConfig"]["defaults"].get("mappings", [])
        for value, shown in mapping["options"].items()
    }


def _stretches(points: Points) -> Iterable[tuple[float, float, float]]:
    """Begin, end and value of what stays the same."""
    begin = points[0][0]
    for (before, value), (at, following) in zip(points, [*points[1:], (math.inf, math.nan)], strict=True):
        if following != value:
            yield begin, before + STEP_SECONDS if math.isfinite(at) else before, value
            begin = at


def _clock(span: tuple[float, float], left: float, right: float, y: float) -> list[str]:
    return [
        text(left + (right - left) * part, y, time.strftime("%H:%M:%S", time.gmtime(span[0] + (span[1] - span[0]) * part)),
             10, FAINT, f'text-anchor="{anchor}"')
        for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    ]  # fmt: skip


def number_with_unit(value: float, unit: str, decimals: int | None = None) -> str:
    """As people read it: 13.7 KiB, 2.5 min, 85%."""
    if unit == "s" and abs(value) >= 1:
        for word, most in GREATER["s"]:
            if abs(value) < most:
                return f"{value:.3g} {word}"
            value /= most
    if unit == "s" and decimals is None:
        return "0 s" if value == 0 else f"{value * 1000:.3g} ms"
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    base = 1024.0 if unit in {"bytes", "Bps"} else 1000.0
    power = 0
    while abs(value) >= base and power < len(PREFIXES) - 1:
        value, power = value / base, power + 1
    between = {"bytes": "iB" if power else " B", "Bps": "B/s", "ops": "/s", "s": " s"}.get(unit, "")
    said = f"{value:.{decimals}f}" if decimals is not None else f"{value:.3g}"
    return f"{said}{' ' if power else ''}{PREFIXES[power]}{between}"


def _round_up(most: float) -> float:
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= most)


def _shortened(said: str, most: float) -> str:
    return said if len(said) <= most else said[: max(1, int(most) - 1)] + "…"


DRAWN = {"row": row, "stat": stat, "timeseries": timeseries, "state-timeline": state_timeline}

if __name__ == "__main__":
    sys.exit(main())
