"""Versions of a read model in OpenSearch: each has indexes of its own, and readers have aliases with the names that they know.

The first version's indexes have these names themselves. When the second takes their place, an index is removed and its name becomes
an alias in one change of the cluster's state; before that a copy is made (``_clone``) where it is to be kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidings_connect.task.sink import RetriableError
from tidings_sinks.errors import BusyError, RebuildError
from tidings_sinks.read_model import Naming
from tidings_sinks.search import options as names
from tidings_sinks.search.client import Client
from tidings_sinks.search.options import items_of
from tidings_sinks.search.settings import Settings

_TRANSFORMS: Final = "transforms"
_OWN: Final = "tidingsVersion"
"""The transform that gives a record's index the version's suffix."""
_ROUTER: Final = "org.apache.kafka.connect.transforms.RegexRouter"
_CLONE_WAIT: Final = "wait_for_active_shards=1"


class SearchVersions:
    """A `ReadModel`.

    Raises:
        RebuildError: a version cannot have indexes of its own.
        BusyError, TargetError: the server is away, or refuses the login.
    """

    converts = True

    def __init__(self, naming: Naming, settings: Settings) -> None:
        if settings.streams or settings.exists:
            option = names.STREAMS if settings.streams else names.RESOURCE_TYPE
            raise RebuildError(
                f"{naming.connector} writes to data streams, or to what others have made ({option}): only indexes of its own are rebuilt"
            )
        self._naming, self._client = naming, Client(settings)
        try:
            self._client.check()
        except RetriableError as error:
            self._client.close()
            raise BusyError(str(error)) from error
        except BaseException:
            self._client.close()
            raise

    def close(self) -> None:
        """See `ReadModel.close`."""
        self._client.close()

    def options(self, version: int, config: Mapping[str, str]) -> dict[str, str]:
        """See `ReadModel.options`."""
        suffix, former = self._naming.suffix(version), self.version_of(config)
        own = f"{_TRANSFORMS}.{_OWN}."
        transforms = (part.strip() for part in config.get(_TRANSFORMS, "").split(","))
        others = [each for each in transforms if each and each != _OWN]
        found = {
            _TRANSFORMS: ",".join([*others, _OWN]),
            f"{own}type": _ROUTER,
            f"{own}regex": "(.*)",
            f"{own}replacement": f"$1{suffix}",
        }
        for option in (names.KEY_TOPICS, names.SCHEMA_TOPICS):
            # They name topics as they are behind the transforms.
            topics = items_of(config, option)
            if former is not None:
                topics = tuple(topic.removesuffix(self._naming.suffix(former)) for topic in topics)
            if topics:
                found[option] = ",".join(topic + suffix for topic in topics)
        return found

    def version_of(self, config: Mapping[str, str]) -> int | None:
        """See `ReadModel.version_of`."""
        return self._naming.version_in(config.get(f"{_TRANSFORMS}.{_OWN}.replacement", ""))

    def shared(self, config: Mapping[str, str]) -> Sequence[str]:  # noqa: ARG002 - a place is one version's own
        """See `ReadModel.shared`."""
        return ()

    def live(self) -> int | None:
        """See `ReadModel.live`."""
        found = [
            version
            for index, about in self._ask("GET", "/_alias", "to list aliases").items()
            if (version := self._naming.version_in(index)) is not None
            and index.removesuffix(self._naming.suffix(version)) in about["aliases"]
        ]
        return max(found, default=None)

    def prepare(self, version: int) -> None:
        """See `ReadModel.prepare`: the connector makes its indexes."""
        self._delete(self._indexes(version))

    def counts(self, version: int) -> dict[str, int]:
        """See `ReadModel.counts`."""
        suffix = self._naming.suffix(version)
        found = {index.removesuffix(suffix): index for index in self._indexes(version)}
        if not found and version == 1:
            found = {name: name for name in self._plain()}
        for index in found.values():
            self._ask("POST", f"/{index}/_refresh", f"to refresh {index}")
        return {
            name: int((self._ask("GET", f"/{index}/_count", f"to count {index}") or {"count": 0})["count"])
            for name, index in found.items()
        }

    def complete(self, version: int, live: int) -> Sequence[str]:  # noqa: ARG002 - templates give an index what it needs
        """See `ReadModel.complete`."""
        return ()

    def settle(self, version: int) -> bool:
        """Searches see what is written after a refresh."""
        for index in self._indexes(version):
            self._ask("POST", f"/{index}/_refresh", f"to refresh {index}")
        return True

    def switch(self, version: int, former: int, *, keeps: bool) -> None:
        """See `ReadModel.switch`."""
        suffix = self._naming.suffix(version)
        new = {index.removesuffix(suffix): index for index in self._indexes(version)}
        plain = [name for name in self._plain() if name in new]
        if keeps:
            for name in plain:
                self._copy(name, name + self._naming.suffix(former))
        actions: list[dict[str, Any]] = [{"remove_index": {"index": name}} for name in plain]
        for index in self._indexes(former):
            name = index.removesuffix(self._naming.suffix(former))
            if name not in plain:
                actions.append({"remove": {"index": index, "alias": name, "must_exist": False}})
        actions += [{"add": {"index": index, "alias": name}} for name, index in new.items()]
        self._ask("POST", "/_aliases", "to switch aliases", {"actions": actions})

    def _copy(self, index: str, copy: str) -> None:
        """A copy of an index that nobody writes to: links to its files, with the documents' versions."""
        self._delete([copy])
        self._block(index, blocks=True)
        self._ask("PUT", f"/{index}/_clone/{copy}?{_CLONE_WAIT}", f"to copy {index}", {})
        self._ask("GET", f"/_cluster/health/{copy}?wait_for_status=yellow&timeout=25s", f"to wait for {copy}")

    def _block(self, index: str, *, blocks: bool) -> None:
        settings = {"index.blocks.write": True if blocks else None}
        self._ask("PUT", f"/{index}/_settings", f"to let nobody write to {index}", settings)

    def go_on(self, version: int) -> None:
        """See `ReadModel.go_on`: an index that was copied, and its copy, take no writes."""
        for index in self._indexes(version) or (self._plain() if version == 1 else []):
            found = self._ask("GET", f"/{index}/_settings/index.blocks.write", f"to read settings of {index}")
            if found and any(each["settings"] for each in found.values()):
                self._block(index, blocks=False)
                if version == 1:
                    self._delete(
                        [] if index.endswith(self._naming.suffix(1)) else [index + self._naming.suffix(1)]
                    )

    def drop(self, version: int, group: str) -> None:  # noqa: ARG002 - there are no positions
        """See `ReadModel.drop`."""
        self._delete(self._indexes(version))

    # Asking

    def _indexes(self, version: int) -> list[str]:
        """The indexes of a version; a copy that is not done is none of the first one's while the index itself is there."""
        suffix = self._naming.suffix(version)
        found = self._all()
        return sorted(
            index
            for index in found
            if index.endswith(suffix) and not (version == 1 and index.removesuffix(suffix) in found)
        )

    def _plain(self) -> list[str]:
        """Of the indexes that any version has: those that have the name itself that readers know."""
        found = self._all()
        versioned = {index: self._naming.version_in(index) for index in found}
        wanted = {
            index.removesuffix(self._naming.suffix(v)) for index, v in versioned.items() if v is not None
        }
        return sorted(wanted & found)

    def _all(self) -> set[str]:
        return set(self._ask("GET", "/_alias", "to list indexes"))

    def _delete(self, indexes: Sequence[str]) -> None:
        for index in indexes:
            self._ask("DELETE", f"/{index}", f"to delete {index}")

    def _ask(self, method: str, path: str, what: str, body: Any = None) -> Any:
        try:
            return self._client.call(method, path, what, body)
        except RetriableError as error:
            raise BusyError(str(error)) from error
