"""The manifest for KubeRay against the structure that KubeRay publishes; no cluster has run it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ray_sim.cli.app import application
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep_file import parse_sweep
from tests.conftest import REPOSITORY

POD = {"spec": dict}
GROUP = {"rayStartParams": dict, "template": dict}
RAY_CLUSTER = {"headGroupSpec": dict}
WORKERS = GROUP | {"groupName": str, "minReplicas": int, "maxReplicas": int}
"""Required fields, with their types. Source: the Go types of ray.io/v1 in KubeRay's repository,
`ray-operator/apis/ray/v1/raycluster_types.go` at 3275ee0 and `rayjob_types.go` at f6ef3f7, where a field
without `omitempty` is required."""
OPTIONAL: Mapping[str, dict[str, type]] = {
    "job": {
        "activeDeadlineSeconds": int,
        "backoffLimit": int,
        "entrypoint": str,
        "entrypointNumCpus": int,
        "rayClusterSpec": dict,
        "runtimeEnvYAML": str,
        "shutdownAfterJobFinishes": bool,
        "submissionMode": str,
        "suspend": bool,
        "ttlSecondsAfterFinished": int,
    },
    "cluster": {
        "authOptions": dict,
        "enableInTreeAutoscaling": bool,
        "rayVersion": str,
        "workerGroupSpecs": list,
    },
    "workers": {"replicas": int, "numOfHosts": int},
}
"""Fields that a manifest may have: those of the same types that a sweep may need."""


def _faults(
    found: object, place: str, required: Mapping[str, type], optional: Mapping[str, type]
) -> Iterator[str]:
    """Yield the fields that the API server would refuse: missing, unknown or of another type."""
    if not isinstance(found, dict):
        yield f"{place}: not a mapping"
        return
    yield from (f"{place}.{name}: missing" for name in required.keys() - found.keys())
    known = {**required, **optional}
    for name, value in found.items():
        if name not in known:
            yield f"{place}.{name}: unknown"
        elif type(value) is not known[name]:
            yield f"{place}.{name}: {type(value).__name__}"


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    text = (REPOSITORY / "jobs/kuberay/rayjob.yaml").read_text()
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def cluster(documents: dict[str, Any]) -> Any:
    return documents["RayJob"]["spec"]["rayClusterSpec"]


def test_its_fields_are_those_of_the_api(documents: dict[str, Any], cluster: Any) -> None:
    job = documents["RayJob"]
    assert job["apiVersion"] == "ray.io/v1"
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,45}[a-z0-9])?", job["metadata"]["name"])
    faults = [
        *_faults(job, "", {"apiVersion": str, "kind": str, "metadata": dict, "spec": dict}, {}),
        *_faults(job["spec"], "spec", {}, OPTIONAL["job"]),
        *_faults(cluster, "rayClusterSpec", RAY_CLUSTER, OPTIONAL["cluster"]),
        *_faults(cluster["headGroupSpec"], "headGroupSpec", GROUP, {}),
    ]
    for workers in cluster["workerGroupSpecs"]:
        faults += _faults(workers, "workerGroupSpecs", WORKERS, OPTIONAL["workers"])
        assert 0 <= workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        faults += _faults(group["template"], "template", POD, {"metadata": dict})
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    assert faults == []
    # KubeRay refuses a time to live without a shutdown, and a job without a command.
    assert job["spec"]["shutdownAfterJobFinishes"]
    assert job["spec"]["entrypoint"]


def test_ray_is_that_of_the_lock(cluster: Any) -> None:
    [locked] = re.findall(r"^ray==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)
    assert cluster["rayVersion"] == locked


def test_every_service_of_its_cluster_wants_a_token(cluster: Any) -> None:
    assert cluster["authOptions"] == {"mode": "token"}
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["rayStartParams"] == {}  # none opens a service


def test_its_volumes_are_defined_and_its_pods_ask_for_what_they_may_use(
    documents: dict[str, Any], cluster: Any
) -> None:
    claim = ("PersistentVolumeClaim", "claimName")
    kinds = {"configMap": ("ConfigMap", "name"), "persistentVolumeClaim": claim}
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == 1000
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        for name, volume in volumes.items():
            [source] = volume.keys() - {"name"}
            kind, key = kinds[source]
            assert volume[source][key] == documents[kind]["metadata"]["name"], name
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes.keys()
            # Ray takes the limits for what a pod has, so that pods must be given them.
            assert container["resources"]["requests"] == container["resources"]["limits"]


def test_its_command_is_a_command_and_its_sweep_a_sweep(documents: dict[str, Any]) -> None:
    program, name, sweep, *options = shlex.split(documents["RayJob"]["spec"]["entrypoint"])
    assert program == "ray-sim"
    command = typer.main.get_group(application()).commands[name]
    known = {each for option in command.params for each in option.opts}
    assert {option for option in options if option.startswith("-")} <= known
    content = yaml.safe_load(documents["ConfigMap"]["data"][Path(sweep).name])
    assert len(parse_sweep(content, sweep, HashedInputs()).configurations) == 60
