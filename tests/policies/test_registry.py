from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ray_sim import Simulation, build_world
from ray_sim.contract.subject import Subject
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, RaySimError, UnknownNameError
from ray_sim.policies.fifo import Fifo
from ray_sim.policies.registry import (
    BUILT_IN,
    PolicyInfo,
    create_policy,
    describe_policy,
    policy_class,
    policy_infos,
)
from tests.command_line import answer, python
from tests.required import new_policy
from tests.worlds import Job, replay, times_of, world_of

Module = Callable[[str, str], None]

NEWEST_FIRST = '''
from ray_sim import Decision, Parameter, Policy

class NewestFirst(Policy):
    """Starts the newest waiting job on the first server, one at a time."""

    parameters = (Parameter("at_most", "int", 1, "jobs that run at a time", minimum=1),)

    def __init__(self, at_most=1):
        self.at_most = at_most

    def decide(self, view):
        if len(view.running) >= self.at_most or len(view.waiting) == 0:
            return Decision()
        return Decision.of({int(view.waiting[-1]): [(0, 0, 1)]})

class NoPolicy:
    pass

class Undecided(Policy):
    pass
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """Write modules of a user's own in a working directory."""
    monkeypatch.chdir(tmp_path)
    # The search path is as before when the test is over, whatever is added to it meanwhile.
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)

    return write


def test_the_built_in_policies_are_listed_in_order_with_their_parameters() -> None:
    infos = {info.name: info for info in policy_infos()}
    assert list(infos)[:4] == ["fifo", "sjf", "srtf", "las"]
    of_fifo = [parameter.name for parameter in infos["fifo"].parameters]
    assert of_fifo == ["placement", "backfill", "no_room", "priority", "type"]
    for info in infos.values():
        record = info.to_dict()
        assert record["name"] == info.name
        assert record["summary"]


def test_parameters_are_parsed_and_checked() -> None:
    assert isinstance(create_policy("fifo", {"backfill": "true"}), Fifo)
    with pytest.raises(InvalidScenarioError, match="parameters of policy fifo: 1 problem"):
        create_policy("fifo", {"placement": "anywhere"})
    with pytest.raises(UnknownNameError, match="Did you mean 'backfill'"):
        create_policy("fifo", {"backfil": True})


def test_a_policy_of_ones_own_comes_from_a_file_in_the_working_directory(module: Module) -> None:
    module("newest_first_policy", NEWEST_FIRST)
    policy = create_policy("newest_first_policy:NewestFirst", {"at_most": "1"})
    # J1 0-5; of J2 and J3, which came meanwhile, the newer first: 5-10, then 10-15.
    times = times_of(replay(world_of([Job(0, 1, 5), Job(1, 1, 5), Job(2, 1, 5)], [2]), policy))
    assert times == {"J1": (0, 5), "J3": (5, 10), "J2": (10, 15)}
    info = describe_policy("newest_first_policy:NewestFirst")
    assert (info.name, info.summary) == (
        "NewestFirst", "Starts the newest waiting job on the first server, one at a time.",
    )  # fmt: skip
    with pytest.raises(InvalidScenarioError, match=r"at_most: must be at least 1, at most .*, got 0"):
        create_policy("newest_first_policy:NewestFirst", {"at_most": 0})


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("Tiresias", r"unknown policy 'Tiresias'\. Did you mean 'las'\?"),
        ("FIFO", r"unknown policy 'FIFO'\. Did you mean 'fifo'\?"),
        ("fif0", r"unknown policy 'fif0'\. Did you mean 'fifo'\? Known: a_online, allox, announced_fifo, "),
        ("newest_first_policy:NewestFist", r"'NewestFist'\. Did you mean 'NewestFirst'\?"),
        ("newest_first_policy:NoPolicy", "policy 'newest_first_policy:NoPolicy' is not a subclass"),
        ("newest_first_policy:Decision", "policy 'newest_first_policy:Decision' is not a subclass"),
        ("newest_first_policy:Undecided", "cannot be constructed: .*decide"),
        ("nowhere_at_all:Policy", "cannot import nowhere_at_all .*working directory"),
        *((ref, "") for ref in (":Policy", "os:", "os:path:join", ".relative:Policy", "")),
    ],
)
def test_a_reference_that_names_no_policy_is_refused(module: Module, ref: str, text: str) -> None:
    module("newest_first_policy", NEWEST_FIRST)
    with pytest.raises(InvalidInputError, match=text):
        create_policy(ref)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("dividing_policy", "1 / 0", "ZeroDivisionError: division by zero"),
        ("garbled_policy", "def (", "SyntaxError"),
        ("needy_policy", "import nowhere_at_all", "cannot import needy_policy"),
        ("quitting_policy", "import sys; sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_that_fails_is_refused_with_what_it_raised(
    module: Module, name: str, text: str, problem: str
) -> None:
    module(name, text)
    with pytest.raises(InvalidInputError, match=problem):
        policy_class(f"{name}:Policy")


@pytest.mark.parametrize("info", policy_infos(), ids=lambda info: info.name)
def test_a_world_with_what_a_policy_needs_is_one_that_it_schedules(info: PolicyInfo) -> None:
    busy = Subject(partial(new_policy, info.name)).busy(2)  # whose jobs have a form in every truth
    options = dict(text.split("=") for text in re.findall(r"-w (\S+)", info.needs))
    policy = new_policy(info.name)
    simulation = Simulation(build_world(busy.table, busy.cluster, params=options), policy)
    policy.start(simulation.world, simulation.streams)
    view = simulation.advance()
    assert view is not None
    simulation.apply(policy.decide(view))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["las", "chunk_spt", "drf", "lif_quad", "optimus", "pd_ors", "value_density"]
)
def test_what_the_list_says_is_all_there_is_to_type(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    info = describe_policy(name)
    answer(capsys, "synth", "philly", "-n", "12", "--seed", "1", "-o", "w.parquet")
    cluster = "edge-cloud" if "chunked" in info.jobs else "pool-368"
    where = ["--workload", "w.parquet", "--cluster", cluster, "-o", "out"]
    assert answer(capsys, "run", *where, "--policy", name, *shlex.split(info.needs))["directory"] == "out"


def test_kinds_of_jobs_are_told() -> None:
    jobs = {info.name: info.jobs for info in policy_infos()}
    assert (jobs["las"], jobs["optimus"], jobs["a_online"]) == (
        ("rigid", "elastic", "measured"),
        ("elastic",),
        ("chunked",),
    )


CARELESS = """
from ray_sim.policy_api import Decision, ElasticPolicy, Policy

class Typo(Policy):
    sees = frozenset({"durations_s"})
    def decide(self, view):
        return Decision()

class Contradicts(ElasticPolicy):
    elastic = False
    def decide(self, view):
        return Decision()

class GivesADict(Policy):
    def decide(self, view):
        return Decision(changes={0: [(0, 0, 1)]})

class ReadsNothing(Policy):
    def decide(self, view):
        return self.first(view)

    def first(self, view):
        return view.waitin[0]

"""


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("careless:Typo", r"sees 'durations_s'\. Did you mean 'duration_s'\?"),
        ("./careless.py:Typo", "names a file; give its module, from its folder: careless:Typo"),
        (
            "careless.py",
            "names a file; give its module, from its folder: careless:Typo or careless:Contradicts",
        ),
        ("none.py", "names a file; give its module, from its folder: none:CLASS"),
    ],
)
def test_a_wrong_reference_or_declaration_is_refused_with_the_mend(
    module: Module, ref: str, text: str
) -> None:
    module("careless", CARELESS)
    with pytest.raises(InvalidInputError, match=text):
        create_policy(ref)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("GivesADict", r"changes is dict; expected Changes or None; Decision\.of\(.*makes them"),
        ("ReadsNothing", r"view\.waitin, which no view has; .*careless\.py, line 23, in first\)"),
    ],
)
def test_a_mistake_in_a_run_names_the_policys_own_line_or_the_mend(
    module: Module, name: str, text: str
) -> None:
    module("careless", CARELESS)
    with pytest.raises(RaySimError, match=text):
        replay(world_of([Job(0, 1, 5)], [1]), create_policy(f"careless:{name}"))


def test_built_in_policies_are_listed_by_their_own_names() -> None:
    assert [policy_class(name).name for name in BUILT_IN] == list(BUILT_IN)


@pytest.mark.slow
def test_a_policy_imports_no_other() -> None:
    program = "import sys; from ray_sim.policies.registry import create_policy; create_policy('fifo'); "
    program += "print(*(name for name in sys.modules if name.startswith('ray_sim.policies.')))"
    imported = [name.removeprefix("ray_sim.policies.") for name in python("-c", program).split()]
    assert imported == ["registry", "shared", "shared.class_first", "fifo"]
