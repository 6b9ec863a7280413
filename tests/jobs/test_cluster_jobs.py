"""Jobs on a running Ray cluster, as `ray job submit` and `--address ray://` bring them there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from ray._private.utils import check_version_info

from ray_sim.experiments.fanout.connection import refusal
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.result_files import read_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.experiments.tracking.log import log_stores
from tests.patience import until
from tests.ray_nodes import REPOSITORY, Cluster, environment, free_ports, head, kernel_cache, ray_command

pytestmark = [pytest.mark.ray, pytest.mark.slow]

IP = "127.0.0.3"
WORKLOAD = {"synth": {"profile": "philly", "jobs": 20}}
SEEDS = 3
LIMIT_BYTES = 8_000_000
"""Of working directories on the cluster here; Ray's own limit is 512 MiB."""

CODE = ("ray_sim", "workloads", "cluster_specs", "jobs")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all sides see, with sweep.yaml of fifo and sjf on jobs of three seeds."""
    directory = tmp_path_factory.mktemp("shared")
    _write_sweep(directory, "sjf")
    return directory


def _write_sweep(directory: Path, policy: str) -> None:
    content = {"name": "job", "workloads": [WORKLOAD], "clusters": ["edge-cloud"]}
    choice = {"policies": ["fifo", policy], "seeds": {"count": SEEDS}}
    (directory / "sweep.yaml").write_text(yaml.safe_dump({**content, **choice}))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with compiled kernels, those of the sweep among them, in which no other process writes."""
    folder = tmp_path_factory.mktemp("kernels")
    with suppress(shutil.Error):  # other processes remove files that they replace meanwhile
        shutil.copytree(kernel_cache() / "ray_sim-kernels", folder / "ray_sim-kernels")
    for policy in ("fifo", "sjf"):
        content = {"workload": WORKLOAD, "cluster": "edge-cloud", "policy": policy}
        (folder / "scenario.yaml").write_text(yaml.safe_dump(content))
        run = _ray_sim(folder, "run", "scenario.yaml", "-o", policy, NUMBA_CACHE_DIR=str(folder))
        assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def cluster(desk: Path, kernels: Path) -> Iterator[Cluster]:
    """A head with a dashboard, which is given its code by those who come."""
    limited = {
        "PYTHONPATH": "",
        "RAY_max_grpc_message_size": str(LIMIT_BYTES),
        "NUMBA_CACHE_DIR": str(kernels),
    }
    with head(desk, IP, dashboard=True, variables=limited) as started:
        yield started


def _submit(cluster: Cluster, project: Path, *entrypoint: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ray_command(), "job", "submit", "--working-dir", ".", "--", *entrypoint],
        cwd=project,
        env={**cluster.environment, "RAY_ADDRESS": cluster.dashboard},
        capture_output=True,
        text=True,
        check=False,
    )


def _ray_sim(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of `ray-sim` in a process of its own, without other clusters in its environment."""
    return subprocess.run(
        [sys.executable, "-m", "ray_sim.cli", *arguments],
        cwd=directory,
        env={**environment(directory / "token"), "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def _compiled(kernels: Path) -> dict[str, int]:
    """Files of compiled kernels, and when they were written."""
    return {str(path): path.stat().st_mtime_ns for path in kernels.rglob("*.kernel")}


def _check_results(store: ResultStore) -> None:
    """All results of the sweep are there, and each is that of a run alone."""
    _, entries = store.read_plan()
    assert len(entries) == 2 * SEEDS
    for entry in entries:
        content = {"workload": WORKLOAD, "cluster": "edge-cloud", "policy": "fifo", "seed": entry.seed}
        if entry.policy == "sjf":
            content["policy"] = "sjf"
        alone = prepare(parse_scenario(content, "alone")).run().result
        assert read_result(store.run_directory(entry.content_hash)).jobs.equals(alone.jobs)


@pytest.mark.long
def test_a_submitted_sweep_is_what_runs_alone_give_and_compiles_nothing(
    cluster: Cluster, kernels: Path, desk: Path
) -> None:
    compiled = _compiled(kernels)
    arguments = [str(desk / "sweep.yaml"), "-o", str(desk / "submitted")]
    ended = _submit(cluster, REPOSITORY, "python", "jobs/sweep.py", *arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "6 of 6" in ended.stdout
    _check_results(ResultStore(desk / "submitted"))
    unpacked = cluster.directory.glob("session_2*/runtime_resources/working_dir_files/_ray_pkg_*/")
    (project,) = unpacked
    assert (
        sum(path.stat().st_size for path in project.rglob("*")) < LIMIT_BYTES
    )  # no environment, results, history
    assert compiled
    assert _compiled(kernels) == compiled


@pytest.mark.long
def test_a_job_brings_policies_of_its_own_within_limits_and_loses_nothing_with_its_directory(
    cluster: Cluster, desk: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    for folder in CODE:
        shutil.copytree(REPOSITORY / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "mine.py").write_text(
        "from ray_sim.policies.fifo import Fifo\n\n\nclass Mine(Fifo):\n    name = 'mine'\n"
    )
    _write_sweep(project, "mine:Mine")
    deaf = f"MLFLOW_TRACKING_URI=http://127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"
    script = [
        f"export {deaf} MLFLOW_HTTP_REQUEST_MAX_RETRIES=0",
        "python jobs/sweep.py sweep.yaml",
        f"python jobs/sweep.py sweep.yaml -o {desk / 'unlogged'}",
        f"python jobs/run.py scenario.yaml --fleet actors --sites 2 -o {desk / 'run'}",
        f"python jobs/run.py --cluster edge-cloud --workload none.parquet -o {desk / 'none'}",
    ]
    alone = {"workload": WORKLOAD, "cluster": "edge-cloud"}
    (project / "scenario.yaml").write_text(yaml.safe_dump(alone))
    (project / "all.sh").write_text("\n".join(script))
    (project / "trace.raw").write_bytes(os.urandom(LIMIT_BYTES))
    refused = _submit(cluster, project, "bash", "all.sh")
    assert refused.returncode == 1
    assert "exceeds the maximum size" in refused.stderr
    assert ".rayignore" in refused.stderr
    (project / ".rayignore").write_text("*.raw\n")
    ended = _submit(cluster, project, "bash", "all.sh")
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout
    assert (
        "job: is deleted with the working directory of this job; name a directory that stays" in ended.stdout
    )
    assert "Connection refused" in ended.stdout
    assert "the results are kept, log them later with `ray-sim log`" in ended.stdout
    assert "none.parquet: no such file" in ended.stdout
    expected = prepare(parse_scenario(alone, "alone")).run().result.jobs
    assert read_result(desk / "run").jobs.equals(expected)
    store = ResultStore(desk / "unlogged")
    _check_results(store)
    assert log_stores([store.root]).created == 2 * SEEDS


STUDY = "python jobs/sweep.py jobs/study.yaml -o /shared/results/study"


def _ray(cluster: Cluster, command: str, folder: Path = REPOSITORY) -> str:
    """Output of a command of Ray that succeeds, on the cluster of RAY_ADDRESS."""
    ended = subprocess.run(
        [*ray_command(), *shlex.split(command)],
        cwd=folder,
        env={**cluster.environment, "RAY_ADDRESS": cluster.dashboard},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with the workload of the README's study."""
    project = tmp_path / "project"
    for folder in CODE:
        shutil.copytree(REPOSITORY / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (".gitignore", ".rayignore"):
        shutil.copy(REPOSITORY / file, project)
    sample = "workloads/samples/philly_sample.csv"
    assert _ray_sim(project, "convert", "philly-csv", sample, "-o", "philly.parquet").returncode == 0
    return project


@pytest.mark.long
def test_the_study_of_the_readme_runs_as_a_job_that_is_listed_stopped_and_resumed(
    cluster: Cluster, desk: Path, project: Path
) -> None:
    submit = f"job submit --working-dir . -- {STUDY}"
    assert f"    ray {submit}\n" in (REPOSITORY / "docs/cluster.md").read_text()
    submit = submit.replace("/shared", str(desk))
    _ray(cluster, submit.replace(" -- ", " --submission-id study --no-wait -- "), project)
    store = ResultStore(desk / "results/study")
    until(lambda: list(store.root.rglob("summary.json")), "the first run has ended")
    tasks = _ray(cluster, f"list tasks --address {cluster.dashboard} --limit 1000 --format json")
    assert "draw philly/days, seed 0" in tasks
    assert re.search(r'"name": "philly/days, edge-cloud, fifo, seed \d+', tasks)
    listed = _ray(cluster, "job list")
    assert "study" in listed
    _ray(cluster, "job stop study")
    assert "Job 'study' was stopped" in _ray(cluster, "job status study")
    output = _ray(cluster, f"{submit} --resume", project)
    assert re.search(r"^done +80 of 80$", output, re.MULTILINE), output
    assert re.search(r"^already there +[1-9]", output, re.MULTILINE), output


@pytest.mark.long
def test_actors_of_a_job_are_listed_by_policy_cluster_and_seed(
    cluster: Cluster, desk: Path, project: Path
) -> None:
    run = "--workload philly.parquet --cluster edge-cloud --policy sjf --seed 3 --fleet actors --sites 2"
    _ray(cluster, f"job submit --working-dir . -- python jobs/run.py {run} -o {desk / 'named'}", project)
    actors = json.loads(
        _ray(cluster, f"list actors --address {cluster.dashboard} --limit 1000 --format json")
    )
    names = {actor["name"] for actor in actors}
    assert names >= {f"philly, edge-cloud, sjf, {part}" for part in ("scheduler", "site 0", "site 1")}


@pytest.mark.long
def test_a_file_that_the_upload_left_out_is_named_with_the_reason(
    cluster: Cluster, desk: Path, project: Path
) -> None:
    with (project / ".rayignore").open("a") as file:
        file.write("/*.parquet\n/own.yaml\n/study.yaml\n")
    (project / "study.yaml").write_text((project / "jobs/study.yaml").read_text())
    shutil.copy(project / "philly.parquet", project / "jobs")
    (project / "own.yaml").write_text("name: own\nservers:\n  - {name: gpu, count: 2, gpus: 4}\n")
    script = [
        f"python jobs/sweep.py jobs/study.yaml -o {desk / 'unsent'}",
        f"python jobs/sweep.py study.yaml -o {desk / 'unsent'}",
        f"python jobs/run.py --workload jobs/philly.parquet --cluster own.yaml -o {desk / 'unsent'}",
    ]
    (project / "all.sh").write_text("\n".join(script))
    ended = _submit(cluster, project, "bash", "all.sh")
    lacks = "in the uploaded --working-dir, which lacks what .gitignore and .rayignore name"
    assert f"philly.parquet: no such file {lacks}; check the path" in ended.stdout
    assert f"study.yaml: cannot be read: No such file or directory {lacks}" in ended.stdout
    assert f"own.yaml: no such file {lacks}. Bundled clusters: " in ended.stdout
    assert "Traceback" not in ended.stdout


@pytest.mark.long
def test_a_client_brings_its_code_to_a_cluster(cluster: Cluster, desk: Path) -> None:
    ended = _ray_sim(desk, "sweep", "sweep.yaml", "-o", "by-client", "--address", cluster.client)
    assert ended.returncode == 0, ended.stderr
    _check_results(ResultStore(desk / "by-client"))


@pytest.mark.parametrize("address", ["ray://127.0.0.1:{port}", pytest.param("auto", marks=pytest.mark.long)])
def test_no_cluster_at_the_address_is_said_in_a_line(desk: Path, address: str) -> None:
    (port,) = free_ports("127.0.0.1", 1)
    named = address.format(port=port)
    ended = _ray_sim(
        desk, "sweep", "sweep.yaml", "-o", "none", "--address", named, RAY_ADDRESS=f"127.0.0.1:{port}"
    )
    assert ended.returncode == 2
    said = ended.stderr.splitlines()[-1]
    assert said.startswith(f"error: --address {named}: no Ray cluster there: ")
    assert "check the address, and that RAY_AUTH_MODE and the token are the cluster's" in said
    assert "Traceback" not in ended.stderr


@pytest.mark.long
def test_another_version_is_said_in_a_line(desk: Path, tmp_path: Path) -> None:
    says_another = "import ray, sys; ray.__version__ = '2.1.0'; sys.argv[0] = 'ray'"
    ray = [sys.executable, "-c", f"{says_another}; from ray.scripts.scripts import main; main()"]
    with head(tmp_path, "127.0.0.4", ray=ray) as other:
        ended = _sweep_at(desk, other)
    python = ".".join(map(str, sys.version_info[:3]))
    assert f"the cluster runs Ray 2.1.0 on Python {python}, this process Ray 2." in ended.stderr
    _check_one_line(ended)


@pytest.mark.long
def test_packages_that_workers_lack_are_said_in_a_line(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "polars.py").write_text("raise ModuleNotFoundError(\"No module named 'polars'\")\n")
    with head(tmp_path, "127.0.0.4", variables={"PYTHONPATH": str(tmp_path)}) as other:
        ended = _sweep_at(desk, other)
    assert "its workers cannot run ray_sim: " in ended.stderr
    assert "No module named 'polars'; install the packages of requirements.lock" in ended.stderr
    _check_one_line(ended)


def _check_one_line(ended: subprocess.CompletedProcess[str]) -> None:
    """The mistake takes the last line; warnings and waits stand before it."""
    *before, last = ended.stderr.splitlines()
    assert ended.returncode == 2
    assert last.startswith("error: ")
    told = ("compiling kernels", "joining Ray", "joined Ray", "sweep: ", "warning: ")
    assert all(line.startswith(told) for line in before), ended.stderr


def _sweep_at(desk: Path, cluster: Cluster) -> subprocess.CompletedProcess[str]:
    variables = {**cluster.environment, "RAY_ADDRESS": cluster.address, "PYTHONPATH": str(REPOSITORY)}
    return _ray_sim(desk, "sweep", "sweep.yaml", "-o", "none", "--address", "auto", **variables)


def test_another_python_is_said_in_a_line() -> None:
    # Two Pythons are not to be had in one environment; the words are those of Ray itself.
    there = {"ray_version": "2.1.0", "python_version": "3.9.2"}
    with pytest.raises(RuntimeError) as refused:
        check_version_info(there, "Ray Client", python_version_match_level="minor")
    said = refusal(refused.value)
    assert said.startswith("the cluster runs Ray 2.1.0 on Python 3.9.2, this process Ray ")
    assert "\n" not in said
