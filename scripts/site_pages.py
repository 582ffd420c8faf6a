"""Hooks of mkdocs: pages that are made of code or stand elsewhere in the repository, and links between files as links between pages.

The pages are read on a file host, too, so their links name files of the repository. A link to a file that has no page becomes
plain text; one to a file that does not exist stays, and fails the strict build.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = {
    "libs/client/README.md": "client.md",
    "examples/read-models/README.md": "read-models.md",
    "examples/rental/README.md": "rental.md",
    "examples/shop/README.md": "shop.md",
    "helm/tidings/README.md": "helm.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files of the repository that are pages of the site."""
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^( *)```(\w+) (\S+)$", re.MULTILINE)
_LOADED = re.compile(
    r"""<(?:script|img|iframe|link(?=[^>]+stylesheet))\b[^>]+(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)
_METRIC = re.compile(r"^  (\w+): \{(.*)\}$")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    files.append(
        File.generated(
            config, "metrics.md", content=metrics_page((ROOT / "deploy/metrics.yaml").read_text("utf-8"))
        )
    )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - a hook's
    """Links to files as links to pages, and the names of files above blocks."""
    own = page.file.src_uri
    at_home = {page: path for path, page in ELSEWHERE.items()}.get(own, f"docs/{own}")
    text = _FENCE.sub(r'\1```\2 title="\3"', markdown)
    return _LINK.sub(lambda link: _link(link, at_home, own), text)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001 - a hook's
    """Refuse a page that would load something from elsewhere.

    Raises:
        PluginError: it does; names it.
    """
    found = _LOADED.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri} loads {found[1]} from elsewhere")
    return output


def _link(link: re.Match[str], at_home: str, own: str) -> str:
    words, (target, mark, anchor) = link[1], link[2].partition("#")
    if not target or ":" in target:
        return link[0]
    path = os.path.normpath(Path(at_home).parent / target)
    inside = f"{path}/README.md" if f"{path}/README.md" in ELSEWHERE else path
    if inside in ELSEWHERE:
        page = ELSEWHERE[inside]
    elif path.startswith("docs/"):
        page = path.removeprefix("docs/")
    else:
        return words if (ROOT / path).exists() else link[0]
    return f"[{words}]({os.path.relpath(page, Path(own).parent)}{mark}{anchor})"


def metrics_page(text: str) -> str:
    """The metrics that alerts and dashboards rely on, as tables; a comment in the file is about what follows it."""
    lines = [
        "# Metrics",
        "",
        "Those that alert rules and dashboards rely on, made of `deploy/metrics.yaml`; a service has more. *Sometimes*: there only when",
        "something has gone wrong, or is set up.",
    ]
    said: list[str] = []
    for line in text.splitlines()[2:]:
        found = _METRIC.match(line)
        if line.startswith("  #"):
            said.append(line.strip("# "))
        elif found:
            fields: dict[str, Any] = _fields(found[2])
            sometimes = "sometimes" if "rare" in fields else ""
            cells = (
                f"`{found[1]}`",
                fields["type"],
                f"`{fields['labels']}`" if fields["labels"] else "",
                fields.get("unit", ""),
                sometimes,
                " ".join(said),
            )
            lines.append(f"| {' | '.join(cells)} |")
            said = []
        elif line.endswith(":"):
            lines += [
                "",
                f"## {line[:-1].capitalize()}",
                "",
                "| Metric | Type | Labels | Unit | | Meaning |",
                "|---|---|---|---|---|---|",
            ]
            said = []
    return "\n".join(lines) + "\n"


def _fields(text: str) -> dict[str, Any]:
    labels = re.search(r"labels: \[(.*?)\]", text)
    others = dict(
        part.split(": ", 1) for part in re.sub(r",? ?labels: \[.*?\]", "", text).split(", ") if ": " in part
    )
    return {**others, "labels": labels[1] if labels else ""}
