"""The examples for downstream teams run as they are: readers in Python, Java and JavaScript, and that of the README."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from publishing import Publisher

from tidings_jvm import fetch, find_java

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


def test_the_reader_of_the_readme(
    publisher: Publisher, kafka_bootstrap: str, registry_url: str, tmp_path: Path
) -> None:
    publisher.create(2)
    publisher.publish([7])
    generated = run([
        sys.executable, "-m", "tidings_client.generate", "generate", publisher.topics[2], "--registry", registry_url
    ])  # fmt: skip
    (tmp_path / "events.py").write_text("\n".join(generated))
    (program,) = re.findall(
        r"```python\n(.*?)```", (EXAMPLES.parents[1] / "libs/client/README.md").read_text(), re.DOTALL
    )
    program = program.replace("localhost:9092", kafka_bootstrap).replace(
        "http://localhost:8080/apis/ccompat/v7", registry_url
    )
    program = program.replace("seen.db", str(tmp_path / "seen.db")).replace(
        "    seen=", "    idle_seconds=1,\n    seen="
    )
    (tmp_path / "program.py").write_text(program)
    (line,) = run([sys.executable, str(tmp_path / "program.py")])
    assert line.startswith("7 2026-01-01 00:00:00+00:00 OrderPlacedV2(")
    assert "quantity=7" in line


def test_it_needs_two_packages_and_nothing_else(tmp_path: Path) -> None:
    for name in ("tidings_client", "confluent_kafka", "fastavro"):
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        (tmp_path / name).symlink_to(Path(found.origin).parent)
    libraries = Path(importlib.util.find_spec("confluent_kafka").origin).parents[1].glob("*.libs")  # type: ignore[union-attr, arg-type]
    for one in libraries:
        (tmp_path / one.name).symlink_to(one)
    # -S: no site-packages; -I: no PYTHONPATH.
    program = f"import sys; sys.path.append({str(tmp_path)!r}); import tidings_client, tidings_client.generate; print('fine')"
    assert run([sys.executable, "-I", "-S", "-c", program]) == ["fine"]


def test_the_reader_in_java(
    publisher: Publisher, kafka_bootstrap: str, registry_url: str, unique_name: str, tmp_path: Path
) -> None:
    java, jars = str(find_java().path), os.pathsep.join(str(jar) for jar in fetch("reader"))
    # A compiler that is a jar itself: a runtime without javac is enough.
    compiler = [
        java,
        "-cp",
        jars,
        "org.eclipse.jdt.internal.compiler.batch.Main",
        "--release",
        "17",
        "-proc:none",
    ]
    run([*compiler, "-classpath", jars, "-d", str(tmp_path), str(EXAMPLES / "PackingList.java")])
    publisher.create(2)
    publisher.publish([1, 2])
    publisher.publish([99], commit=False)
    publisher.publish([3])
    settings = {
        "KAFKA": kafka_bootstrap, "REGISTRY": registry_url, "SEEN": str(tmp_path / "seen.txt"), "IDLE": "1",
        "TOPIC": publisher.topics[2],
    }  # fmt: skip
    (tmp_path / "seen.txt").write_text(f"{publisher.event}-nobody\n")
    command = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{jars}{os.pathsep}{tmp_path}", "PackingList"]
    assert sorted(run(command, GROUP=unique_name, **settings)) == sorted(PACKED)
    assert len((tmp_path / "seen.txt").read_text().splitlines()) == 1 + len(PACKED)


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
