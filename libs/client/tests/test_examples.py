"""The examples for downstream teams run as they are: a reader in Python, and one in JavaScript."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from publishing import Publisher

EXAMPLES = Path(__file__).parents[3] / "examples/consumers"
PACKED = {f"pack {order}: {order} x 5; by any day" for order in (1, 2, 3)}


def run(command: list[str], **environment: str) -> list[str]:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_reader_in_python(
    publisher: Publisher, kafka_bootstrap: str, registry_url: str, unique_name: str, tmp_path: Path
) -> None:
    program = (EXAMPLES / "packing_list.py").read_text().replace("shop.order-placed", publisher.event)
    (tmp_path / "packing_list.py").write_text(program)
    command = [sys.executable, str(tmp_path / "packing_list.py"), "--kafka", kafka_bootstrap]
    command += [
        "--registry",
        registry_url,
        "--seen",
        str(tmp_path / "seen.db"),
        "--group",
        unique_name,
        "--idle",
        "1",
    ]
    publisher.create(1)
    publisher.publish([1])
    assert run(command) == ["ask for the lines of 1"]
    publisher.create(2)
    publisher.publish([2, 3])
    assert sorted(run(command)) == sorted(PACKED - {"pack 1: 1 x 5; by any day"})


@pytest.mark.tools
def test_the_reader_in_javascript(
    publisher: Publisher, kafka_bootstrap: str, registry_url: str, unique_name: str, tmp_path: Path
) -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings"
    packages = Path(os.environ.get("TIDINGS_CACHE", cache)) / "tools" / "npm"
    node = shutil.which("node")
    if node is None or not (packages / "node_modules/kafkajs").is_dir():
        pytest.skip("programs of Node cannot run: `scripts/tools.sh npm` fetches what they need (needs npm)")
    publisher.create(2)
    publisher.publish([1, 2])
    publisher.publish([99], commit=False)
    publisher.publish([3])
    settings = {
        "KAFKA": kafka_bootstrap, "REGISTRY": registry_url, "SEEN": str(tmp_path / "seen.txt"), "COUNT": "3",
        "TOPIC": publisher.topics[2], "PACKAGES": str(packages),
    }  # fmt: skip
    command = [node, str(EXAMPLES / "packing_list.mjs")]
    assert sorted(run(command, GROUP=unique_name, **settings)) == sorted(PACKED)
    # Another group reads all of it again, and has nothing to do: it knows the ids.
    assert run(command, GROUP=f"{unique_name}-again", **settings) == []
