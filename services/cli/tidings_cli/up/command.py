"""The command ``tidings up``.

Exit codes: 0 and 130 it was stopped (by itself after `--seconds`, by Ctrl-C), 1 a part failed, 2 wrong settings.
"""

import argparse
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console

from tidings_cli.up.alone import alone
from tidings_cli.up.pipeline import ProjectPipeline, embedded
from tidings_cli.up.project import Project, read_project
from tidings_cli.up.replication import Marker, Replication, read_replication
from tidings_domain import load_domain
from tidings_domain.contracts.contracts import camel
from tidings_envelope.base_errors import SettingsError, TidingsError, print_error
from tidings_jvm import prefetch
from tidings_jvm.errors import JvmError
from tidings_stack.errors import PipelineError, StackError
from tidings_stack.pipeline.feed import Feed, take_events
from tidings_stack.pipeline.figures import Figures, LatestEvent
from tidings_stack.pipeline.screen import EXIT_STOPPED, Stopped, report, stop_on_signals, watched
from tidings_stack.pipeline.tap import EventTap

_SHOWN: Final = 60
_ERRORS = (TidingsError, StackError, JvmError)


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    options = parser().parse_args(arguments)
    try:
        project = read_project(options.project.resolve())
        replication, config = read_replication(
            project.connector, {"TIDINGS_DATABASE_PASSWORD": "", **project.given}
        )
        with alone(project.state):
            return _command(project, replication, config, options)
    except TidingsError as error:
        return print_error(error)


def _command(
    project: Project, replication: Replication, config: Mapping[str, str], options: argparse.Namespace
) -> int:
    marker = Marker(project.state)
    try:
        if options.drop:
            return _drop(project, replication, marker)
        _check(project, replication, marker, keep=options.keep)
    finally:
        replication.close()
    return _run(project, replication, config, marker, options, Console(highlight=False))


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    options = argparse.ArgumentParser(
        prog="tidings up",
        description="Runs the whole pipeline of a project that `tidings init` wrote on this machine, and shows it live: from its"
        " database, wherever that is, to business events and the lake. Kafka and the registry are started here unless"
        " TIDINGS_KAFKA and TIDINGS_REGISTRY (in .env or the environment) name others. Ctrl-C ends all, and drops the"
        " replication slot that it made.",
    )
    options.add_argument(
        "project", nargs="?", type=Path, default=Path(), metavar="DIR", help="the project (this directory)"
    )
    options.add_argument(
        "--keep", action="store_true",
        help="keep topics, schemas, lake and slot in .tidings, for the next `tidings up --keep` to go on with",
    )  # fmt: skip
    options.add_argument(
        "--drop", action="store_true", help="remove what --keep has kept, with slot and publication"
    )
    options.add_argument("--seconds", type=float, metavar="N", help="end by itself after so long")
    return options


def _check(project: Project, replication: Replication, marker: Marker, *, keep: bool) -> None:
    """Refuse what would take changes from somebody else; remember what this run is about to make.

    Raises:
        SettingsError: with what to do instead.
    """
    here = embedded(project)
    if here == ("registry",):
        raise SettingsError(
            "TIDINGS_KAFKA is set and TIDINGS_REGISTRY is not: the topics would outlive their schemas",
            hint="set both, or neither",
        )
    if "kafka" not in here:
        return
    kept = (project.state / "servers").exists()
    if kept and not keep:
        raise SettingsError(
            f"{project.state} holds a pipeline that was kept",
            hint="tidings up --keep goes on with it, tidings up --drop removes it",
        )
    slot, publication = replication.exists()
    ours = marker.read()
    if slot and (ours is None or ours[0] != replication.slot):
        raise SettingsError(
            f"the slot {replication.slot} is there already: whoever reads by it would miss what a Kafka of this machine's gets",
            hint="name the Kafka that it belongs to in TIDINGS_KAFKA, or give connector.json another slot.name",
        )
    if ours is not None and not kept:  # of a run that was killed
        replication.drop(publication=ours[1])
        publication = replication.exists()[1]
    if ours is None or not kept:
        marker.write(replication.slot, publication=not publication)


def _drop(project: Project, replication: Replication, marker: Marker) -> int:
    ours = marker.read()
    if ours is None and any(replication.exists()):
        raise SettingsError(
            f"the slot {replication.slot} is not one that `tidings up` made for servers of its own",
            hint=f"when nobody reads by it: {replication.statements()}",
        )
    if ours is not None and ours[0] == replication.slot:
        replication.drop(publication=ours[1])
        sys.stdout.write(
            f"dropped the slot {replication.slot}" + (" and its publication\n" if ours[1] else "\n")
        )
    if project.state.exists():
        shutil.rmtree(project.state)
        sys.stdout.write(f"removed {project.state}\n")
    return 0


def _run(
    project: Project,
    replication: Replication,
    config: Mapping[str, str],
    marker: Marker,
    options: argparse.Namespace,
    console: Console,
) -> int:
    stop = threading.Event()
    stop_on_signals(stop)
    directory = project.state if options.keep else project.run
    if not options.keep:  # a run that was killed has left its own there
        shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    figures = Figures(title=f"{project.source}, live")
    code, failed = 0, False
    try:
        prefetch((*embedded(project), "lakehouse"))
        run = _Run(project, replication, config, figures, stop, console, directory, keep=options.keep)
    except _ERRORS as error:
        return report(console, error)
    try:
        watched(lambda: run.course(options.seconds), figures, console)
    except Stopped:
        code = EXIT_STOPPED
    except _ERRORS as error:
        code, failed = report(console, error), True
    finally:
        console.print("stopping ...", style="dim")
        run.close()
    _end(project, replication, marker, console, keep=options.keep)
    if failed:
        console.print(f"logs: {directory / 'logs'}", style="dim", soft_wrap=True)
    elif not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
        project.settings.unlink(missing_ok=True)
    return code


def _end(project: Project, replication: Replication, marker: Marker, console: Console, *, keep: bool) -> None:
    """Drop what the run has made in the database, or say what stays and how it is dropped."""
    ours = marker.read()
    try:
        if keep or ours is None:
            _say_what_stays(project, replication, console, keep=keep)
            return
        replication.drop(publication=ours[1])
        marker.remove()
        console.print(
            f"The slot {replication.slot} was dropped: nothing is left in the database.",
            style="dim", soft_wrap=True,
        )  # fmt: skip
    except TidingsError as error:
        report(console, error)
        console.print(f"What is left in the database, this drops: {replication.statements()}", soft_wrap=True)
    finally:
        replication.close()


def _say_what_stays(project: Project, replication: Replication, console: Console, *, keep: bool) -> None:
    slot, publication = replication.exists()
    if not slot:
        return
    stays = f"slot {replication.slot}" + (
        f" and publication {replication.publication} stay" if publication else " stays"
    )
    again = "`tidings up --keep`" if keep and embedded(project) else "`tidings up`"
    drop = "`tidings up --drop`" if embedded(project) else f"in the database: {replication.statements()}"
    console.print(
        f"Nothing runs any more. The {stays} in the database, and the slot retains its WAL until you go on:"
        f" {again} goes on where it was. To give that up and drop them: {drop}",
        soft_wrap=True, markup=False,
    )  # fmt: skip


class _Run:
    """One run, in a thread of its own; whoever owns the figures draws them."""

    def __init__(
        self,
        project: Project,
        replication: Replication,
        config: Mapping[str, str],
        figures: Figures,
        stop: threading.Event,
        console: Console,
        directory: Path,
        *,
        keep: bool,
    ) -> None:
        self._project, self._replication, self._console = project, replication, console
        self._figures, self._stop = figures, stop
        self._threads = ExitStack()
        self._tap: EventTap | None = None
        self._topics = _topics(project)
        names = sorted(self._topics.values())
        figures.events = [(name, [major for other, major in names if other == name]) for name in dict(names)]
        self.pipeline = ProjectPipeline(
            project, replication, config, directory, figures, self._pause,
            keep=directory / "servers" if keep else None,
        )  # fmt: skip

    def course(self, seconds: float | None) -> None:
        """Up, until somebody asks to stop."""
        self.pipeline.bring_up()
        settings = self.pipeline.settings()
        feed = Feed(
            self._figures, self.pipeline.urls, look=self._replication.look, prefix=f"{self._project.source}."
        )
        pattern = f"^{next(iter(self._topics)).partition('.')[0]}\\.[a-z0-9-]+\\.v[0-9]+$"
        tap = EventTap(
            settings["TIDINGS_KAFKA"],
            settings["TIDINGS_REGISTRY"],
            self._topics,
            pattern,
            describe,
            self._on_events,
        )
        for thread in (feed, tap):
            thread.start()
            self._threads.callback(thread.close)
        self._tap = tap
        self._figures.phase = "live, until Ctrl-C"
        self._figures.progress = -1
        end = None if seconds is None else self.pipeline.elapsed() + seconds
        self._console.print(self.pipeline.where_to_look(), style="dim", soft_wrap=True, markup=False)
        while end is None or self.pipeline.elapsed() < end:
            self.pipeline.tick()
            self.pipeline.check_connector()

    def close(self) -> None:
        """Stop everything."""
        self._stop.set()
        self._threads.close()
        self.pipeline.close()

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped
        self._figures.elapsed = self.pipeline.elapsed()
        if self._tap is not None and self._tap.error is not None:
            raise PipelineError(self._tap.error)

    def _on_events(
        self, counts: Counter[tuple[str, int]], events: list[LatestEvent], latency: float | None
    ) -> None:
        if self._figures.first_event_seconds is None:
            self._figures.first_event_seconds = self.pipeline.elapsed()
        take_events(self._figures, counts, events, latency)


def _topics(project: Project) -> dict[str, tuple[str, int]]:
    """Topic to the event's name and major version, of the project's domain.

    Raises:
        DomainError: it has a mistake.
    """
    sys.path.insert(0, str(project.directory))
    try:
        domain = load_domain(project.domain)
    finally:
        sys.path.remove(str(project.directory))
    return {
        f"{one.__domain__}.{one.__event__}.v{one.__major__}": (camel(one.__event__), one.__major__)
        for one in domain.event_classes()
    }


def describe(name: str, payload: Mapping[str, object]) -> tuple[str, str]:
    """An event in a line: its first field, and the others as far as there is room."""
    fields = [f"{field} {value}" for field, value in payload.items()]
    return (fields[0] if fields else name), ", ".join(fields[1:])[:_SHOWN]
