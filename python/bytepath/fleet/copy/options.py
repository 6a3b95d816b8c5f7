"""What is asked of a copying, and how it went."""

from dataclasses import dataclass, field

LATE_S = 20.0
"""A piece that takes so much longer than its budget is given to another worker as well."""

PATIENCE_S = 60.0
"""How long a scheduler that is gone is waited for."""


@dataclass
class Options:
    """What is asked for."""

    source: str
    destination: str
    scheduler: str
    words: list[str]
    per_machine: int | None = None
    rate: int | None = None
    rate_per_machine: int | None = None
    progress: bool = False
    sync: bool = False
    late_s: float = LATE_S
    patience_s: float = PATIENCE_S


@dataclass
class Outcome:
    """How it went."""

    files: int = 0
    bytes: int = 0
    directories: int = 0
    """All that is copied, by earlier runs of the command too."""
    this_run: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    why: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    seconds: float = 0.0
    resumed: bool = False
    machines: int = 0
