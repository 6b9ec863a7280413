"""Identity of a run: hashes of its inputs, resolved parameters, source and versions, and their hash."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl

from ray_sim import __version__
from ray_sim.engine.world_parameters import uses_seed
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.layer_file import load_workload_layers
from ray_sim.experiments.inputs.order_file import read_orders
from ray_sim.experiments.inputs.server_files import WORLD, ServerFiles, split_world, with_server_files
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.results.result_files import RESULT_FORMAT
from ray_sim.experiments.scenario import Scenario, Value, WorkloadSpec
from ray_sim.experiments.source_digest import code_sha256, input_files, input_files_sha256, policy_sha256
from ray_sim.model.cluster import Cluster, LinkChanges
from ray_sim.model.interference import InterferenceProfile
from ray_sim.model.measured_speeds import SpeedTable
from ray_sim.model.parameters import resolve
from ray_sim.model.units import IntArray
from ray_sim.policies.registry import create_policy
from workloads.announcements.profile import AnnouncementDraws
from workloads.files import require_file, sha256
from workloads.layers.fill import EnrichmentLayer
from workloads.provenance import Provenance
from workloads.schema import SCHEMA_VERSION
from workloads.store import read_frame, read_provenance
from workloads.stream import ArrivalOrder
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.training.profile import TrainingDraws

SHORT = 16
"""Number of characters of a content hash in a directory's name: 64 bits, enough for any store."""


_INPUT_DIGESTS = (
    "workload_sha256",
    "training_sha256",
    "announcement_sha256",
    "speeds_sha256",
    "layers_sha256",
    "order_sha256",
    "cluster_sha256",
    "policy_files_sha256",
)
_KINDS = {TrainingDraws: "training", AnnouncementDraws: "announcement", SpeedTable: "speeds"}
"""Begin of the digest's name of a profile."""
_CODE = ("code_sha256", "policy_source_sha256", "ray_sim", "result_format")
"""Facts about the code, which change while the scenario stays the same."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """A scenario and the facts that determine its result."""

    scenario: Scenario
    facts: Mapping[str, object]
    """Facts that determine the result; paths and the number of sites do not."""
    seed_free: bool
    """Whether every seed gives this result."""
    policy_params: Mapping[str, Value]
    """Parameters of the policy, with absolute paths: processes that run it may stand in other folders."""

    @property
    def content_hash(self) -> str:
        """SHA-256 over the canonical JSON of the facts."""
        return _sha256_json(self.facts)

    @property
    def scenario_hash(self) -> str:
        """SHA-256 of the facts that are not about code; results of other code share it."""
        return _sha256_json({key: fact for key, fact in self.facts.items() if key not in _CODE})

    @property
    def seed(self) -> int | None:
        """The seed; None where it has no effect."""
        return None if self.seed_free else self.scenario.seed

    def manifest(self) -> dict[str, object]:
        """Entries of manifest.json about the origin of the run."""
        scenario = self.scenario
        return {
            "content_hash": self.content_hash,
            "scenario_hash": self.scenario_hash,
            "code": {key: self.facts[key] for key in ("code_sha256", "policy_source_sha256")},
            "inputs": {
                "workload": scenario.workload.plain(),
                "cluster": scenario.cluster,
                **{key: self.facts[key] for key in _INPUT_DIGESTS if key in self.facts},
            },
            "policy": scenario.policy,
            "parameters": dict(scenario.params),
            "label": scenario.label,
            "world": dict(scenario.world),
            "partition": scenario.partition,
            "trim": scenario.trim and scenario.trim.model_dump(),
            "audit": scenario.audit and scenario.audit.model_dump(),
            "seed": self.seed,
            "seed_free": self.seed_free,
            "sites": scenario.sites,
            "fleet": scenario.fleet,
            "versions": versions(),
        }


@dataclass(frozen=True, slots=True)
class _PolicyFacts:
    parameters: Mapping[str, object]
    """All but those that name files."""
    files: Mapping[str, Path]
    files_sha256: Mapping[str, str]
    source_sha256: str | None
    uses_seed: bool


@dataclass(frozen=True, slots=True)
class Base:
    """Source of a workload before a seed is applied."""

    frame: pl.DataFrame | None
    """Null where all jobs are drawn."""
    made: Provenance | None
    """Provenance of the file's jobs, null without one."""
    draws: TrainingDraws | None
    """Profile to draw whole jobs from; None where none is given."""
    layers: tuple[EnrichmentLayer, ...]
    """Profiles to draw columns from, in order."""
    orders: Mapping[int, ArrivalOrder]
    """Orders of arrival by seed; empty unless a file has them."""


class HashedInputs:
    """Files and policies that scenarios name; each is read and hashed once."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}
        self._servers: dict[tuple[str, ServerFiles], Cluster] = {}
        self._whole_draws: dict[WorkloadSpec, TrainingDraws | None] = {}
        self._layers: dict[WorkloadSpec, tuple[EnrichmentLayer, ...]] = {}
        self._workload_digests: dict[str, str] = {}
        self._cluster_digests: dict[tuple[str, ServerFiles], str] = {}
        self._policies: dict[str, _PolicyFacts] = {}

    def cluster(self, ref: str) -> Cluster:
        """The cluster of a name or a path."""
        if ref not in self._clusters:
            self._clusters[ref] = load_cluster(ref)
        return self._clusters[ref]

    def whole_draws(self, spec: WorkloadSpec) -> TrainingDraws | None:
        """The training profile that whole jobs are drawn from; None without one."""
        if spec not in self._whole_draws:
            training = None if spec.synth is None else spec.synth.training
            self._whole_draws[spec] = None if training is None else load_training_draws(training)
        return self._whole_draws[spec]

    def layers(self, spec: WorkloadSpec) -> tuple[EnrichmentLayer, ...]:
        """The profiles that columns of a workload are drawn from, in order."""
        if spec not in self._layers:
            self._layers[spec] = load_workload_layers(spec) if spec.layers else ()
        return self._layers[spec]

    def orders(self, spec: WorkloadSpec) -> Mapping[int, ArrivalOrder]:
        """Orders of arrival that the workload names by file; empty for none."""
        if spec.stream is None or spec.stream.order is None:
            return {}
        return read_orders(spec.stream.order, spec.stream.pod_list)

    def base(self, spec: WorkloadSpec) -> Base:
        """The files of a workload, before a seed is applied; its rows are read at each call, and not kept."""
        return Base(
            frame=None if spec.file is None else read_frame(spec.file),
            made=None if spec.path is None else read_provenance(spec.path),
            draws=self.whole_draws(spec),
            layers=self.layers(spec),
            orders=self.orders(spec),
        )

    def servers(self, ref: str, world: Mapping[str, Value]) -> Cluster:
        """The cluster of a name or a path, with the facts of servers that the world names by file."""
        _, files = split_world(world)
        key = ref, files
        if key not in self._servers:
            self._servers[key] = with_server_files(self.cluster(ref), files)
        return self._servers[key]

    def workload_sha256(self, path: str) -> str:
        """SHA-256 of a workload file's bytes."""
        if path not in self._workload_digests:
            require_file(path)
            self._workload_digests[path] = sha256(path)
        return self._workload_digests[path]

    def cluster_sha256(self, ref: str, world: Mapping[str, Value]) -> str:
        """SHA-256 of the servers and of all facts about them; file names do not enter."""
        _, files = split_world(world)
        key = ref, files
        if key not in self._cluster_digests:
            self._cluster_digests[key] = _cluster_sha256(self.servers(ref, world))
        return self._cluster_digests[key]

    def identify(self, scenario: Scenario) -> RunIdentity:
        """Identify a scenario; errors of its policy, cluster and workload file pass through."""
        policy = self._policy(scenario)
        world, _ = split_world(resolve("the world", WORLD, scenario.world))
        seed_free = not (scenario.workload.uses_seed or policy.uses_seed or uses_seed(world))
        spec = scenario.workload
        workload: dict[str, object] = spec.model_dump(
            exclude={"path": True, "enrich": True, "synth": {"like", "feasible_only"}, "stream": {"order"}},
            exclude_none=True,
        )
        request = None if spec.synth is None else spec.synth.request
        if isinstance(request, HorizonRequest):  # training_sha256 below identifies the profile
            workload["synth"] = request.options()
        if spec.file is not None:
            workload["workload_sha256"] = self.workload_sha256(spec.file)
        if spec.stream is not None and spec.stream.order is not None:
            workload["order_sha256"] = self.workload_sha256(spec.stream.order)
        if (draws := self.whole_draws(spec)) is not None:
            workload["training_sha256"] = draws.sha256
        workload |= _layer_facts(spec, self.layers(spec))
        facts = {
            **workload,
            "cluster_sha256": self.cluster_sha256(scenario.cluster, scenario.world),
            "policy": scenario.policy,
            "policy_source_sha256": policy.source_sha256,
            "parameters": policy.parameters,
            "world": world,
            "partition": scenario.partition,
            "trim": scenario.trim and scenario.trim.model_dump(),
            "audit": scenario.audit and scenario.audit.model_dump(),
            "seed": None if seed_free else scenario.seed,
            "code_sha256": code_sha256(),
            "ray_sim": __version__,
            "result_format": RESULT_FORMAT,
            "workload_schema": SCHEMA_VERSION,
        }
        if policy.files_sha256:
            facts["policy_files_sha256"] = policy.files_sha256
        given = [
            name for name, value in scenario.params.items() if name in policy.files and value is not None
        ]
        absolute = {name: str(policy.files[name].absolute()) for name in given}
        return RunIdentity(scenario, facts, seed_free, {**scenario.params, **absolute})

    def _policy(self, scenario: Scenario) -> _PolicyFacts:
        key = json.dumps([scenario.policy, scenario.params])
        if key not in self._policies:
            policy = create_policy(scenario.policy, scenario.params)
            values = resolve(scenario.policy, policy.parameters, scenario.params)
            files = input_files(policy)
            self._policies[key] = _PolicyFacts(
                {name: value for name, value in values.items() if name not in files},
                files,
                input_files_sha256(policy),
                policy_sha256(type(policy)),
                policy.draws,
            )
        return self._policies[key]


def _layer_facts(spec: WorkloadSpec, layers: Sequence[EnrichmentLayer]) -> dict[str, object]:
    """Facts about the profiles that columns are drawn from; their names and places do not enter."""
    options = [each.model_dump(exclude={"profile"}) for each in spec.layers]
    if len(layers) > 1:
        return {"enrich": options, "layers_sha256": [layer.draws.sha256 for layer in layers]}
    facts: dict[str, object] = {}
    for layer, given in zip(layers, options, strict=True):
        facts = {"enrich": given, f"{_KINDS[type(layer.draws)]}_sha256": layer.draws.sha256}
    return facts


def _cluster_sha256(cluster: Cluster) -> str:
    return _sha256_json(
        {
            "servers": cluster.server_names,
            "resources": cluster.resources,
            "capacity": cluster.capacity.tolist(),
            "speed": cluster.speed.tolist(),
            "vc": cluster.vc,
            "kind": [str(kind) for kind in cluster.kind],
            "gpu_type": cluster.gpu_type,
            "availability": None
            if cluster.availability is None
            else [column.tolist() for column in astuple(cluster.availability)],
            "workers": cluster.worker_slots.tolist(),
            "ps": cluster.ps_slots.tolist(),
            "worker_memory": _as_list(cluster.worker_memory),
            "ps_memory": _as_list(cluster.ps_memory),
            "sockets": _as_list(cluster.sockets),
            "interference": None if cluster.interference is None else _content(cluster.interference),
            "links": None if cluster.links is None else _content(cluster.links),
            **({} if cluster.delays is None else {"delays": cluster.delays, "class": cluster.server_class}),
            **{
                name: [asdict(each) for each in given]
                for name, given in (("classes", cluster.classes), ("teams", cluster.teams))
                if given
            },
            **({} if cluster.speeds is None else {"speeds": cluster.speeds.sha256}),
            **({} if cluster.fragmentation_target is None else {"target": cluster.fragmentation_target}),
        }
    )


def _content(record: InterferenceProfile | LinkChanges) -> list[object]:
    """The fields of a record, in order, with arrays as lists."""
    return [field.tolist() if isinstance(field, np.ndarray) else field for field in astuple(record)]


def _as_list(column: IntArray | None) -> list[int] | None:
    return None if column is None else column.tolist()


@cache
def versions() -> dict[str, str]:
    """Versions needed to reproduce the same bytes; scipy includes HiGHS."""
    packages = {name: version(name) for name in ("numpy", "numba", "polars", "scipy")}
    return {"python": platform.python_version(), "ray_sim": __version__, **packages}


def _sha256_json(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
