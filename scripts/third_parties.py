"""What the images hold of others, with licences: the file NOTICE, and a bill of materials (CycloneDX) for each image.

    scripts/third_parties.py notice [FILE]               write NOTICE
    scripts/third_parties.py sbom DIRECTORY [IMAGE...]   write capture.cdx.json, translator.cdx.json and the others

Python packages and their hashes are those of requirements/<image>.txt, with the licences of their installed metadata; jars
are those of the configurations that its Dockerfile fetches (JARS), by tidings_jvm's checksums.txt. For NOTICE their licences are
those of their Maven POMs, as Ivy has kept them (`python -m tidings_jvm record lakehouse iceberg-aws catalog-postgresql` first); for
the bills of materials, NOTICE's. Debian's packages of the base image are not in it: its own tools list them (dpkg-query).
"""

import argparse
import importlib.metadata
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "libs/jvm"))
IMAGES = ("capture", "translator", "lakehouse", "shop")
JARS = ("lakehouse", "iceberg-aws", "catalog-postgresql")
HEAD = """Tidings
Licensed under the Apache License, Version 2.0; see LICENSE.

The images hold the software of others that is listed here; make notice writes this file from the packages' own
metadata. The licence texts are in the images, beside each package (*.dist-info, META-INF of a jar).

psycopg and psycopg-binary are under the GNU Lesser General Public License, version 3. Tidings uses them unmodified, by
their public interface, as Python packages that are installed beside it: whoever has an image can put another version in
their place with pip, and nothing of Tidings has to be built for that. Their source is on PyPI under the same versions.
psycopg-binary carries libpq (PostgreSQL License) and OpenSSL (Apache-2.0), confluent-kafka carries librdkafka (BSD-2-Clause),
and pyspark carries the jars of Apache Spark with their licences in its directory licenses.
"""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A package of somebody else's."""

    name: str
    version: str
    licence: str
    purl_type: str
    group: str = ""
    hashes: tuple[str, ...] = ()
    """SHA-256 of its files."""


def python_parts(image: str) -> list[Part]:
    """The Python packages of an image."""
    text = (ROOT / f"requirements/{image}.txt").read_text()
    found = []
    for block in re.split(r"\n(?=[a-z])", text.strip()):
        match = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==([\w.+!-]+)", block)
        if match is None:
            continue
        name, version = match[1], match[2]
        if (licence := python_licence(name, version)) is not None:
            found.append(
                Part(
                    name, version, licence, "pypi", hashes=tuple(re.findall(r"sha256:([0-9a-f]{64})", block))
                )
            )
    return found


def python_licence(name: str, version: str) -> str | None:
    """The licence by the installed package's metadata; None for one of another platform."""
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    if metadata["Version"] != version:
        sys.exit(f"{name} {metadata['Version']} is installed and {version} is pinned: run make install")
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [
        text.rsplit(" :: ", 1)[1]
        for text in metadata.get_all("Classifier") or []
        if text.startswith("License :: ") and text != "License :: OSI Approved"
    ]
    given = str(metadata.get("License") or "").strip().splitlines()
    return " and ".join(classifiers) or (given[0] if given else "UNKNOWN")


def licences_of_poms() -> dict[str, str]:
    """The licence by "<module>-<revision>" of every POM that Ivy has read."""
    from tidings_jvm.cache import cache_directory  # noqa: PLC0415

    return {
        f"{info.get('module')}-{info.get('revision')}": " and ".join(
            str(item.get("name")) for item in info.findall("license")
        )
        or "UNKNOWN"
        for path in (cache_directory() / "ivy").glob("*/*/ivy-*.xml")
        if (info := ET.parse(path).getroot().find("info")) is not None
    }


def licences_of_notice() -> dict[str, str]:
    """The same of NOTICE, which is in the repository."""
    lines = (
        line.split(" | ") for line in (ROOT / "NOTICE").read_text().splitlines() if line.count(" | ") == 2
    )
    named = ((name.split(" "), licence) for name, licence, _ in lines)
    return {f"{name[0].rpartition(':')[2]}-{name[1]}": licence for name, licence in named if ":" in name[0]}


def jars(licences: Mapping[str, str]) -> list[Part]:
    """The jars of the lakehouse's image."""
    from tidings_jvm.checksums import artefacts_of  # noqa: PLC0415

    found = []
    for artefact in (artefact for name in JARS for artefact in artefacts_of(name)):
        licence = licences.get(artefact.name.removesuffix(".jar"))
        if licence is None:
            sys.exit(
                f"the licence of {artefact.name} is not known: run python -m tidings_jvm record {' '.join(JARS)}, then make notice"
            )
        found.append(
            Part(
                artefact.module,
                artefact.revision,
                licence,
                "maven",
                artefact.organisation,
                (artefact.sha256,),
            )
        )
    return found


def parts_of(image: str, licences: Mapping[str, str]) -> list[Part]:
    """Everything of others in an image; `licences` are the jars'."""
    return sorted([*python_parts(image), *(jars(licences) if image == "lakehouse" else [])])


def notice() -> str:
    """The text of NOTICE."""
    where: dict[Part, list[str]] = {}
    licences = licences_of_poms()
    for image in IMAGES:
        for part in parts_of(image, licences):
            where.setdefault(part, []).append(image)
    lines = [
        f"{':'.join(filter(None, (part.group, part.name)))} {part.version} | {part.licence} | {', '.join(images)}"
        for part, images in sorted(where.items())
    ]
    return f"{HEAD}\nPackage | licence | images\n\n" + "\n".join(lines) + "\n"


def sbom(image: str) -> str:
    """The bill of materials of an image, valid by CycloneDX's own schema."""
    from cyclonedx.factory.license import LicenseFactory  # noqa: PLC0415
    from cyclonedx.model import HashAlgorithm, HashType  # noqa: PLC0415
    from cyclonedx.model.bom import Bom  # noqa: PLC0415
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415
    from cyclonedx.output.json import JsonV1Dot6  # noqa: PLC0415
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    version = re.search(r'^appVersion: "(.*)"', (ROOT / "helm/tidings/Chart.yaml").read_text(), re.MULTILINE)
    bom = Bom()
    whole = Component(
        name=f"tidings/{image}", version=version[1] if version else None, type=ComponentType.CONTAINER
    )
    bom.metadata.component = whole
    for part in parts_of(image, licences_of_notice()):
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in part.hashes]
        bom.components.add(
            Component(
                name=part.name,
                version=part.version,
                group=part.group or None,
                type=ComponentType.LIBRARY,
                purl=PackageURL(part.purl_type, part.group or None, part.name, part.version),
                licenses=[LicenseFactory().make_from_string(part.licence)],
                # One file each; a Python package has one for every platform, which are in requirements/.
                hashes=hashes if len(hashes) == 1 else [],
            )
        )
    bom.register_dependency(whole, list(bom.components))
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"{image}: not valid: {wrong}")
    return str(text)


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("notice").add_argument("file", type=Path, nargs="?", default=ROOT / "NOTICE")
    bills = commands.add_parser("sbom")
    bills.add_argument("directory", type=Path)
    bills.add_argument("image", nargs="*", choices=[*IMAGES, []])
    arguments = parser.parse_args()
    if arguments.command == "notice":
        arguments.file.write_text(notice())
        return
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for image in arguments.image or IMAGES:
        (arguments.directory / f"{image}.cdx.json").write_text(sbom(image))
        print(arguments.directory / f"{image}.cdx.json")


if __name__ == "__main__":
    main()
