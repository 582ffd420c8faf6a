"""What an author of a domain imports, and what that brings along."""

import subprocess
import sys

import pytest

import tidings_domain

HEAVY = ("aiohttp", "asyncio", "confluent_kafka", "faust", "httpx", "prometheus_client", "psycopg", "pydantic", "structlog")  # fmt: skip


@pytest.mark.listing
def test_every_name_of_the_facade_is_there() -> None:
    for name in tidings_domain.__all__:
        assert getattr(tidings_domain, name) is not None


def test_a_domain_and_its_tests_load_no_service_and_no_client_of_a_server() -> None:
    program = (
        "import sys, tidings_domain, tidings_domain.testing\n"
        "from tidings_domain.contracts import cli, codegen\n"
        f"heavy = {HEAVY!r} + ('tidings_service', 'tidings_translator')\n"
        "print([one for one in heavy if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
