"""Inputs by URL: the same content is the same run, and what is wrong is said in a line.

The objects come from a server on a loopback address, through pyarrow's own client of S3.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.experiments.content import Inputs
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.model.errors import InvalidInputError
from tests.object_store import object_store
from workloads.store import read_frame, write_workload
from workloads.synth import synth

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


def test_a_content_hash_is_of_the_content_wherever_it_is(bucket: tuple[Path, str]) -> None:
    folder, query = bucket
    places = (f"{folder}/{{}}", f"file://{folder}/{{}}", f"s3://bucket/{{}}?{query}")
    contents = [
        Inputs().content(
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


def test_a_sweep_file_may_be_an_object_itself(bucket: tuple[Path, str]) -> None:
    folder, query = bucket
    (near,) = read_sweep(folder / "sweep.yaml").configurations
    (far,) = read_sweep(f"s3://bucket/sweep.yaml?{query}").configurations
    assert near.entry == far.entry


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://bucket/none.parquet?{query}", "there is no such object; check its name"),
        ("s3://bucket/secret.parquet?{query}", "access denied; give credentials as the store's own tools"),
        ("s3://bucket/empty.parquet?{query}", "the file is empty"),
        ("s3://bucket/text.parquet?{query}", "not a readable Parquet file"),
        pytest.param(
            "s3://b/w.parquet?region=x&endpoint_override=http://127.0.0.1:1",
            "the store cannot be reached",
            marks=pytest.mark.slow,
        ),
        ("http://127.0.0.1:1/w.parquet", "http:// is not known; give a path or one of file://, gs://"),
        ("file:///none/w.parquet", "there is no such object; check its name"),
        ("s3://key:hidden@bucket/w.parquet", "a URL is written into results, so it must hold no password"),
    ],
)
def test_what_is_wrong_with_a_url_is_said_in_a_line(bucket: tuple[Path, str], url: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_frame(url.format(query=bucket[1]))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "hidden" not in str(refused.value)
