"""The compiled half of the package; `bytepath` offers it."""

from collections.abc import Callable
from typing import Any

__version__: str

class Moved:
    bytes: int
    route: str
    calls: int
    seconds: float
    declined: list[tuple[str, int, str]]
    explained: str

class Route:
    name: str
    expected_gib_per_s: float | None
    why: str

class Planned:
    reason: str
    routes: list[Route]
    refused: list[tuple[str, str]]
    text: str

def move_bytes(
    source: int,
    sink: int,
    asked: dict[str, Any],
    progress: Callable[[int], None] | None,
) -> Moved: ...
def plan_for(source: int, sink: int, asked: dict[str, Any]) -> Planned: ...
def routes() -> list[tuple[str, str]]: ...
def machine() -> list[tuple[str, str]]: ...
def first_difference(
    one: int, other: int, starts: tuple[int, int], bytes: int
) -> int | None: ...
