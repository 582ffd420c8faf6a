"""How the servers' JVMs are started: nobody's own Java options, and those that the environment asks for."""

from __future__ import annotations

import os
import shlex

VARIABLE = "TIDINGS_STACK_JAVA_OPTIONS"
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""No second compiler: a JVM that lives for seconds or does little spends more on compiling than it saves."""


def java_options() -> list[str]:
    """Options for every JVM of a server, from `TIDINGS_STACK_JAVA_OPTIONS`; a server's own come before them."""
    return shlex.split(os.environ.get(VARIABLE, ""))


def java_environment() -> dict[str, str]:
    """Return the environment for a server's JVM: options meant for somebody's own Java would change or break it."""
    unwanted = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "KAFKA_OPTS")
    return {name: value for name, value in os.environ.items() if name not in unwanted}
