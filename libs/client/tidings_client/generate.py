"""``tidings-client generate``: event classes from the registry's contracts, to be trimmed to what is used."""

import argparse
import os
import sys
from collections.abc import Sequence

from tidings_client.classes import classes_text
from tidings_client.errors import ClientError
from tidings_client.registry import Registry


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    options = parser().parse_args(arguments)
    try:
        registry = Registry(options.registry or "")
        text = classes_text({topic: registry.latest(topic) for topic in options.topics})
    except ClientError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(text)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="tidings-client", description="For readers of business events.")
    commands = parser.add_subparsers(dest="command", required=True)
    generator = commands.add_parser("generate", help="print event classes for topics")
    generator.add_argument("topics", nargs="+", metavar="TOPIC", help="such as shop.order-placed.v2")
    generator.add_argument(
        "--registry",
        default=os.environ.get("TIDINGS_REGISTRY"),
        metavar="URL",
        help="default: TIDINGS_REGISTRY",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
