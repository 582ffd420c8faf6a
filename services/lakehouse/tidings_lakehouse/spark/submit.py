"""The job as an application of ``spark-submit``, which starts the JVM and then this process.

Spark's launch script has to be told the class path and the options of the driver's JVM before there is one, so
`write_submit_files` writes them to a file for ``--properties-file``, and beside it the file that ``spark-submit`` runs. What else Spark
needs the job says itself when it makes its session; what ``spark-submit`` was told counts more.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext

from tidings_lakehouse.catalogs.conf import jar_configurations, more_jars
from tidings_lakehouse.errors import GatewayError
from tidings_lakehouse.spark.gateway import JVM_OPTIONS, class_path
from tidings_lakehouse.spark.properties import properties_text

if TYPE_CHECKING:
    from tidings_lakehouse.settings import SubmitSettings

_SCRIPT = '''"""Run by spark-submit, with the settings of spark.conf beside it."""

from tidings_lakehouse.cli import main

raise SystemExit(main())
'''
_MASTER = "TIDINGS_LAKEHOUSE_MASTER"
_HINT = "write them anew by `tidings lakehouse submit-files DIRECTORY`, and start spark-submit as that command says"


def take_master() -> None:
    """Make the master that ``spark-submit`` was given the setting of this process, which it has started.

    Raises:
        GatewayError: see `submitted_conf`.
    """
    os.environ[_MASTER] = submitted_conf()["spark.master"]


def submitted_conf() -> dict[str, str]:
    """What ``spark-submit`` was told, by its options and its files.

    Raises:
        GatewayError: it was not told the job's class path and options, without which records cannot be read safely.
    """
    SparkContext._ensure_initialized()  # noqa: SLF001 - connects to the JVM
    jvm: Any = SparkContext._jvm  # noqa: SLF001
    options = {option.partition("=")[0]: option.partition("=")[2] for option in JVM_OPTIONS}
    for option, value in options.items():
        if option.startswith("-D") and jvm.java.lang.System.getProperty(option.removeprefix("-D")) != value:
            raise GatewayError(f"spark-submit has started its JVM without {option}={value}", hint=_HINT)
    return dict(SparkConf().getAll())


def write_submit_files(settings: SubmitSettings, directory: Path) -> str:
    """Write what ``spark-submit`` takes: ``spark.conf`` and ``lakehouse.py``. Neither has a secret in it.

    Returns:
        The command, for a shell.

    Raises:
        GatewayError: a jar cannot be had.
    """
    jars = class_path(jar_configurations(settings), more_jars(settings))
    options = [*JVM_OPTIONS, *settings.lakehouse_java_options.split()]
    conf: Mapping[str, str] = {
        "spark.app.name": "tidings-lakehouse",
        "spark.driver.memory": settings.lakehouse_heap,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.pyspark.python": sys.executable,
    }
    directory.mkdir(parents=True, exist_ok=True)
    file, script = directory / "spark.conf", directory / "lakehouse.py"
    file.write_text(properties_text(conf), encoding="ascii")
    script.write_text(_SCRIPT, encoding="ascii")
    words = [
        "spark-submit",
        "--master",
        settings.lakehouse_master,
        "--properties-file",
        str(file),
        str(script),
        "run",
    ]
    return shlex.join(words)
