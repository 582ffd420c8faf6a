"""Make the archives of classes with which the tests' JVMs start in half the CPU time; nothing to do when they are there.

Two short tests are run with JVMs that write down what they load: Kafka with Kafka Connect, and Spark. It takes half a
minute, once for each environment and each change of the jars.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tidings_jvm import find_java
from tidings_jvm.checksums import LIST
from tidings_jvm.class_data import RECORD, VARIABLE, archive_directory, has_own_archive, keep_recorded
from tidings_jvm.ivy import ivy_jar

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "libs/stack/tests/test_connect.py::test_debezium_streams_in_confluent_s_wire_format",
    "services/lakehouse/tests/writing/test_technical.py::test_rows_have_sql_types_and_the_log_has_everything",
)


def main() -> int:
    """Record and keep; the tests run without archives where that fails."""
    java = find_java()
    if not has_own_archive(java):
        return 0
    jars = LIST.read_bytes() + (ROOT / "requirements" / "all.txt").read_bytes()
    # A JVM passes over an archive whose jars have other times. All of pyspark's are beside Ivy's.
    times = f"{[file.stat().st_mtime_ns for file in (java.path, *sorted(ivy_jar().parent.glob('*.jar')))]}"
    wanted = hashlib.sha256(jars + times.encode()).hexdigest()
    stamp = archive_directory(java) / "of"
    if stamp.is_file() and stamp.read_text("ascii") == wanted:
        return 0
    print("Recording the classes of Kafka, Kafka Connect and Spark ...", flush=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "load", *TESTS],
        cwd=ROOT,
        env={**os.environ, VARIABLE: RECORD},
        capture_output=True,
        text=True,
        check=False,
    )
    kept = keep_recorded(java)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:])
        print(f"Kept those of {', '.join(kept) or 'none'}; the next time all are recorded anew")
    else:
        stamp.write_text(wanted, "ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
