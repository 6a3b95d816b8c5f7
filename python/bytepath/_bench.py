"""Published experiments, run by `bytepath bench`, and their records."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from bytepath._errors import ProgramError
from bytepath._program import checked, failed, run

if TYPE_CHECKING:
    import pandas

#: Options that say where the record goes, which is here.
_OURS = {"json", "csv", "report", "plot", "list", "no_store"}

#: The `schema` of the records that this version reads.
_SCHEMA = "bytepath.record/1"

#: Columns of numbers in the tables of arms, costs apart, and of samples.
_NUMBERS = {"median", "low", "high", "ratio", "ratio_low", "ratio_high"}
_SAMPLE_NUMBERS = {"value", "seconds", "steal_share", "foreign_cpu_share"}

#: Where a notebook shows a record; printing, to a browser, is a modal.
_FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts allow-modals" style="width:100%;height:640px;border:0"'
    ' title="{title}"></iframe>'
)


@dataclass(frozen=True)
class Arm:
    """One way of doing an experiment's work, as it was measured."""

    name: str
    #: "GiB/s", "op/s", "s" or "ns".
    unit: str
    #: "ok", or "unavailable": then `why` says why.
    status: str
    why: str | None
    #: What each block gave, superseded ones left out.
    samples: list[float]
    median: float | None
    #: The 95% interval of the median.
    ci95: tuple[float, float] | None
    #: Beside the reference arm, block by block, and the interval of that.
    ratio: float | None
    ratio_ci95: tuple[float, float] | None
    #: Whether the reader looked at the bytes.
    touched: bool
    params: dict[str, Any] = field(repr=False)
    costs: dict[str, Any] = field(repr=False)


class Record:
    """What a run of an experiment left. A notebook shows it with its plots; `print` as a table.

    `data` is the whole of it, in the published format (`bytepath.record/1`).
    """

    def __init__(self, data: dict[str, Any]) -> None:
        _check_schema(data)
        self.data = data
        self.arms = [_arm(arm) for arm in data["arms"]]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Reads a record that `save`, or `bytepath bench --json`, wrote."""
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the record to a file, which all of bytepath's commands read."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.data, file)

    @property
    def id(self) -> str:
        """The name of the run."""
        return str(self.data["id"])

    @property
    def trusted(self) -> bool:
        """Whether the control, the reference measured twice, came out as the same."""
        return bool(self.data["trusted"])

    def __getitem__(self, name: str) -> Arm:
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)

    def to_pandas(self) -> pandas.DataFrame:
        """An arm a row: what it gave, its interval, its ratio to the reference, parameters, costs. A parameter that
        is called like one of the others has `parameter_` before its name."""
        costs = {name for arm in self.arms for name in arm.costs}
        return _frame([_row(arm, costs) for arm in self.arms], _NUMBERS | costs).set_index("arm")

    def samples(self) -> pandas.DataFrame:
        """A sample a row: arm, block, value, and what disturbed it."""
        rows = [
            {"arm": arm["name"], "unit": arm["unit"], **sample}
            for arm in self.data["arms"]
            for sample in arm["samples"]
        ]
        return _frame(rows, _SAMPLE_NUMBERS)

    def __iter__(self) -> Iterator[str]:
        """The names of the arms."""
        return (arm.name for arm in self.arms)

    def __contains__(self, name: object) -> bool:
        return any(arm.name == name for arm in self.arms)

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        return f"<bytepath record {self.id}: {len(self.arms)} arms>"

    def __str__(self) -> str:
        return checked(["report", "--plot", "-"], given=json.dumps(self.data)).rstrip()

    def to_html(self) -> str:
        """The page that `bytepath report` makes: it needs no network, and no other file."""
        return checked(["report", "--format", "html", "-o", "-", "-"], given=json.dumps(self.data))

    def _repr_html_(self) -> str | None:
        try:
            page = self.to_html()
        except (ProgramError, OSError):
            # Without the command there are the figures still, as text.
            return None
        # A frame of its own: neither disturbs the other's styles, and its script reaches nothing else.
        return _FRAME.format(page=html.escape(page), title=html.escape(f"bytepath {self.id}"))


def _check_schema(data: Any) -> None:
    """Refuses, in the command's words, what it refuses."""
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == _SCHEMA:
        return
    if schema is None:
        raise ValueError(f'not a record: no "schema": "{_SCHEMA}" at the top level')
    family, _, major = str(schema).rpartition("/")
    if family == _SCHEMA.rpartition("/")[0] and major.isdecimal() and int(major) > 1:
        raise ValueError(
            f'record too new: this bytepath reads "{_SCHEMA}", found "{schema}"; use the bytepath that wrote it, or a '
            "later one"
        )
    raise ValueError(f'not a record: expected schema "{_SCHEMA}", found "{schema}"')


def _frame(rows: list[dict[str, Any]], numbers: Iterable[str]) -> pandas.DataFrame:
    """A table in which these columns hold numbers, also where no row has one."""
    frame: pandas.DataFrame = _pandas().DataFrame(rows)
    return frame.astype({name: float for name in numbers if name in frame})


def _row(arm: Arm, costs: set[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "arm": arm.name,
        "median": arm.median,
        "low": arm.ci95[0] if arm.ci95 else None,
        "high": arm.ci95[1] if arm.ci95 else None,
        "unit": arm.unit,
        "ratio": arm.ratio,
        "ratio_low": arm.ratio_ci95[0] if arm.ratio_ci95 else None,
        "ratio_high": arm.ratio_ci95[1] if arm.ratio_ci95 else None,
        "touched": arm.touched,
        "status": arm.status,
        "why": arm.why,
    }
    # One name for one thing in all rows, whichever of them have that cost.
    taken = costs | row.keys()
    params = {f"parameter_{name}" if name in taken else name: value for name, value in arm.params.items()}
    return row | params | arm.costs


def _arm(arm: dict[str, Any]) -> Arm:
    def pair(name: str) -> Any:
        return tuple(arm[name]) if arm.get(name) else None

    return Arm(
        name=arm["name"],
        unit=arm["unit"],
        status=arm["status"],
        why=arm.get("why"),
        samples=[s["value"] for s in arm["samples"] if not s.get("superseded")],
        median=arm.get("median"),
        ci95=pair("ci95"),
        ratio=arm.get("ratio"),
        ratio_ci95=pair("ratio_ci95"),
        touched=bool(arm.get("touched")),
        params=arm.get("params") or {},
        costs=arm.get("costs") or {},
    )


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("a DataFrame takes pandas: pip install pandas") from None
    return pandas


_Option = Union[str, int, float, "os.PathLike[str]", bool, None]


def bench(
    experiment: str,
    *arguments: str,
    store: bool = False,
    show: bool = True,
    **options: _Option | list[_Option],
) -> Record:
    """Runs a published experiment on this machine: `bench("pipes", quick=True)`.

    Options are those of `bytepath bench EXPERIMENT --help`, with `_` for `-`: True for those that take
    no value, a list for those that are given several times. `arguments` follow them (commands, for
    `bench("cmd", …)`). `store`: keep the run for `bytepath history`. `show`: how it goes on is told on
    standard error, which may be a notebook's. Arms that could not be measured are in the record all the same,
    with their `status` and `why`.
    """
    taken = _OURS.intersection(options)
    if taken:
        raise TypeError(f"bench() gives a record; {', '.join(sorted(taken))} would send it elsewhere")
    if experiment == "all":
        raise ValueError("bench() gives one record: name one experiment, or run bytepath bench all")
    command: list[Any] = ["bench", experiment, "--json", "-"]
    if not store:
        command.append("--no-store")
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                command.append(option)
            elif one is not None and one is not False:
                command.append(f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    done = run([*command, *(["--", *arguments] if arguments else [])], show=show)
    # Where arms failed it exits with 1, after a record that says which, and why; by a signal, after a part of one.
    if done.returncode < 0:
        raise failed(command, done)
    try:
        data = json.loads(done.stdout)
    except ValueError:
        if done.returncode != 0:
            raise failed(command, done) from None
        said = done.stdout.strip().partition("\n")[0]
        raise ValueError(f"that measures nothing, and gives no record but text: {said!r}") from None
    return Record(data)
