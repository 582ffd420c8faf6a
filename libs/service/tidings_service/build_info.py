"""The metric that names the running service and its version."""

from importlib.metadata import PackageNotFoundError, version

from prometheus_client import Gauge

_BUILD_INFO = Gauge("tidings_build_info", "The running service and its version.", ["service", "version"])


def publish(service: str) -> None:
    """Set ``tidings_build_info`` for this process."""
    try:
        release = version(f"tidings-{service.removeprefix('tidings-')}")
    except PackageNotFoundError:
        release = version("tidings-service")
    _BUILD_INFO.labels(service=service, version=release).set(1)
