"""The options about WAL, typed: ``on.slot.loss`` and ``tidings.wal.*``. Read by the supervisor and by the task."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tidings_capture.cdc.filters import compile_list, matches
from tidings_connect.data.sizes import parse_size
from tidings_connect.java.regex import JavaPattern

LossChoice = Literal["fail", "snapshot", "incremental", "continue"]

ON_LOSS: Final = "on.slot.loss"
VOLUME: Final = "tidings.wal.volume.size"
GUARD: Final = "tidings.wal.guard."
GUARD_LEVEL: Final = "guard"
"""The kind of the command that tells a task the guard's level, which is its body."""
STEPS: Final = ("warn", "stop.snapshots", "pause", "drop")
"""What the guard does, least first; the level of a step is its place, from 1."""
PAUSED_CONNECTORS: Final = f"{GUARD}pause.connectors"
_PERCENT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Limit:
    """How much WAL a slot may retain: one of the two."""

    text: str
    """As it was given."""
    size: int | None = None
    """Bytes."""
    share: float | None = None
    """Of ``max_slot_wal_keep_size`` or the volume, whichever is smaller; 1 is all of it."""

    def bytes_of(self, room: float | None) -> float | None:
        """The limit in bytes; None for a share of something that is not known."""
        if self.size is not None:
            return float(self.size)
        return None if room is None or self.share is None else self.share * room


@dataclass(frozen=True, slots=True)
class WalOptions:
    """What a connector says about WAL."""

    on_loss: LossChoice | None = None
    """What to do where the slot cannot give what follows the stored offset; None: as ``snapshot.mode`` says."""
    volume_bytes: int | None = None
    """The room there is for ``pg_wal``."""
    limits: Mapping[int, Limit] = field(default_factory=dict)
    """The guard's, by level; empty: no guard."""
    pauses: tuple[JavaPattern, ...] = ()
    """The connectors that rest from step ``pause`` on."""

    def may_pause(self, connector: str) -> bool:
        """Whether another connector rests for this one."""
        return bool(self.pauses) and matches(self.pauses, connector)


def parse_limit(text: str) -> Limit:
    """``20GB`` or ``80%``.

    Raises:
        ValueError: it is neither.
    """
    found = _PERCENT.fullmatch(text)
    if found is None:
        return Limit(text, size=parse_size(text))
    share = float(found[1]) / 100
    if not 0 < share <= 1:
        raise ValueError("must be more than 0% and at most 100%")
    return Limit(text, share=share)


def read_wal_options(config: Mapping[str, str]) -> WalOptions:
    """The options of a connector that has been checked."""
    limits = {
        level: parse_limit(config[f"{GUARD}{step}"])
        for level, step in enumerate(STEPS, 1)
        if config.get(f"{GUARD}{step}", "").strip()
    }
    named = config.get(ON_LOSS, "").strip().lower()
    # Who lets the guard drop the slot wants the work to go on afterwards.
    choice = named or ("incremental" if len(STEPS) in limits else "")
    volume = config.get(VOLUME, "").strip()
    return WalOptions(
        on_loss=choice or None,  # type: ignore[arg-type]  # one of its values: checked
        volume_bytes=parse_size(volume) if volume else None,
        limits=limits,
        pauses=compile_list(config.get(PAUSED_CONNECTORS, "")),
    )


def wal_option_problems(config: Mapping[str, str]) -> dict[str, str]:
    """What is wrong between these options and others, by option."""
    problems: dict[str, str] = {}
    try:
        options = read_wal_options(config)
    except ValueError:
        return problems  # each value's own check says what is wrong
    reads_watermarks = config.get("signal.data.collection") or config.get("read.only", "").lower() == "true"
    if options.on_loss == "incremental" and not reads_watermarks:
        name = ON_LOSS if config.get(ON_LOSS) else f"{GUARD}drop"
        problems[name] = (
            f"{name} reads the tables again by an incremental snapshot, which needs signal.data.collection or "
            f"read.only=true (or set {ON_LOSS} to another value)"
        )
    if options.pauses and STEPS.index("pause") + 1 not in options.limits:
        problems[PAUSED_CONNECTORS] = f"{PAUSED_CONNECTORS} has no effect without {GUARD}pause"
    sizes = [limit.size for _, limit in sorted(options.limits.items()) if limit.size is not None]
    shares = [limit.share for _, limit in sorted(options.limits.items()) if limit.share is not None]
    if sizes != sorted(sizes) or shares != sorted(shares):
        problems[f"{GUARD}drop"] = (
            f"the limits of {', '.join(GUARD + step for step in STEPS)} must not become smaller"
        )
    return problems
