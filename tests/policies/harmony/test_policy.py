"""The policy harmony: which worlds it takes, what it does there, the same bytes on any sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ray_sim.contract.elastic_worlds import busy_elastic, failing_elastic
from ray_sim.contract.rigid_worlds import busy_world
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, RaySimError
from ray_sim.model.job import Exchange
from ray_sim.model.streams import Streams
from ray_sim.policies.harmony.architecture import Form, Parameters
from ray_sim.policies.harmony.checkpoint import Checkpoint, Header, parse_checkpoint
from ray_sim.policies.harmony.policy import BUNDLED, Harmony
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.harmony_states import untrained
from tests.training import profile
from tests.worlds import DOWN, UP, availability

BUNDLED_HEADER = parse_checkpoint(BUNDLED.read_bytes(), "bundled").header


def saved(folder: Path, changes: Mapping[str, object], seed: int = 0) -> str:
    """File of a network that differs from the bundled one in its header."""
    header = Header.model_validate({**BUNDLED_HEADER.model_dump(), **changes})
    path = folder / "network.npz"
    path.write_bytes(untrained(header, Streams(seed)).to_bytes())
    return str(path)


def written(path: Path, header: Header, parameters: Parameters) -> str:
    """File of a network with these weights."""
    path.write_bytes(Checkpoint(header, parameters).to_bytes())
    return str(path)


def dense(folder: Path, servers: int) -> str:
    return saved(
        folder, {"form": Form.DENSE, "servers": servers, "most_jobs": 12, "most_new": 4, "hidden": [32]}
    )


def test_the_bundled_network_completes_every_job_it_places() -> None:
    jobs = run_world(busy_elastic(60), Harmony()).jobs
    assert set(jobs["status"]) == {"completed"}
    assert jobs["restarts"].sum() == jobs["preemptions"].sum() == 0


def test_another_network_decides_otherwise(tmp_path: Path) -> None:
    world = busy_elastic(40)
    one, other = Harmony(), Harmony(saved(tmp_path, {}, seed=1))
    assert not run_world(world, one).events.equals(run_world(world, other).events)


@pytest.mark.parametrize("form", [Form.SHARED, Form.DENSE])
def test_runs_are_the_same_on_any_sites_and_restored(form: Form, tmp_path: Path) -> None:
    world = failing_elastic(40, 1)
    file = dense(tmp_path, len(world.cluster)) if form is Form.DENSE else str(BUNDLED)
    expected = run_world(world, Harmony(file))
    for sites in (2, 5):
        found = run_world(world, Harmony(file), sites=sites)
        assert found.jobs.equals(expected.jobs)
        assert found.events.equals(expected.events)


def test_more_new_jobs_than_rows_come_in_batches_in_order_of_arrival(tmp_path: Path) -> None:
    """Nine jobs at once, three rows: all fit, so all are placed in one decision of three batches."""
    jobs = [profile(num_workers=1, num_ps=1)] * 9
    world = with_models(elastic_world([0.0] * 9, jobs, [6.0, 6.0, 6.0], {"slot_s": 10}))
    network = Harmony(saved(tmp_path, {"most_jobs": 3, "most_new": 3}))
    starts = run_world(world, network).jobs["start_s"]
    assert starts.to_list() == [0.0] * 9
    assert network.counts() == {"jobs_balanced": 0}


def with_models(world: World, models: tuple[str, ...] = ("ctc", "vgg-16")) -> World:
    """The world with models of jobs in turn."""
    training = world.table.training
    assert training is not None
    training = replace(training, model=np.arange(len(world.table)) % len(models), model_names=models)
    return build_world(
        replace(world.table, training=training),
        world.cluster,
        partition=world.partition,
        params=world.params,
    )


def interleaving(folder: Path) -> str:
    """A network that places a worker of every new job before the second of any: it prefers few workers."""
    header = Header.model_validate({**BUNDLED_HEADER.model_dump(), "block": 1, "hidden": [1]})
    found = untrained(header, Streams(0))
    parameters = {name: np.zeros_like(array) for name, array in found.parameters.items()}
    parameters["job.weight"][-2] = 1
    parameters["hidden_0.weight"][0] = 1
    parameters["scores.weight"][0] = [-1, -2]
    return written(folder / "interleaving.npz", header, parameters)


def test_jobs_that_a_network_never_completes_on_idle_servers_are_placed_by_load_balancing(
    tmp_path: Path,
) -> None:
    """Two jobs of 3 workers on 4 GPUs: the network gives each 2 workers, for ever; the servers stay idle.

    Load balancing places the first; when it has ended, only the second is there, and the network places it.
    """
    jobs = [profile(num_workers=3, num_ps=0, exchange=Exchange.ALL_REDUCE)] * 2
    world = with_models(elastic_world([0.0, 0.0], jobs, [2.0, 2.0], {"slot_s": 10}))
    network = Harmony(interleaving(tmp_path))
    result = run_world(world, network)
    assert result.jobs["status"].to_list() == ["completed"] * 2
    assert result.jobs["start_s"][1] >= result.jobs["finish_s"][0]
    assert network.counts() == {"jobs_balanced": 1}


def test_a_job_that_demands_nothing_waits_for_a_server() -> None:
    """The only server is away from 0 to 35 s: a job without demand starts at the next slot."""
    free = replace(
        profile(num_workers=1, num_ps=0, exchange=Exchange.ALL_REDUCE), worker_demand=np.array([[0]])
    )
    world = with_models(elastic_world([0.0], [free], [1.0], {"slot_s": 10}))
    cluster = replace(world.cluster, availability=availability([(0.0, 0, DOWN), (35.0, 0, UP)]))
    failing = build_world(world.table, cluster, params=world.params)
    assert run_world(failing, Harmony()).jobs["start_s"].to_list() == [40.0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": ["ctc"]}, "model vgg-16: it knows ctc"),
        ({"resources": ["gpu"]}, "resource cpu: it knows gpu"),
        ({"form": "dense", "servers": 3}, "servers: the world has 7, and this network is for 3; one of form"),
    ],
)
def test_a_network_for_another_world_is_refused(
    changes: Mapping[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidScenarioError) as refusal:
        run_world(busy_elastic(5), Harmony(saved(tmp_path, changes)))
    assert said in str(refusal.value)
    assert "-p checkpoint=FILE" in str(refusal.value)


def test_jobs_without_a_model_are_refused() -> None:
    nameless = elastic_world([0.0, 0.0], [profile()] * 2, [4.0], {"slot_s": 10})
    with pytest.raises(InvalidScenarioError, match="2 jobs have no model, the first in row 0"):
        run_world(nameless, Harmony())


def test_unknown_models_are_placed_as_by_a_network_that_ignores_types(tmp_path: Path) -> None:
    """The first rows of the block of a job are those of the types: 0 in one network, foreign in the other."""
    world = busy_elastic(40)
    header = BUNDLED_HEADER.model_copy(update={"models": ["foreign"]})
    foreign = untrained(header, Streams(3)).parameters
    types = len(BUNDLED_HEADER.models)
    rows = np.zeros((types, foreign["job.weight"].shape[1]), dtype=np.float32)
    ignoring = {**foreign, "job.weight": np.concatenate([rows, foreign["job.weight"][1:]])}
    one = written(tmp_path / "foreign.npz", header, foreign)
    other = written(tmp_path / "ignoring.npz", BUNDLED_HEADER, ignoring)
    with pytest.raises(InvalidScenarioError, match="-p unknown_models=blank shows such jobs without a type"):
        run_world(world, Harmony(one))
    events = run_world(world, Harmony(one, unknown_models="blank")).events
    assert events.equals(run_world(world, Harmony(other)).events)
    assert not events.equals(run_world(world, Harmony()).events)


def test_where_no_job_has_a_model_there_are_no_blank_types() -> None:
    world = elastic_world([0.0], [profile()], [2.0], {"slot_s": 10})
    with pytest.raises(InvalidScenarioError, match="no job has a model; `ray-sim enrich` draws models"):
        run_world(world, Harmony(unknown_models="blank"))


def test_a_model_with_a_line_end_in_its_name_stays_in_one_line_of_an_error() -> None:
    world = with_models(elastic_world([0.0], [profile()], [2.0], {"slot_s": 10}), ("ctc\n  all is well",))
    with pytest.raises(InvalidScenarioError) as refusal:
        run_world(world, Harmony())
    assert r"  model ctc\n  all is well: it knows" in str(refusal.value)


def test_blank_types_change_nothing_where_all_models_are_known() -> None:
    world = busy_elastic(40)
    blank = run_world(world, Harmony(unknown_models="blank"))
    assert blank.events.equals(run_world(world, Harmony()).events)


def test_rigid_jobs_are_refused() -> None:
    with pytest.raises(RaySimError, match="truth"):
        Simulation(busy_world(5), Harmony())


def test_a_file_that_is_not_there_or_no_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"checkpoint=no\.npz: cannot be read"):
        run_world(busy_elastic(5), Harmony("no.npz"))
    (tmp_path / "text.npz").write_text("weights")
    with pytest.raises(InvalidInputError, match=r"checkpoint=.*text\.npz: is no intact \.npz file"):
        run_world(busy_elastic(5), Harmony(str(tmp_path / "text.npz")))


@pytest.mark.parametrize("form", [Form.SHARED, Form.DENSE])
@pytest.mark.parametrize("signs", [(1.0,), (-1.0,), (-1.0, 1.0)], ids=["above", "below", "both"])
def test_weights_that_overflow_are_the_fault_of_the_checkpoint(
    signs: tuple[float, ...], form: Form, tmp_path: Path
) -> None:
    """Finite weights of 3e38, whose sums are infinite, or no numbers where signs differ."""
    world = busy_elastic(5)
    file = dense(tmp_path, len(world.cluster)) if form is Form.DENSE else str(BUNDLED)
    trained = parse_checkpoint(Path(file).read_bytes(), "file")
    draw = np.random.default_rng(0)
    large = {
        name: draw.choice(np.array(signs, dtype=np.float32) * np.float32(3e38), array.shape)
        for name, array in trained.parameters.items()
    }
    if len(signs) == 1:  # blocks are above 0, and the last layer decides the sign
        last = list(large)[-2:]
        large = {name: array if name in last else np.abs(array) for name, array in large.items()}
    path = written(tmp_path / "large.npz", trained.header, large)
    with pytest.raises(InvalidInputError, match=r"checkpoint=.*large\.npz: the network rates an action by"):
        run_world(world, Harmony(path))


def test_the_content_of_the_checkpoint_is_part_of_the_identity_of_a_run(tmp_path: Path) -> None:
    def identity(checkpoint: str | None) -> str:
        params = {} if checkpoint is None else {"checkpoint": checkpoint}
        content = {
            "workload": {"synth": {"profile": "harmony_types", "jobs": 3, "horizon_s": 3600}},
            "cluster": "edge-cloud",
            "policy": "harmony",
            "params": params,
            "world": {"truth": "placement", "slot_s": 600},
            "seed": 0,
        }
        return HashedInputs().identify(Scenario.model_validate(content)).content_hash

    copy = tmp_path / "copy.npz"
    copy.write_bytes(BUNDLED.read_bytes())
    assert identity(None) == identity(str(copy))
    assert identity(None) != identity(saved(tmp_path, {}, seed=1))


def test_create_policy_takes_the_checkpoint_by_name() -> None:
    assert create_policy("harmony", {"checkpoint": "x.npz"}).input_files() == {"checkpoint": Path("x.npz")}
