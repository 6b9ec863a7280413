"""Reader of figure files: a sweep file with the axes of a published figure and the shape expected of it.

The format is described in docs/reproduce.md. Bundled figures stand in `ray_sim/studies/<system>/`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

import ray_sim
from ray_sim.experiments.figures.cells import Cell, cells_of, place
from ray_sim.experiments.figures.choices import Changes, Choice, each_id_once, named, with_seeds
from ray_sim.experiments.inputs.profile_files import is_profile_file
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Spec, parsed, read_document
from ray_sim.experiments.sweep_entries import Configuration
from ray_sim.experiments.sweep_file import FIGURE_BLOCKS, combinations, has_figure, with_jobs, without_figure
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError, problems_text
from ray_sim.reports.shape_samples import Samples, X
from ray_sim.reports.statements import Check
from ray_sim.reports.statistics import pairs_needed
from workloads.documents import dotted_problems
from workloads.sources import is_url

STUDIES = Path(ray_sim.__file__).parent / "studies"
"""Folder of the bundled figures."""

FILE_SUFFIXES = (".yaml", ".yml", ".csv", ".parquet", ".npz")
"""Ends of the texts in a figure file that name a file beside it."""

QUICK_JOBS = 5
"""Jobs of the synthetic workloads of a quick figure, which has one seed and no verdicts."""


class _FigurePart(Spec):
    """Base class of the parts of a figure: a spec whose numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class AxisSpec(_FigurePart):
    """The x axis."""

    of: str
    """Coordinate of a run, see `figures.cells`."""
    label: str
    unit: str | None = None
    values: dict[X, X] = Field(default_factory=dict)
    """Value to show by value in the sweep."""
    log: bool = False


class ValueAxisSpec(_FigurePart):
    """The y axis."""

    label: str
    unit: str | None = None
    log: bool = False


class PublishedSpec(_FigurePart):
    """What the paper reports."""

    values: dict[str, dict[X, float]] = Field(default_factory=dict)
    """Values by series and x."""
    facts: list[str] = Field(default_factory=list)


def _each_once(checks: list[Check]) -> list[Check]:
    names = [check.name for check in checks]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"'{name}' is the name of two checks; rename one")
    for check in checks:
        if check.because is not None and check.because not in names:
            raise ValueError(
                f"`because`: must name another check, whose verdict tells; got '{check.because}'"
            )
    return checks


class FigureSpec(_FigurePart):
    """The block `figure`."""

    title: str
    source: str
    """Paper and figure."""
    metric: str
    """Key of a run's summary as in `ray-sim compare`, or `timing.` and a key of timing.json."""
    better: Literal["higher", "lower"] | None = None
    """Better direction of the metric; None is that of `ray-sim compare`, and lower for `timing.`."""
    x: AxisSpec
    y: ValueAxisSpec
    series: dict[str, dict[str, object]] = Field(default_factory=dict)
    """Coordinates of the runs of each series; without any, each policy is a series under its label."""
    published: PublishedSpec = PublishedSpec()
    data: dict[str, str] = Field(default_factory=dict)
    """Where each file comes from that is no part of ray-sim, by its name in the sweep."""
    cpu_s: Annotated[float, Field(gt=0)] | None = None
    """CPU time of all runs in seconds, as measured once."""


class _Blocks(Spec):
    figure: FigureSpec
    shape: Annotated[list[Check], Field(min_length=1), AfterValidator(_each_once)]
    choices: Annotated[list[Choice], AfterValidator(each_id_once)] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Runs of a figure under an alternative to one of its choices."""

    choice: str
    """Id of the choice."""
    name: str
    cells: tuple[Cell, ...]
    """Runs of the alternative, each with the series and the x of the run that it replaces."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A checked figure."""

    name: str
    path: Path
    spec: FigureSpec
    checks: tuple[Check, ...]
    cells: tuple[Cell, ...]
    """All runs, in the order of the sweep; empty where data is missing."""
    folders: tuple[str, ...]
    """Folders of its files, with a slash at the end."""
    missing: tuple[str, ...]
    """Names in `data` that are not there, so that the figure cannot run."""
    choices: tuple[Choice, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def given(self) -> str:
        """Text that names it on the command line: of a bundled figure its name, else the path."""
        bundled = self.path == (STUDIES / self.name).with_suffix(".yaml")
        return self.name if bundled else shlex.quote(str(self.path))

    @property
    def series(self) -> tuple[str, ...]:
        """Names of the series, in order."""
        return tuple(self.spec.series) or tuple(dict.fromkeys(cell.series for cell in self.cells))

    @property
    def configurations(self) -> dict[str, Configuration]:
        """The runs by content hash, those of alternatives too, each once."""
        cells = [*self.cells, *(cell for each in self.alternatives for cell in each.cells)]
        return {cell.configuration.entry.content_hash: cell.configuration for cell in cells}


def bundled_figures() -> dict[str, Path]:
    """Paths of the bundled figures by name, e.g. ``pd_ors/machines``; other YAML files are left out."""
    found = {path.relative_to(STUDIES).with_suffix("").as_posix(): path for path in STUDIES.glob("*/*.yaml")}
    return {name: path for name, path in sorted(found.items()) if has_figure(read_document(path))}


def find_figures(names: Sequence[str]) -> dict[str, Path]:
    """Paths of figures by name, in order, each once.

    Parameters
    ----------
    names : of bundled figures, of systems (all of its figures), paths of YAML files, or ``all``
    """
    bundled = bundled_figures()
    found: dict[str, Path] = {}
    for name in names:
        of_system = {each: path for each, path in bundled.items() if each.startswith(f"{name}/")}
        if is_profile_file(name):
            first = found.setdefault(Path(name).stem, Path(name))
            if first != Path(name):
                raise InvalidInputError(
                    f"{name}: has the name of {first}, and results are kept by it; rename one"
                )
        elif name == "all":
            found |= bundled
        elif of_system or name in bundled:
            found |= of_system or {name: bundled[name]}
        else:
            systems = dict.fromkeys(each.partition("/")[0] for each in bundled)
            raise UnknownNameError("figure", name, [*bundled, *systems, "all"])
    return found


def read_figure(
    name: str, path: Path, inputs: HashedInputs, data: Path | None = None, *, quick: bool = False
) -> Figure:
    """Read and check a figure file.

    Parameters
    ----------
    name : of the figure
    inputs : shared by figures, so that each file is read once
    data : folder of the files that the figure names under `data`
    quick : few jobs and the first seed
    """
    figure, content, places = _described(name, path, data)
    if figure.missing:
        return figure
    sweep = _placed(content, path.parent, places)
    figure = replace(figure, cells=tuple(_cells(sweep, sweep, figure, inputs)))
    if problems := list(_problems(figure)):
        raise InvalidScenarioError(problems_text(str(path), problems))
    if quick:
        assert isinstance(sweep, dict)
        few = [with_jobs(each, QUICK_JOBS) for each in sweep["workloads"]]
        small = {**sweep, "workloads": few, "seeds": [0]}
        return replace(figure, cells=tuple(_cells(small, small, figure, inputs)))
    alternatives = _alternatives(figure, content, places, inputs)
    return replace(figure, alternatives=tuple(alternatives))


def describe_figure(name: str, path: Path, data: Path | None = None) -> Figure:
    """Read a figure file without its runs, which take a second to check; see `read_figure`."""
    return _described(name, path, data)[0]


def _described(name: str, path: Path, data: Path | None) -> tuple[Figure, object, dict[str, Path | None]]:
    """The figure without its runs, its sweep, and the place of each file that it names under `data`."""
    content = read_document(path)
    given = content if isinstance(content, dict) else {}
    parts = (FigureSpec, AxisSpec, ValueAxisSpec, PublishedSpec, Choice, Changes)
    own = {key: given[key] for key in FIGURE_BLOCKS if key in given}
    blocks = parsed(_Blocks, own, str(path), parts)
    spec = blocks.figure
    content = without_figure(given)
    used = set(_file_names([content, given.get("choices")]))
    if unused := [f"figure.data.{each}: no run uses this file" for each in spec.data if each not in used]:
        raise InvalidScenarioError(problems_text(str(path), unused))
    places = {each: None if data is None else data / each for each in spec.data}
    missing = tuple(each for each, place in places.items() if place is None or not place.is_file())
    folders = (f"{path.parent}/", *([] if data is None else [f"{data}/"]))
    figure = Figure(
        name, path, spec, tuple(blocks.shape), (), folders, missing, choices=tuple(blocks.choices)
    )
    return figure, content, places


def _alternatives(
    figure: Figure, sweep: object, places: Mapping[str, Path | None], inputs: HashedInputs
) -> Iterator[Alternative]:
    """Yield the runs of each alternative, with the seeds that the tests of the largest check need."""
    every = [*named(figure.choices)]
    if not every:
        return
    assert isinstance(sweep, dict)
    xs = places_of(figure.cells)
    tests = [check.compare(Samples({}), figure.series, xs, lower=False) for check in figure.checks]
    most = max(sum(len(each.tests) for each in compared) for compared in tests)
    seeded = with_seeds(sweep, pairs_needed(most * len(every)))
    ours = _placed(seeded, figure.path.parent, places)
    own = tuple(_cells(ours, ours, figure, inputs))
    for choice, name, changes in every:
        theirs = _placed(changes.changed(seeded), figure.path.parent, places)
        cells = tuple(_cells(ours, theirs, figure, inputs))
        if all(
            one.configuration.entry.content_hash == other.configuration.entry.content_hash
            for one, other in zip(own, cells, strict=True)
        ):
            where = f"choices.{choice}.alternatives.{name}: changes no run"
            raise InvalidScenarioError(problems_text(str(figure.path), [where]))
        yield Alternative(choice, name, cells)


def _placed(content: object, folder: Path, data: Mapping[str, Path | None]) -> object:
    """The content with the place of each file, in the folder or of data, for its name."""
    if isinstance(content, dict):
        return {key: _placed(value, folder, data) for key, value in content.items()}
    if isinstance(content, list):
        return [_placed(value, folder, data) for value in content]
    if not isinstance(content, str) or is_url(content):
        return content
    name, at, changes = content.partition("@")  # of a cluster with other numbers of servers
    if not name.endswith(FILE_SUFFIXES):
        return content
    return f"{data.get(name) or folder / name}{at}{changes}"


def _file_names(content: object) -> Iterator[str]:
    """Yield the names of files in the content, as `_placed` replaces them."""
    if isinstance(content, dict | list):
        for each in content.values() if isinstance(content, dict) else content:
            yield from _file_names(each)
    elif isinstance(content, str) and content.partition("@")[0].endswith(FILE_SUFFIXES):
        yield content.partition("@")[0]


def _cells(sweep: object, changed: object, figure: Figure, inputs: HashedInputs) -> Iterator[Cell]:
    """Yield the runs of the changed sweep at their places in the sweep, which may be the same.

    Where some runs of a series have an x, those without one are left out.
    """
    spec, source = figure.spec, str(figure.path)
    found = combinations(sweep, source, inputs)
    others = found if changed is sweep else combinations(changed, source, inputs)
    if len(found) != len(others):
        problem = "choices: an alternative changes the number of runs"
        raise InvalidScenarioError(problems_text(source, [problem]))
    cells = [
        replace(cell, configuration=other)
        for each, other in zip(found, others, strict=True)
        for cell in cells_of([each], spec.x.of, spec.x.values, spec.series, figure.folders)
    ]
    with_x = {cell.series for cell in cells if not cell.everywhere}
    return (cell for cell in cells if not cell.everywhere or cell.series not in with_x)


def _problems(figure: Figure) -> Iterator[str]:
    """Yield problems of the blocks that show beside the runs."""
    xs = places_of(figure.cells)
    for name, wanted in figure.spec.series.items():
        if not any(cell.series == name for cell in figure.cells):
            yield f"figure.series.{name}: no run has {json.dumps(wanted)}"
    if not xs:
        yield f"figure.x.of: no run has the coordinate '{figure.spec.x.of}'"
        return
    places = dict.fromkeys(place(cell.coordinates, figure.spec.x.of) for cell in figure.cells)
    yield from (
        f"figure.x.values: no run of a series has {key!r}; they have {', '.join(map(str, places))}"
        for key in figure.spec.x.values
        if key not in places
    )
    seen: dict[object, Cell] = {}
    for cell in figure.cells:
        first = seen.setdefault((cell.series, cell.x, cell.seed), cell)
        if first is not cell:
            yield (
                f"figure: series '{cell.series}' has two runs at x {cell.x!r}, which differ in "
                f"{first.differs_in(cell)}; name that in `series`, or make two figures"
            )
            break
    yield from _mixed_seeds(figure.cells)
    for name, values in figure.spec.published.values.items():
        where = f"figure.published.values.{name}"
        if name not in figure.series:
            yield f"{where}: no such series; the figure has {', '.join(figure.series)}"
        yield from (
            f"{where}: no x {x!r}; the figure has {', '.join(map(str, xs))}" for x in values if x not in xs
        )
    for index, check in enumerate(figure.checks):
        where = f"shape[{index}].{check.statement}"
        try:
            check.compare(Samples({}), figure.series, xs, lower=False)
        except ValidationError as error:
            yield from dotted_problems(error, prefix=f"{where}.")
        except ValueError as error:
            yield f"{where}: {error}"


def _mixed_seeds(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the series and x that have a run without a seed beside runs with one."""
    places = dict.fromkeys((cell.series, cell.x) for cell in cells if cell.seed is None)
    mixed = dict.fromkeys((cell.series, cell.x) for cell in cells if cell.seed is not None)
    for series, x in (each for each in places if each in mixed):
        yield (
            f"figure: series '{series}' has at x {x!r} a run that depends on no seed and runs with seeds; "
            "tell them apart in `series`, or make two figures"
        )


def places_of(cells: Sequence[Cell]) -> list[X]:
    """The values of x of a figure, in order: numbers rising, names as they come; without runs at every x."""
    xs = list(dict.fromkeys(cell.x for cell in cells if not cell.everywhere))
    numbers = [x for x in xs if isinstance(x, int | float) and not isinstance(x, bool)]
    return [*sorted(numbers)] if len(numbers) == len(xs) else xs
