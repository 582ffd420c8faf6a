"""JSON schemas for kubeconform, made from Kubernetes' own API description and from custom resource definitions.

Input: ``api/openapi-spec/swagger.json`` (OpenAPI 2) of the Go module k8s.io/kubernetes, and a directory of
CustomResourceDefinition files. Output: one strict schema per kind, named as kubeconform's schema location
``{{.ResourceKind}}{{.KindSuffix}}.json`` wants it (``deployment-apps-v1.json``), sharing ``_definitions.json``.
Strict means that a field which the API does not have is an error: a typo is found before a cluster ignores it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

INT_OR_STRING = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
QUANTITY = {"oneOf": [{"type": "string"}, {"type": "number"}]}
LOCAL = '"#/definitions/'
SHARED = '"_definitions.json#/definitions/'


class CrdLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # whichever is there
    """YAML as Go reads it: a lone ``=`` (an operator in the AlertmanagerConfig resource) is a string."""


CrdLoader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)


def strict(node: Any) -> Any:
    """The schema with unknown fields refused and absent optional fields allowed to be null."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "int-or-string" or node.get("x-kubernetes-int-or-string"):
        return INT_OR_STRING
    keeps_unknown = node.get("x-kubernetes-preserve-unknown-fields", False)
    result = {
        key: (
            {name: strict(child) for name, child in value.items()} if key == "properties" else strict(value)
        )
        for key, value in node.items()
        if not key.startswith("x-kubernetes")
    }
    properties = result.get("properties")
    if properties:
        if not keeps_unknown:
            result.setdefault("additionalProperties", False)
        required = set(result.get("required", []))
        for name, child in properties.items():
            if name not in required and isinstance(child.get("type"), str):
                child["type"] = [child["type"], "null"]
    return result


def write_api(swagger: Path, into: Path) -> int:
    """Write the schemas of the API's own kinds; returns how many."""
    definitions = json.loads(swagger.read_text())["definitions"]
    fixed = {name: strict(definition) for name, definition in definitions.items()}
    fixed["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = INT_OR_STRING
    fixed["io.k8s.apimachinery.pkg.api.resource.Quantity"] = QUANTITY
    (into / "_definitions.json").write_text(json.dumps({"definitions": fixed}))
    written = 0
    for name, definition in definitions.items():
        kinds = definition.get("x-kubernetes-group-version-kind", [])
        if len(kinds) != 1:  # the many are DeleteOptions and the like, which no manifest holds
            continue
        kind, group, version = kinds[0]["kind"], kinds[0]["group"], kinds[0]["version"]
        schema = json.loads(json.dumps(fixed[name]).replace(LOCAL, SHARED))
        write_kind(into, schema, kind, group, version)
        written += 1
    return written


def write_crds(directory: Path, into: Path) -> int:
    """Write the schemas of every version of every custom resource in `directory`; returns how many."""
    written = 0
    for path in sorted(directory.glob("*.yaml")):
        for document in yaml.load_all(path.read_text(), Loader=CrdLoader):
            if not document or document.get("kind") != "CustomResourceDefinition":
                continue
            spec = document["spec"]
            for version in spec["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                write_kind(into, schema, spec["names"]["kind"], spec["group"], version["name"])
                written += 1
    return written


def write_kind(into: Path, schema: dict[str, Any], kind: str, group: str, version: str) -> None:
    """Write one schema under the name that kubeconform looks for; it shortens a group to its first label."""
    schema["properties"].setdefault("kind", {})["enum"] = [kind]
    suffix = "-".join(part for part in (group.split(".", maxsplit=1)[0], version) if part)
    (into / f"{kind.lower()}-{suffix}.json").write_text(json.dumps(schema))


def main() -> None:
    """Read the arguments and write the directory; the file `complete` is written last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", type=Path, required=True)
    parser.add_argument("--crds", type=Path, required=True)
    parser.add_argument("--into", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    kinds = write_api(arguments.api, arguments.into)
    resources = write_crds(arguments.crds, arguments.into)
    (arguments.into / "complete").write_text(f"{kinds} kinds, {resources} custom resources\n")
    print(f"  schemas: {kinds} kinds, {resources} custom resources")


if __name__ == "__main__":
    main()
