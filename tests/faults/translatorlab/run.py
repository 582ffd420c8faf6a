"""One schedule on a pipeline: traffic, the faults, peace, a verdict."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from translatorlab.pipeline import Pipeline
from translatorlab.processes import wait_until
from translatorlab.published import Verdict
from translatorlab.schedule import Schedule
from translatorlab.store import Customers
from translatorlab.strikes import Strikes


@dataclass
class Outcome:
    """How a schedule ended."""

    verdict: Verdict
    seconds: float
    transactions: int
    starts: int
    """Of stages, since the pipeline was made."""


class Run:
    """One schedule on a pipeline, which goes on after it.

    Args:
        strict: a named point has to be passed: for schedules that are written down.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        schedule: Schedule,
        say: Callable[[str], None] = lambda _: None,
        *,
        strict: bool = False,
    ) -> None:
        self.pipeline = pipeline
        self.schedule = schedule
        self._say = say
        self._strict = strict

    def run(self) -> Outcome:
        """Run it to the verdict.

        Raises:
            AssertionError: the connector did not come back, or a point was not passed in a strict run.
        """
        began = time.monotonic()
        strikes = Strikes(
            self.pipeline, self._more, random.Random(f"{self.schedule.seed} run"), strict=self._strict
        )
        with Customers(self.pipeline.url, self.schedule.seed, odd=0.01) as customers:
            for fault in self.schedule.faults:
                self._more(fault.records)
                self._say(f"  {time.monotonic() - began:.1f} {fault}")
                strikes.strike(fault)
            self._more(50)
        self._say(f"  {time.monotonic() - began:.1f} peace")
        verdict = self.pipeline.settle()
        starts = sum(stage.starts for stage in self.pipeline.stages.values())
        return Outcome(verdict, time.monotonic() - began, customers.transactions, starts)

    def _more(self, records: int) -> None:
        """Wait until more is published; not for ever, as what is down may have to come back first."""
        first = self.pipeline.published_ends()
        wait_until(lambda: self.pipeline.published_ends() >= first + records, 60 if self._strict else 5)
