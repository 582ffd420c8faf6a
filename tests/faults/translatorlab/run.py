"""One schedule on a pipeline: traffic, the faults, peace, a verdict."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from faultlab.fault import Fault

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
        self.pipeline.runs += 1
        strikes = Strikes(
            self.pipeline, self._more, random.Random(f"{self.schedule.seed} run"), strict=self._strict
        )
        late, faults = self._beginning()
        with Customers(self.pipeline.url, self.schedule.seed, odd=0.01, late=late) as customers:
            for fault in (*faults, *self.schedule.faults):
                self._more(fault.records)
                self._say(f"  {time.monotonic() - began:.1f} {fault}")
                strikes.strike(fault)
            self._more(50)
        self._say(f"  {time.monotonic() - began:.1f} peace")
        verdict = self.pipeline.settle()
        starts = sum(stage.starts for stage in self.pipeline.stages.values())
        return Outcome(verdict, time.monotonic() - began, customers.transactions, starts)

    def _beginning(self) -> tuple[dict[str, int], list[Fault]]:
        """Where topics are made meanwhile: which tables are written later than others, and what happens until then.

        The sequencer has subscribed and stands still while the first row of a table is written. It then commits the
        transactions before that one, and has first rows of partitions that belong to later ones, when its group rebalances.
        """
        if not self.pipeline.new_topics or self.pipeline.runs > 1:
            return {}, []
        chance = random.Random(f"{self.schedule.seed} beginning")
        freeze = Fault("freeze_sequencer", chance.uniform(0.5, 4.0), records=chance.randint(1, 60))
        return {"items": chance.randint(5, 150), "payments": chance.randint(20, 250)}, [freeze]

    def _more(self, records: int) -> None:
        """Wait until more is published; not for ever, as what is down may have to come back first."""
        first = self.pipeline.published_ends()
        wait_until(lambda: self.pipeline.published_ends() >= first + records, 60 if self._strict else 5)
