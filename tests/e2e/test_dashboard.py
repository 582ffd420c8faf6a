"""Every panel of the dashboard shows a number, and every alert rule evaluates, on a real Prometheus.

It scrapes all four services while customers are in the shop; `scripts/check_dashboards.py` says what is wrong.
"""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidings_shop.demo.pipeline import LAKEHOUSE

if TYPE_CHECKING:
    from conftest import Shop

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_dashboards.py"
NO_PROMETHEUS = 77

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.tools, pytest.mark.timeout(1800)]


@pytest.mark.turns
def test_every_panel_and_rule_works_on_the_running_pipeline(shop: "Shop") -> None:
    pipeline, figures = shop.demo.pipeline, shop.demo._figures
    pipeline.until(lambda: figures.lake.total > 0, 600.0, "the first rows in the lake")
    targets = [
        f"--target=tidings-{name}={url.removeprefix('http://')}" for name, url in pipeline.urls.items()
    ]
    assert LAKEHOUSE in pipeline.urls
    answer = subprocess.run(
        # It ends as soon as all is well; on a slow machine the second batch, which a rate needs, takes minutes.
        [sys.executable, str(SCRIPT), *targets, "--seconds", "600"],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode == NO_PROMETHEUS:
        pytest.skip("there is no prometheus: run `make tools` (needs Go), or put one on PATH")
    assert answer.returncode == 0, answer.stdout + answer.stderr
