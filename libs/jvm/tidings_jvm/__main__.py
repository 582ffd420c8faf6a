"""`python -m tidings_jvm record`: renew checksums.txt after a change of ivy.xml. `fetch CONFIGURATION...`: fetch.

Recording trusts what the repository serves at that moment (Ivy checks the repository's own checksums); from then on
everybody gets exactly those files or an error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import xml.etree.ElementTree as ET  # reads only our own ivy.xml
from pathlib import Path

from tidings_jvm.cache import cache_directory, locked
from tidings_jvm.checksums import LIST, PLATFORMS, Artefact, read_all, section_of, sha256_of, write
from tidings_jvm.errors import FetchError, JvmError
from tidings_jvm.fetching import prefetch
from tidings_jvm.ivy import ivy_file, resolve


def record(only: list[str]) -> None:
    """Fetch every configuration (or those named) for every platform and write the list anew."""
    confs = [conf.attrib["name"] for conf in ET.parse(ivy_file()).iter("conf")]  # noqa: S314
    sections = {
        name: files
        for name, files in (read_all() if LIST.is_file() else {}).items()
        if name.split()[0] in confs
    }
    chosen = only or confs
    _record(chosen, PLATFORMS[0], sections)
    binaries = [conf for conf in chosen if conf.startswith("pg-")]
    for platform in PLATFORMS[1:]:
        for conf in binaries:
            try:
                _record([conf], platform, sections)
            except FetchError as error:  # not every version is published for every platform
                sys.stderr.write(f"left out: {error}\n")


def _record(confs: list[str], platform: str, sections: dict[str, tuple[Artefact, ...]]) -> None:
    cache = cache_directory()
    with locked(cache / "locks" / "fetch.lock"), tempfile.TemporaryDirectory(dir=cache) as scratch:
        target = Path(scratch)
        resolve(confs, platform=platform, ivy_cache=cache / "ivy", target=target)
        for conf in confs:
            sections[section_of(conf, platform)] = tuple(
                _artefact(file, target / conf) for file in (target / conf).glob("*/*/*/*")
            )
    write(sections)


def _artefact(file: Path, target: Path) -> Artefact:
    organisation, module, revision, name = file.relative_to(target).parts
    return Artefact(organisation, module, revision, name, file.stat().st_size, sha256_of(file))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tidings_jvm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record", help="renew checksums.txt").add_argument("configuration", nargs="*")
    commands.add_parser("fetch", help="fetch into the download cache").add_argument(
        "configuration", nargs="+"
    )
    arguments = parser.parse_args()
    try:
        if arguments.command == "record":
            record(arguments.configuration)
        else:
            prefetch(arguments.configuration)
    except JvmError as error:
        sys.stderr.write(f"{error}\n{error.hint or ''}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
