"""A reader's team installs the client and nothing else of Tidings."""

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

CLIENT = Path(__file__).parents[1]


def required(distribution: str) -> set[str]:
    """What an installation brings, without extras, through to the last one."""
    found: set[str] = set()
    waiting = [distribution]
    while waiting:
        for requirement in requires(waiting.pop()) or ():
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()
            if "extra ==" not in requirement and name not in found:
                found.add(name)
                waiting.append(name)
    return found


def test_it_brings_nothing_else_of_tidings() -> None:
    assert {re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in requires("tidings-client") or ()} == {
        "confluent-kafka",
        "fastavro",
    }
    assert [name for name in required("tidings-client") if name.startswith("tidings")] == []


def test_its_wheel_runs_where_the_rest_is_not_installed(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=CLIENT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("tidings_client-*.whl")
    program = (
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.startswith('tidings_') and not name.startswith('tidings_client'):\n"
        "            raise ModuleNotFoundError(name)\n"
        f"sys.meta_path.insert(0, Nothing()); sys.path.insert(0, {str(wheel)!r})\n"
        "import tidings_client, tidings_client.generate\n"
        "print(tidings_client.__file__)\n"
        "tidings_client.generate.main(['--help'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(wheel))
    assert "event classes" in done.stdout
