"""Run Apache Ivy, whose jar pyspark ships, with its console kept quiet.

`resolve` follows `ivy.xml` and the POMs of what it names, some thousand small files. `download` brings the files that are known
by their coordinates, and reads no POM.

Ivy prints where it downloads from; those addresses may be a company's own, so its output is read here and never shown.
A mirror of the central repository is named by `TIDINGS_MAVEN_MIRROR`, or a whole Ivy settings file by
`TIDINGS_IVY_SETTINGS`. The command line is specified at https://ant.apache.org/ivy/history/2.5.3/standalone.html.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidings_jvm.checksums import Artefact
from tidings_jvm.errors import FetchError
from tidings_jvm.java import find_java, network_options

FILE_NAME = "[artifact]-[revision](-[classifier]).[ext]"
SETTINGS = """\
<ivysettings>
  <settings defaultResolver="repository"/>
  <resolvers><ibiblio name="repository" m2compatible="true"{attributes}/></resolvers>
</ivysettings>
"""
_FETCHED = re.compile(r"\[SUCCESSFUL ] (\S+)#(\S+);([^!]+)!")
_NOT_FOUND = re.compile(r"\[NOT FOUND  ] (\S+#[^!\s]+)|:: (\S+#\S+?;\S+?): not found")
_OFFLINE = re.compile(
    r"UnknownHostException|ConnectException|NoRouteToHost|SocketTimeoutException|timed out|Network is unreachable"
    r"|Connection refused|Host .* not found|SSLHandshakeException|PKIX|HTTP.{0,20}(407|50\d)",
    re.IGNORECASE,
)


def ivy_file() -> Path:
    """Return `ivy.xml`: the repository's in a checkout, else the copy inside the installed package."""
    package = Path(__file__).parent
    checkout = package.parents[2] / "ivy.xml"
    return checkout if checkout.is_file() and package.parent.name == "jvm" else package / "ivy.xml"


def ivy_jar() -> Path:
    """Return the Ivy jar inside pyspark, without importing pyspark. Raises FetchError when it is missing."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place).glob("jars/ivy-*.jar")):
            return jar
    raise FetchError("Ivy's jar was not found in pyspark", hint="install pyspark again")


def resolve(configurations: Sequence[str], *, platform: str, ivy_cache: Path, target: Path) -> None:
    """Resolve `configurations` of `ivy.xml`; place each file at `target`/<configuration>/<organisation>/<module>/<revision>/.

    Files at `target` are symbolic links into `ivy_cache`. Raises FetchError, which names modules but never an address.
    """
    _run(
        ivy_file(),
        configurations,
        ivy_cache=ivy_cache,
        target=target,
        layout=f"[organisation]/[module]/[revision]/{FILE_NAME}",
        options=(f"-Dtidings.platform={platform}",),
    )


def download(
    configurations: Mapping[str, Sequence[Artefact]],
    *,
    ivy_cache: Path,
    target: Path,
    on_file: Callable[[str], None],
) -> None:
    """Place the files at `target`/<configuration>/<file name>, as links, without a look at what they depend on.

    `on_file` is called with "<module>-<revision>" whenever a file has arrived. Errors as for `resolve`.
    """
    target.mkdir(parents=True, exist_ok=True)
    wanted = target / "wanted.xml"
    wanted.write_text(_module(configurations), encoding="utf-8")
    _run(
        wanted,
        list(configurations),
        ivy_cache=ivy_cache,
        target=target,
        layout=FILE_NAME,
        attributes=' usepoms="false" checksums=""',  # ours are stronger
        on_file=on_file,
    )


def _module(configurations: Mapping[str, Sequence[Artefact]]) -> str:
    """A file as `ivy.xml`, with each artefact by itself."""
    info = '<info organisation="tidings" module="downloads"/>'
    lines = [f'<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra">{info}<configurations>']
    lines += [f"<conf name={quoteattr(name)}/>" for name in configurations]
    lines.append("</configurations><dependencies>")
    for name, artefacts in configurations.items():
        modules: dict[tuple[str, str, str], list[Artefact]] = {}
        for artefact in artefacts:
            modules.setdefault((artefact.organisation, artefact.module, artefact.revision), []).append(
                artefact
            )
        for (organisation, module, revision), files in modules.items():
            lines.append(
                f"<dependency org={quoteattr(organisation)} name={quoteattr(module)} rev={quoteattr(revision)}"
                f" conf={quoteattr(name + '->default')} transitive='false'>"
            )
            lines += [
                f"<artifact name={quoteattr(file.module)} type={quoteattr(file.extension)} ext={quoteattr(file.extension)}"
                + (f" e:classifier={quoteattr(file.classifier)}/>" if file.classifier else "/>")
                for file in files
            ]
            lines.append("</dependency>")
    return "\n".join([*lines, "</dependencies></ivy-module>\n"])


def _run(
    file: Path,
    configurations: Sequence[str],
    *,
    ivy_cache: Path,
    target: Path,
    layout: str,
    attributes: str = "",
    options: Sequence[str] = (),
    on_file: Callable[[str], None] = lambda _: None,
) -> None:
    """Run Ivy on a file of modules.

    Args:
        layout: where a file's link is put, within the directory of its configuration in `target`.
        attributes: more of the repository's, in our settings.
        options: more of the JVM's.
    """
    target.mkdir(parents=True, exist_ok=True)
    java = find_java()
    command = [
        *_ending_with_this_process(),
        str(java.path),
        "-Xmx256m",
        *network_options(java),
        *options,
        f"-Divy.home={ivy_cache}",
        f"-Divy.default.ivy.user.dir={ivy_cache}",
        "-jar",
        str(ivy_jar()),
        "-settings",
        str(_settings(target, attributes)),
        "-ivy",
        str(file),
        "-cache",
        str(ivy_cache),
        "-confs",
        *configurations,
        "-symlink",
        "-retrieve",
        f"{target}/[conf]/{layout}",
        "-types",
        "jar",
        "bundle",
        "tar.gz",
    ]
    tail: deque[str] = deque(maxlen=400)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                tail.append(line)
                arrived = _FETCHED.search(line)
                if arrived:
                    on_file(f"{arrived[2]}-{arrived[3]}")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise failure("".join(tail), configurations)


def _ending_with_this_process() -> list[str]:
    """A prefix that lets the kernel end the command when this process dies (Linux, PR_SET_PDEATHSIG), then runs it."""
    if sys.platform != "linux":
        return []
    program = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", program]


def failure(output: str, configurations: Sequence[str]) -> FetchError:
    """Return the error for a failed run of Ivy, in words that name modules and settings but no address."""
    what = ", ".join(configurations)
    if _OFFLINE.search(output):
        return FetchError(
            f"the artefact repository cannot be reached, so {what} cannot be fetched",
            hint="check the network; behind a proxy set HTTPS_PROXY, with a company's certificates SSL_CERT_FILE,"
            " with a mirror TIDINGS_MAVEN_MIRROR",
        )
    missing = sorted({first or second for first, second in _NOT_FOUND.findall(output)})
    if missing:
        return FetchError(
            f"the artefact repository has no {', '.join(missing)}",
            hint="if a mirror is set (TIDINGS_MAVEN_MIRROR, TIDINGS_IVY_SETTINGS), it may be incomplete",
        )
    return FetchError(
        f"Ivy could not fetch {what}", hint="try again; TIDINGS_CACHE may be full or not writable"
    )


def _settings(directory: Path, attributes: str) -> Path:
    """The settings of the person who runs this, or ours, with more attributes of the repository."""
    chosen = os.environ.get("TIDINGS_IVY_SETTINGS")
    if chosen:
        path = Path(chosen).expanduser()
        if not path.is_file():
            raise FetchError(f"TIDINGS_IVY_SETTINGS names {path}, which is not a file")
        return path
    mirror = os.environ.get("TIDINGS_MAVEN_MIRROR")
    path = directory / "settings.xml"
    root = f" root={quoteattr(mirror)}" if mirror else ""
    path.write_text(SETTINGS.format(attributes=root + attributes), encoding="utf-8")
    return path
