"""An executor of Spark on Kubernetes, which the lakehouse's image is started as with the argument ``executor``.

Spark gives that argument to the pods that it makes, and tells them by their environment whose executor they are and how it starts
(``org.apache.spark.deploy.k8s.features.BasicExecutorFeatureStep``). The process becomes the JVM, so that the JVM gets the pod's signals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import pyspark

from tidings_jvm import Java, JvmError, find_java
from tidings_lakehouse.errors import GatewayError

_MAIN: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_([0-9]+)")
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"


def become_executor() -> NoReturn:
    """Replace this process by the executor's JVM.

    Raises:
        GatewayError: Spark has not made this pod, or there is no Java.
    """
    home = Path(pyspark.__file__).parent
    try:
        java = find_java()
    except JvmError as error:
        raise GatewayError(str(error), hint=error.hint) from error
    command = executor_command(os.environ, java, home)
    # For the Python workers of an executor.
    os.execve(command[0], command, {**os.environ, "SPARK_HOME": str(home)})  # noqa: S606 - our own words, no shell


def executor_command(environment: Mapping[str, str], java: Java, home: Path) -> list[str]:
    """The JVM's command.

    Args:
        environment: what Spark has told the pod.
        home: pyspark's directory, whose ``jars`` are Spark.

    Raises:
        GatewayError: a variable is missing.
    """
    missing = [name for name in (*_ARGUMENTS.values(), _MEMORY) if not environment.get(name)]
    if missing:
        raise GatewayError(
            f"executor: {', '.join(missing)}: not in the environment",
            hint="Spark starts this command in the pods that it makes; a person starts `tidings-lakehouse run`, which has them made",
        )
    options = {
        int(found[1]): value for name, value in environment.items() if (found := _OPTION.fullmatch(name))
    }
    jars = filter(None, (environment.get("SPARK_CLASSPATH"), str(home / "jars" / "*")))
    memory = environment[_MEMORY]
    return [
        str(java.path),
        *(options[number] for number in sorted(options)),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        os.pathsep.join(jars),
        _MAIN,
        *(word for argument, name in _ARGUMENTS.items() for word in (argument, environment[name])),
    ]
