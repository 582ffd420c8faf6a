"""The steps of a rebuild. Each can be done again, and the next one is found in what is there (`versions`).

    create      a second connector, stopped; then its place in the target, empty; then it runs, from the beginning of its topics
    catch up    until it has read what its topics had at the start, and what the live one has read
    check       a command of the caller's
    turn        the live connector stops; the new one comes to where it stood; readers are switched at once
    finish      the former connector and what it has written are removed, or go on

Readers never go back in time: the new version has all that the former one had when they are switched.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidings_connect.config.sink_options import CONSUMER_OVERRIDE, topic_pattern, topics_of
from tidings_connect.data.subscription import TopicPartition
from tidings_connect.kafka.unread import TopicEnds
from tidings_connect.rest.client import RestClient
from tidings_envelope.fault_points import reached
from tidings_sinks.errors import BusyError, CheckError, RebuildError
from tidings_sinks.read_model import Naming, ReadModel
from tidings_sinks.rebuild.versions import Versions, read_versions

_LOOK_SECONDS: Final = 0.5
_TELL_SECONDS: Final = 5.0
_TURN_SECONDS: Final = 300.0
"""For the new version to come to where the live one was stopped: it commits every `offset.flush.interval.ms`."""
_OWN: Final = (
    "name",
    f"{CONSUMER_OVERRIDE}group.id",
    f"{CONSUMER_OVERRIDE}auto.offset.reset",
    f"{CONSUMER_OVERRIDE}group.instance.id",
)
"""Options of the first connector by which another would not read from the beginning, or in the first one's place."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller wants."""

    keeps: bool = False
    """Whether the former version goes on beside the new one."""
    timeout_seconds: float | None = None
    """For catching up; None: as long as it takes."""
    grace_seconds: float = 10.0
    """Between the switch and the removal of the former version, for queries that have begun with it."""
    check: Callable[[int], None] = lambda _: None
    """Looks at a version before it is switched over to.

    Raises:
        CheckError: it is not what it should be.
    """


class Rebuild:
    """The rebuild of one read model.

    Args:
        tell: hears what is done, in words.
        config: what the next version's connector is made of, with references to secrets.
    """

    def __init__(
        self,
        worker: RestClient,
        topics: TopicEnds,
        model: ReadModel,
        naming: Naming,
        config: Mapping[str, str],
        wishes: Wishes,
        tell: Callable[[str], None],
    ) -> None:
        self._worker, self._topics, self._model, self._naming = worker, topics, model, naming
        self._config, self._wishes, self._tell = config, wishes, tell

    # What a caller asks for

    def run(self) -> None:
        """Build the next version, or go on with the one that is there, and switch over to it."""
        versions = self.look()
        if versions.building is None and versions.former is not None:
            self._finish(versions.former, versions)
            return
        building = versions.building or self._create(versions)
        self._make(building)
        self._catch_up(building)
        for words in self._model.complete(building, versions.live):
            self._tell(f"warning: {words}")
        self._check(building, versions.live)
        self._turn(building, versions.live, keeps=self._wishes.keeps)
        self._finish(versions.live, self.look())

    def undo(self) -> None:
        """Let readers see the former version again; the newer one stays beside it."""
        versions = self.look()
        if versions.former is None:
            raise RebuildError(
                f"{self._naming.connector} has no former version to go back to: version {versions.live} is live",
                hint="only a rebuild with --keep leaves the former one",
            )
        self._go_on(versions.former, versions)
        self._turn(versions.former, versions.live, keeps=True)
        self._go_on(versions.live, self.look())
        self._tell(
            f"version {versions.live} is still beside it: rebuild switches to it again, rebuild --abort removes it"
        )

    def abort(self) -> None:
        """Remove the version that is not live yet."""
        versions = self.look()
        self._model.go_on(versions.live)
        if versions.connectors[versions.live].state == "STOPPED":
            self._worker.resume(self._naming.name(versions.live))
            self._tell(f"{self._naming.name(versions.live)} goes on")
        if versions.building is None:
            self._tell(
                f"nothing is being rebuilt: version {versions.live} of {self._naming.connector} is live"
            )
            return
        self._drop(versions.building)

    def status(self) -> dict[str, object]:
        """Every version: what it does, how far it is, and what it has."""
        versions = self.look()
        ends = self._ends()
        found: list[dict[str, object]] = []
        for number, connector in sorted(versions.connectors.items()):
            unread = self._topics.unread(self._worker.offsets(connector.name), ends)
            found.append(
                {
                    "version": number,
                    "connector": connector.name,
                    "live": number == versions.live,
                    "state": "FAILED" if connector.failure else connector.state,
                    "unread": sum(unread.values()),
                    "has": self._model.counts(number),
                }
            )
        return {"name": self._naming.connector, "live": versions.live, "versions": found}

    def look(self) -> Versions:
        """What there is."""
        return read_versions(self._naming, self._model, self._worker.connectors())

    # The steps

    def _create(self, versions: Versions) -> int:
        live = versions.connectors[versions.live]
        if live.state != "RUNNING":
            raise RebuildError(
                f"{live.name} is {live.state}: a read model is rebuilt beside one that goes on",
                hint=f"resume {live.name}",
            )
        for name, connector in self._worker.connectors().items():
            if not self._naming.is_version(name) and (shared := self._model.shared(connector.config)):
                raise RebuildError(
                    f"{name} writes {', '.join(shared)} as well, which could not be removed with a version of {live.name} alone",
                    hint="let one connector write it, or give it another label",
                )
        version = versions.live + 1
        options = {name: text for name, text in self._config.items() if name not in _OWN}
        options |= self._model.options(version, options) | {
            f"{CONSUMER_OVERRIDE}auto.offset.reset": "earliest"
        }
        name = self._naming.name(version)
        self._worker.create(name, options)
        self._tell(f"created {name} beside {live.name}")
        reached("rebuild.created")
        return version

    def _make(self, version: int) -> None:
        """Let a version begin; one that is stopped has not begun, or is half removed."""
        name = self._naming.name(version)
        if self.look().connectors[version].state != "STOPPED":
            self._tell(f"{name} is there: going on with it")
            return
        self._worker.forget_offsets(name)
        self._model.prepare(version)
        reached("rebuild.prepared")
        self._worker.resume(name)
        self._tell(f"{name} reads its topics from the beginning")
        reached("rebuild.resumed")

    def _catch_up(self, version: int) -> None:
        """Wait until a version has read what its topics have now."""
        ends = self._ends()
        self._wait(
            version,
            lambda offsets: sum(self._topics.unread(offsets, ends).values()),
            self._wishes.timeout_seconds,
        )
        self._tell(f"{self._naming.name(version)} has caught up")
        reached("rebuild.caught_up")

    def _check(self, version: int, live: int) -> None:
        had, has = self._model.counts(live), self._model.counts(version)
        for name in sorted(had.keys() | has.keys()):
            self._tell(
                f"  {name}: {had.get(name, 0)} in version {live}, {has.get(name, 0)} in version {version}"
            )
        lost = sorted(name for name, count in had.items() if count and not has.get(name))
        if lost:
            raise CheckError(
                f"{self._naming.name(version)} has caught up and has nothing of {', '.join(lost)}, which the live version has",
                hint="have the topics lost their first records (retention.ms)? rebuild --abort removes the new version",
            )
        self._wishes.check(version)
        reached("rebuild.checked")

    def _turn(self, version: int, live: int, *, keeps: bool) -> None:
        """Let readers see a version that has caught up."""
        former, name = self._naming.name(live), self._naming.name(version)
        self._worker.stop(former)
        reached("rebuild.stopped")
        try:
            last = self._worker.offsets(former)
            self._wait(version, lambda offsets: _behind(offsets, last), _TURN_SECONDS)
            self._switch(version, live, keeps=keeps)
        except BaseException:
            if self._model.live() != version:
                self._model.go_on(live)
                self._worker.resume(former)
            raise
        reached("rebuild.switched")
        self._tell(f"readers see version {version} ({name})")

    def _switch(self, version: int, live: int, *, keeps: bool) -> None:
        name, deadline = self._naming.name(version), time.monotonic() + _TURN_SECONDS
        why = f"transactions that began before {name} had caught up still run: they would see a part of it"
        while time.monotonic() < deadline:
            try:
                if self._model.settle(version):
                    reached("rebuild.switching")
                    self._model.switch(version, live, keeps=keeps)
                    return
            except BusyError as error:
                why = str(error)
            time.sleep(_LOOK_SECONDS)
        raise RebuildError(
            f"readers could not be switched to {name}: {why}",
            hint="wait for them, or end them, and run the rebuild again",
        )

    def _finish(self, former: int, versions: Versions) -> None:
        if self._wishes.keeps:
            self._go_on(former, versions)
            self._tell(
                f"version {former} ({self._naming.name(former)}) is kept: rebuild --undo goes back to it, rebuild removes it"
            )
            return
        time.sleep(self._wishes.grace_seconds)
        self._drop(former)

    def _go_on(self, version: int, versions: Versions) -> None:
        """Let a version that is not live go on beside the one that is."""
        connector = versions.connectors[version]
        if self._model.converts and self._model.version_of(connector.config) != version:
            self._worker.configure(connector.name, dict(self._model.options(version, connector.config)))
        self._model.go_on(version)
        if connector.state == "STOPPED":
            self._worker.resume(connector.name)

    def _drop(self, version: int) -> None:
        """Remove a version: its connector last, so that what is left is found by it."""
        name = self._naming.name(version)
        self._worker.stop(name)
        self._worker.forget_offsets(name)
        reached("rebuild.forgotten")
        self._model.drop(version, f"connect-{name}")
        reached("rebuild.dropped")
        self._worker.delete(name)
        self._tell(f"removed version {version} ({name})")

    # Waiting

    def _ends(self) -> dict[TopicPartition, int]:
        pattern = topic_pattern(self._config)
        matches = None if pattern is None else (lambda name: bool(pattern.fullmatch(name)))
        return self._topics.ends(topics_of(self._config), matches)

    def _wait(
        self, version: int, left: Callable[[Mapping[TopicPartition, int]], int], seconds: float | None
    ) -> None:
        """Wait until nothing is left to be read.

        Raises:
            RebuildError: it takes longer, or the connector has failed.
        """
        name, began = self._naming.name(version), time.monotonic()
        told = began - _TELL_SECONDS
        while True:
            unread = left(self._worker.offsets(name))
            if not unread:
                return
            now = time.monotonic()
            if now - told >= _TELL_SECONDS:
                told = now
                self._tell(f"{name} has {unread} records to read")
            connector = self._worker.connectors().get(name)
            if connector is None or connector.failure is not None:
                why = "is gone" if connector is None else f"has failed: {connector.failure}"
                raise RebuildError(
                    f"{name} {why}", hint="mend it and run the rebuild again, or remove it with --abort"
                )
            if seconds is not None and now - began > seconds:
                raise RebuildError(
                    f"{name} has {unread} records to read after {seconds:.0f} seconds",
                    hint="run the rebuild again to go on waiting, or remove it with --abort",
                )
            time.sleep(_LOOK_SECONDS)


def _behind(offsets: Mapping[TopicPartition, int], others: Mapping[TopicPartition, int]) -> int:
    """How far offsets are behind others."""
    return sum(max(0, other - offsets.get(at, 0)) for at, other in others.items())
