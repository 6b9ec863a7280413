"""Inputs by URL: the same content is the same run, and what is wrong is said in a line.

The objects come from a server on a loopback address, through pyarrow's own client of S3.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import parse_scenario, read_scenario
from ray_sim.experiments.source_digest import input_files_sha256
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.model.errors import InvalidInputError
from ray_sim.policies.registry import create_policy
from tests.object_store import object_store, silent_store
from tests.proofs import quick_first
from workloads.sources import TIMEOUT_VARIABLE
from workloads.store import read_frame, write_workload
from workloads.synthetic.synth import synth

CLUSTER = "name: small\nservers:\n  - {name: gpu, count: 2, gpus: 4}\n"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder with week.parquet, small.yaml, sweep.yaml and others, and the query of its URLs as a store."""
    folder = tmp_path_factory.mktemp("bucket")
    write_workload(*synth("philly", 30, seed=1, load_scale=0.05), folder / "week.parquet")
    (folder / "small.yaml").write_text(CLUSTER)
    (folder / "empty.parquet").touch()
    (folder / "text.parquet").write_text("no Parquet")
    shutil.copyfile(folder / "week.parquet", folder / "secret.parquet")
    with object_store(folder) as query:
        workload, cluster = (f"s3://bucket/{name}?{query}" for name in ("week.parquet", "small.yaml"))
        content = {"name": "far", "workloads": [workload], "clusters": [cluster], "policies": ["fifo"]}
        (folder / "sweep.yaml").write_text(json.dumps(content))
        yield folder, query


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a user's credentials nor a question for them to the network."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.mark.slow
def test_a_content_hash_is_of_the_content_wherever_it_is(bucket: tuple[Path, str]) -> None:
    folder, query = bucket
    places = (f"{folder}/{{}}", f"file://{folder}/{{}}", f"s3://bucket/{{}}?{query}")
    contents = [
        HashedInputs().identify(
            parse_scenario(
                {"workload": place.format("week.parquet"), "cluster": place.format("small.yaml")}, "x"
            )
        )
        for place in places
    ]
    assert len({content.content_hash for content in contents}) == 1
    frames = [read_frame(place.format("week.parquet")) for place in places]
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])


@pytest.mark.slow
def test_commands_take_urls(
    bucket: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, query = bucket
    far = f"s3://bucket/week.parquet?{query}"
    near = str(folder / "week.parquet")
    told = []
    for workload, cluster in (
        (near, str(folder / "small.yaml")),
        (far, f"s3://bucket/small.yaml?{query}"),
    ):
        options = ["--workload", workload, "--cluster", cluster, "-o", str(tmp_path / "run"), "--json"]
        assert main(["run", *options]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    assert main(["info", far, "--cluster", f"file://{folder}/small.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 30
    assert main(["info", f"s3://bucket/small.yaml?{query}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"] == 2


@pytest.mark.slow
def test_a_sweep_file_may_be_an_object_itself(bucket: tuple[Path, str]) -> None:
    folder, query = bucket
    (near,) = read_sweep(folder / "sweep.yaml").configurations
    (far,) = read_sweep(f"s3://bucket/sweep.yaml?{query}").configurations
    assert near.entry == far.entry


@pytest.mark.parametrize(
    ("url", "said"),
    quick_first(
        [
            ("s3://bucket/none.parquet?{query}", "there is no such object; check its name"),
            (
                "s3://bucket/secret.parquet?{query}",
                "access denied; give credentials as the store's own tools",
            ),
            ("s3://bucket/empty.parquet?{query}", "the file is empty"),
            ("s3://bucket/text.parquet?{query}", "not a readable Parquet file"),
            ("s3://b/w.parquet?region=x&endpoint_override=http://127.0.0.1:1", "the store cannot be reached"),
            ("http://127.0.0.1:1/w.parquet", "http:// is not known; give a path or one of file://, gs://"),
            ("file:///none/w.parquet", "there is no such object; check its name"),
            (
                "s3://key:hidden@bucket/w.parquet",
                "s3://...@bucket/w.parquet: a URL is written into results, so it",
            ),
            ("s3://bucket/w.parquet?secret_key=hidden", "?secret_key=...: a URL is written into results"),
            (
                "gs://bucket/w?x=1&X-Goog-Signature=hidden",
                "&X-Goog-Signature=...: a URL is written into results",
            ),
            ("ftp://me:hidden@host/w?token=hidden", "ftp://...@host/w?token=...: ftp:// is not known"),
            (
                "s3://b/w.parquet#hidden",
                "s3://b/w.parquet#...: the URL of a file has no fragment; write a # in",
            ),
            ("s3://k:hidden@b/w#token=hidden", "s3://...@b/w#...: the URL of a file has no fragment"),
            ("file:///dev/zero", "/dev/zero: not a file; give the file itself, no folder, device or pipe"),
            ("/dev/zero", "/dev/zero: not a file; give the file itself, no folder, device or pipe"),
        ],
        2,
    ),
)
def test_what_is_wrong_with_a_url_is_said_in_a_line(bucket: tuple[Path, str], url: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_frame(url.format(query=bucket[1]))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["convert", "csv", "{url}", "-o", "w.parquet"],
        ["convert", "csv", "t.csv", "--map", "{url}", "-o", "w.parquet"],
        ["info", "{url}"],
        ["info", "w.parquet", "--cluster", "{url}"],
        ["run", "--workload", "{url}", "--cluster", "philly", "-o", "run"],
        ["enrich", "{url}", "--profile", "pd_ors", "-o", "w.parquet"],
        ["sweep", "{url}", "-o", "sweep"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_no_command_shows_a_secret_of_a_url(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    urls = {
        "s3://u:hidden@b/w.csv": "error: s3://...@b/w.csv: ",
        "s3://b/w.csv#hidden": "error: s3://b/w.csv",
    }
    for url, said in urls.items():
        assert main([part.format(url=url) for part in command]) == 2
        output = capsys.readouterr()
        assert said in output.err
        assert "hidden" not in output.out + output.err
        assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--workload", "{0}/week.parquet", "--cluster", "edge-cloud", "-o", "s3://b/run"],
        ["sweep", "{0}/near.yaml", "-o", "s3://b/results"],
        ["synth", "philly", "-n", "3", "-o", "gs://b/w.parquet"],
        ["failures", "toy", "--mtbf-s", "9", "--repair-s", "9", "--until-s", "9", "-o", "s3://b/f.csv"],
    ],
    ids=lambda command: command[0],
)
def test_no_url_is_taken_for_a_folder_of_this_machine(
    command: list[str],
    bucket: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = bucket[0]
    content = {"name": "near", "clusters": ["toy"], "policies": ["fifo"]}
    (folder / "near.yaml").write_text(json.dumps({**content, "workloads": [str(folder / "week.parquet")]}))
    monkeypatch.chdir(tmp_path)
    assert main([part.format(folder) for part in command]) == 2
    assert "is a URL; outputs are written to this machine, copy them" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_value_of_an_option_shows_no_secret_of_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["enrich", "w.parquet", "--profile", "pd_ors", "-o", "o", "--truth", "s3://b/w?secret_key=hidden"]
    assert main(line) == 2
    output = capsys.readouterr().err
    assert "'s3://b/w?secret_key=...' is not one of 'placement', 'pd_ors'" in output
    assert "Try 'ray-sim enrich --help' for help." in output


def test_a_conversion_reads_files_of_this_machine_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "w.parquet"
    for url in ("s3://bucket/k.csv", "s3://u:hidden@bucket/k.csv", "s3://bucket/k.csv#hidden"):
        assert main(["convert", "csv", url, "-o", str(out)]) == 2
        safe = url.replace("u:hidden", "...").removesuffix("#hidden")
        assert capsys.readouterr().err == (
            f"error: {safe}: only a file of this machine can be read here; fetch it first\n"
        )


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_store_that_never_answers_is_given_up(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0.2")
    with silent_store() as query:
        url = f"s3://bucket/w.parquet?{query}"
        if scheme == "gs":
            host = query.rpartition("//")[2]
            url = f"gs://anonymous@bucket/w.parquet?scheme=http&endpoint_override={host}"
        with pytest.raises(InvalidInputError) as refused:
            read_frame(url)
    assert str(refused.value) == (
        f"{url}: the store did not answer within 0.2 s; check its address and the network, or allow more "
        f"seconds in {TIMEOUT_VARIABLE}"
    )


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon", "1e9"])
def test_the_limit_of_a_store_has_a_range(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, seconds)
    with pytest.raises(
        InvalidInputError, match=rf"{TIMEOUT_VARIABLE}: must be above 0, at most 86,400 s, got"
    ):
        read_frame("s3://bucket/w.parquet?region=x")


def _network_of(path: Path) -> dict[str, str]:
    return input_files_sha256(create_policy("harmony", {"checkpoint": str(path)}))


def test_a_pipe_is_no_input_and_a_link_to_a_file_is_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    readers = (read_frame, read_sweep, read_scenario, load_cluster, load_training_draws)
    for read in (*readers, _network_of):
        with pytest.raises(InvalidInputError, match="not a file"):
            read(pipe)
    assert main(["diff", str(pipe), str(pipe)]) == 2
    (tmp_path / "small.yaml").write_text(CLUSTER)
    (tmp_path / "link.yaml").symlink_to(tmp_path / "small.yaml")
    assert len(load_cluster(tmp_path / "link.yaml")) == 2
