"""Settings of a service: environment variables ``TIDINGS_*``, read once at start.

An ecosystem's own form (worker properties, connector JSON, spark-defaults) stays what it is; only what has no such
form is a setting here.
"""

from typing import Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidings_service.errors import SettingsError


class ServiceSettings(BaseSettings):
    """What every service can be told. A service subclasses it and adds its own fields."""

    model_config = SettingsConfigDict(
        env_prefix="TIDINGS_", extra="ignore", frozen=True, hide_input_in_errors=True
    )

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """What is logged: this and what is graver."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """``auto`` is readable on a terminal and JSON elsewhere."""
    http_host: str = "127.0.0.1"
    """Address that /metrics, /healthz and /readyz listen on."""
    http_port: int = Field(default=0, ge=0, le=65535)
    """Port for them; 0 takes a free one."""


S = TypeVar("S", bound=ServiceSettings)


def load_settings(cls: type[S], **overrides: object) -> S:
    """Read `cls` from the environment.

    Raises:
        SettingsError: naming every variable that is missing or wrong; values are not repeated.
    """
    try:
        return cls(**overrides)  # type: ignore[arg-type]  # pydantic checks the values
    except ValidationError as error:
        problems = [
            f"TIDINGS_{'_'.join(str(part) for part in item['loc']).upper()}: {item['msg']}"
            for item in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise SettingsError(
            "; ".join(problems), hint="set the variable in the environment of the service"
        ) from error
