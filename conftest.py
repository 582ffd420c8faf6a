"""What holds for every test run.

Tests of Hypothesis have no deadline, because a busy machine is no defect of the code, and the same examples in each run,
so that a change is judged by what it changed; `pytest --hypothesis-profile search` looks for new examples instead.

With pytest-xdist (`make test`), the tests of a file stay together. So do all that use Kafka Connect, which then is started
once, all of a sink whose server starts slowly, all of the lake, which share a Spark, all that run whole pipelines, each with a
Spark of its own, all whose servers are done harm, and all that need servers with TLS. Three Sparks at a time are too much for two
cores. What takes longest begins first, so that no process waits for another at the end. (xdist's own groups, by marker, have no
effect with the pinned versions: pytest 9.2 makes a test's id anew from where it was collected.)
"""

import contextlib
import functools
import os
import runpy
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The servers of a test live for minutes and do little: half of what a JVM would spend is its second compiler's. Set here,
# so that benchmarks, which are not pytest's, have JVMs as people run them; and inherited by the demos that tests start.
os.environ.setdefault("TIDINGS_STACK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests start hundreds of processes; without its bytecode kept, each would compile all of its modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of one's own is made in it
_FREE_BYTES = 8 << 30


def _free_bytes() -> int:
    """Of the file system in memory, and of memory; 0 where there is none, or it cannot be used as a disk is."""
    try:
        disk = os.statvfs(_MEMORY)
        words = Path("/proc/meminfo").read_text(encoding="ascii").split()
        available = int(words[words.index("MemAvailable:") + 1]) << 10
    except (OSError, ValueError):
        return 0
    usable = os.access(_MEMORY, os.W_OK) and not disk.f_flag & os.ST_NOEXEC
    return min(disk.f_bavail * disk.f_frsize, available) if usable else 0


# Servers of tests and their databases come and go by the thousand. ext4 looks at every inode that was deleted within minutes before
# it makes a file: tests that make a database each took up to nine times as long, and the kernel half of the processors.
if "TMPDIR" not in os.environ and _free_bytes() >= _FREE_BYTES:
    _directory = _MEMORY / f"tidings-{os.getuid()}"
    _directory.mkdir(exist_ok=True)
    if _directory.stat().st_uid == os.getuid():
        _directory.chmod(0o1777)  # as /tmp: root's servers run as nobody
        os.environ["TMPDIR"] = str(_directory)
        tempfile.tempdir = None

settings.register_profile("tidings", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("tidings")


TOGETHER = {
    "examples/shop/tests/test_demo_run.py": "pipelines",
    "services/lakehouse/tests/test_cli.py": "pipelines",  # jobs of its own, for which it waits
    "services/lakehouse/": "spark",
    "tests/e2e/": "pipelines",
    "libs/stack/tests/test_connect.py": "connect",
    "tests/conformance/": "connect",
    "services/sinks/tests/search/": "search",
    "services/sinks/tests/mongo/": "mongo",
    "tests/faults/": "faults",
    "services/capture/tests/worker/test_secured": "secured",
    "libs/service/tests/test_kafka_logins": "secured",
    "services/translator/tests/stages/test_logins": "secured",
}
"""Which tests run in one process, one after the other, by the beginning of their ids."""
FIRST = (
    "spark",
    "connect",
    "faults",
    "pipelines",
    "secured",
    "services/translator/tests/stages/test_generations",  # two minutes: more than any other file of one test
    "services/capture",
    "services/cli",
    "services/translator/tests/stages/",
    "services/translator/tests/assembly/",
    "libs/",
)


TURNS = 3
"""Of the tests marked `turns`, which take longest, a run with `--turn` has each third by turns."""


SLOWEST = "spark"
"""The group that takes longest, in one process and mostly on one core: how long it takes is how long the suite takes."""
_AUTOGROUP = Path("/proc/self/autogroup")


def group_of(node_id: str) -> str:
    """The tests that run together: a group of `TOGETHER`, or a file."""
    named = (group for start, group in TOGETHER.items() if node_id.startswith(start))
    return next(named, node_id.partition("::")[0])


def rank(group: str) -> int:
    return next((place for place, start in enumerate(FIRST) if group.startswith(start)), len(FIRST))


@functools.cache
def turn_of_run(config: pytest.Config) -> int | None:
    """Which third of the tests that take longest this run has; None: all of them."""
    said = config.getoption("turn")
    if said != "auto":
        return None if said == "all" else int(said)
    command = ["git", "rev-parse", "--verify", "HEAD"]
    try:
        commit = subprocess.run(
            command, cwd=config.rootpath, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):  # not a clone: it does not become another commit, so all
        return None
    return int(commit, 16) % TURNS + 1


def turn_of_test(item: pytest.Item, marker: pytest.Mark) -> int:
    """The turn whose run has a test: by its id, or by the name that tests have in common of which one needs the other."""
    return zlib.crc32(str(marker.args[0] if marker.args else item.nodeid).encode()) % TURNS + 1


def pytest_report_header(config: pytest.Config) -> str:
    turn = turn_of_run(config)
    which = "all" if turn is None else f"turn {turn} of {TURNS} (--turn all runs all)"
    return f"tests that take longest: {which}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    turn = turn_of_run(config)
    for item in items:
        marker = item.get_closest_marker("turns")
        if turn is not None and marker is not None and (own := turn_of_test(item, marker)) != turn:
            item.add_marker(
                pytest.mark.skip(reason=f"has turn {own}, this run {turn}: run it with --turn all")
            )
        if item.get_closest_marker("long") and not config.getoption("long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: run it with --long"))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: rank(group_of(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - an optional plugin

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Together(config, log)


class Share:
    """Gives the slowest group's process, and the Spark in it, the share of the processors that it can use.

    Linux shares the processors among sessions of processes, where it groups them at all (`sched_autogroup_enabled`), and each
    server of a test has a session of its own: of twenty, the test processes with their Spark had one share together.
    """

    def __init__(self) -> None:
        self._group = ""
        with contextlib.suppress(PermissionError):  # it leads one
            os.setsid()

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        group = group_of(nodeid)
        if SLOWEST in {group, self._group} and group != self._group:
            with contextlib.suppress(OSError):  # there are none, or the user may not
                _AUTOGROUP.write_text("-5" if group == SLOWEST else "0", encoding="ascii")
        self._group = group


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests, too, that are marked as long")
    parser.addoption(
        "--turn",
        default="all",
        choices=["all", "auto", *(str(turn) for turn in range(1, TURNS + 1))],
        help=f"of the tests that take longest, run every {TURNS}rd: which of them, or auto, by the commit (all)",
    )
    parser.addoption(
        "--costs", type=int, default=0, metavar="N", help="list the N files that took most, and each process"
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        # It has been read. Tests that run pytest in a process of its own, as a person does, do not know its options.
        os.environ.pop("PYTEST_ADDOPTS", None)
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Share(), "share")
    if config.getoption("costs"):
        config.pluginmanager.register(Costs(config), "costs")


class Costs:
    """What each file took: seconds, and CPU seconds of its process and of the servers and services that it started.

    Of a process that ended and was not waited for by those that started it, the CPU time is unknown. What is waited for is
    seen in a file whose seconds are many more than its CPU seconds.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # By its path: pytest knows several folders as `tests`.
        file = config.rootpath / "tests" / "bench" / "processes.py"
        self._cpu_seconds: Callable[[int], float] = runpy.run_path(str(file))["cpu_seconds"]
        self._files: dict[str, list[float]] = {}
        """Seconds and CPU seconds by file: of this process, then of all."""
        self._processes: dict[str, float] = {}
        self._last = self._now()

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), self._cpu_seconds(os.getpid())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        result = yield
        if nextitem is None or nextitem.path != item.path:
            now = self._now()
            self._add(item.nodeid.partition("::")[0], *(b - a for a, b in zip(self._last, now, strict=True)))
            self._last = now
        return result

    def _add(self, file: str, seconds: float, cpu: float) -> None:
        total = self._files.setdefault(file, [0.0, 0.0])
        total[0] += seconds
        total[1] += cpu

    def pytest_collection_finish(self) -> None:
        self._last = self._now()

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["costs"] = self._files

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {}).get("costs", {})
        for file, cost in found.items():
            self._add(file, *cost)
        self._processes[node.gateway.id] = sum(seconds for seconds, _ in found.values())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("costs: seconds, CPU seconds")
        most = sorted(self._files.items(), key=lambda one: max(one[1]), reverse=True)
        for file, (seconds, cpu) in most[: self._config.getoption("costs")]:
            terminalreporter.write_line(f"{seconds:8.1f} {cpu:8.1f}  {file}")
        seconds, cpu = (sum(cost[place] for cost in self._files.values()) for place in (0, 1))
        terminalreporter.write_line(f"{seconds:8.1f} {cpu:8.1f}  all {len(self._files)} files")
        for name, seconds in sorted(self._processes.items()):
            terminalreporter.write_line(f"{seconds:8.1f}           {name}")
