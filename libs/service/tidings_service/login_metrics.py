"""The metric of `logins`; by itself, for processes that have no metrics need not load the library."""

from prometheus_client import Gauge

from tidings_service.logins import refusal

LOGIN_REFUSED = Gauge(
    "tidings_kafka_login_refused", "1 while brokers refuse the service's login, as after a bad rotation."
)
LOGIN_REFUSED.set_function(lambda: float(refusal() is not None))
