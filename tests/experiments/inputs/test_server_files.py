"""Upload delays by pair and typical tasks in CSV files: what they say, and how their mistakes are told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.experiments.inputs.server_files import ServerFiles, read_delays, read_typical_tasks, split_world
from ray_sim.experiments.run import simulate
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.kernels.core.fragmentation import TypicalTask
from ray_sim.model.cluster import ChunkDelay
from ray_sim.model.errors import InvalidClusterError, InvalidScenarioError
from tests.engine.test_scoring import RESOURCES, cluster_of, frame_of
from tests.naive_scores import Server, Task
from workloads.job_table import frame_to_table


def written(folder: Path, text: str) -> Path:
    path = folder / "delays.csv"
    path.write_text(text)
    return path


def test_an_empty_cell_is_the_shared_value_and_an_empty_name_no_name(tmp_path: Path) -> None:
    path = written(
        tmp_path, "model,server_class,upload_s,processing_factor\nvgg,far,7200,1.5\n,far,60,\nvgg,near,,2\n"
    )
    assert read_delays(path) == (
        ChunkDelay("", "far", 60.0, 1.0),
        ChunkDelay("vgg", "far", 7200.0, 1.5),
        ChunkDelay("vgg", "near", None, 2.0),
    )


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "model,server_class,upload_s,processing_factor\na,x,-1,1\na,y,1,0\nb,x,1,1\nb,x,2,1\nc,x,one,1\nc,y,nan,1\n",
    )
    with pytest.raises(InvalidClusterError) as failure:
        read_delays(path)
    text = str(failure.value)
    for line, column in ((2, "upload_s"), (3, "processing_factor"), (6, "upload_s"), (7, "upload_s")):
        assert f"line {line}, {column}: must be" in text
    assert "line 5, the pair 'b', 'x' has a line already" in text
    assert "5 problems" in text


def test_a_column_that_is_missing_or_unknown_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidClusterError) as failure:
        read_delays(written(tmp_path, "model,delay_s\na,1\n"))
    assert "line 1: column 'server_class' is missing" in str(failure.value)
    assert "line 1: unknown column 'delay_s'; known: model, server_class, upload_s" in str(failure.value)


def test_the_table_and_the_classes_of_servers_are_part_of_the_identity(tmp_path: Path) -> None:
    table = written(tmp_path, "model,server_class,upload_s\n,,60\n")
    cluster = tmp_path / "one.csv"
    cluster.write_text("name,gpus\ns,1\n")
    plain, with_it = (
        HashedInputs().cluster_sha256(str(cluster), world) for world in ({}, {"delays": str(table)})
    )
    cluster.write_text("name,gpus,server_class\ns,1,far\n")
    assert HashedInputs().cluster_sha256(str(cluster), {}) == plain != with_it
    assert HashedInputs().cluster_sha256(str(cluster), {"delays": str(table)}) not in (plain, with_it)
    written(tmp_path, "model,server_class,upload_s\n,,61\n")
    cluster.write_text("name,gpus\ns,1\n")
    assert HashedInputs().cluster_sha256(str(cluster), {"delays": str(table)}) not in (plain, with_it)


TYPED = cluster_of([Server(8000, 64, [1000], "T4")])
TARGET = "cpu_milli,gpu_milli,num_gpu,gpu_types,share\n"


def test_typical_tasks_keep_the_order_of_their_lines(tmp_path: Path) -> None:
    path = written(tmp_path, TARGET + "2000,0,0,,0.2\n8000,1000,2,T4|V100,0.75\n")
    assert read_typical_tasks(path, TYPED) == (
        TypicalTask(2000, 0, 0, "", 0.2),
        TypicalTask(8000, 1000, 2, "T4|V100", 0.75),
    )


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("", "has no typical task; add lines, or set fragmentation_target=trace"),
        ("4000,500,0,,0.5", "line 2, gpu_milli is 500 and num_gpu 0: expected both above 0 or both 0"),
        ("4000,1001,1,,0.5", "line 2, gpu_milli: must be <= 1,000, got '1001'"),
        ("4000,500,1,,0.5\n4000,500,1,,0.7", "line 3, the same demand has a line already"),
        ("4000,500,1,,0.5\n4000,600,1,,0.7", "shares sum to 1.2; expected at most 1"),
        ("4000,500,1,A10|P100,0.5", "line 2, gpu_types: no server is of A10|P100; types: T4"),
    ],
)
def test_targets_that_name_nothing_or_too_much_are_refused(tmp_path: Path, lines: str, told: str) -> None:
    with pytest.raises(InvalidClusterError, match=re.escape(told)):
        read_typical_tasks(written(tmp_path, TARGET + lines), TYPED)


def test_a_target_is_a_word_or_a_file(tmp_path: Path) -> None:
    assert [split_world({"fragmentation_target": word}) for word in ("trace", "arrived", "t.csv")] == [
        ({"fragmentation_target": "trace"}, ServerFiles()),
        ({"fragmentation_target": "arrived"}, ServerFiles()),
        ({}, ServerFiles(fragmentation_target="t.csv")),
    ]
    with pytest.raises(InvalidClusterError, match="expected trace, arrived or a CSV file, found arived"):
        read_typical_tasks("arived", TYPED)


def test_a_run_takes_its_target_from_the_file(tmp_path: Path) -> None:
    # The only GPU is free in part: a task of 1 GPU cannot use 0.4, that of 0.4 can.
    tasks = [Task(1000, 1, 600, 1)]
    for gpu, fragments in ((1000, 0.4), (400, 0.0)):
        path = written(tmp_path, TARGET + f"1000,{gpu},1,,1\n")
        run = simulate(
            frame_to_table(frame_of(tasks, 5), RESOURCES),
            TYPED,
            params={"placement": "best_fit"},
            world={"fragmentation_target": str(path)},
        )
        assert run.timeline["frag_gpu"].to_list() == [fragments, 0.0]


def test_targets_of_jobs_without_placement_rules_are_refused(tmp_path: Path) -> None:
    table = frame_to_table(frame_of([Task(1000, 1, 600, 1)], 5), RESOURCES)
    named = replace(TYPED, fragmentation_target=(TypicalTask(1000, 1000, 1, "", 1.0),))
    with pytest.raises(InvalidScenarioError, match="fragmentation_target: has no effect on announced jobs"):
        build_world(table, named, params={"truth": "announced"})


SPEEDS = "model,batch,gpus,gpu_type,consolidated,steps_per_s\n"


def test_the_content_of_speeds_is_part_of_the_identity_and_their_file_is_not(tmp_path: Path) -> None:
    def digest(world: dict[str, str]) -> str:
        return HashedInputs().cluster_sha256("toy", world)

    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    pairs = tmp_path / "pairs.csv"
    one.write_text(f"{SPEEDS}net,8,1,A,1,2\nnet,8,2,A,1,3\n")
    other.write_text(f"{SPEEDS}net,8,2,A,1,3\nnet,8,1,A,1,2\n")
    pairs.write_text("gpu_type,model_a,model_b,steps_per_s_a,steps_per_s_b\nA,net,net,1,1\n")
    same = digest({"speeds": str(one)})
    assert digest({"speeds": str(other)}) == same
    digests = [digest({}), same, digest({"speeds": str(one), "pair_speeds": str(pairs)})]
    assert len({*digests, digest({"speeds": "gavel_physical"})}) == 4


def test_measured_jobs_have_gavels_speeds_unless_others_are_named() -> None:
    assert split_world({"truth": "measured"})[1].speeds == "gavel_simulation"
    assert split_world({"truth": "measured", "speeds": "gavel_physical"})[1].speeds == "gavel_physical"
    assert split_world({"truth": "rigid"})[1].speeds is None


def test_pairs_go_with_speeds_and_speeds_with_measured_jobs() -> None:
    with pytest.raises(InvalidScenarioError, match="set speeds=FILE too"):
        HashedInputs().servers("toy", {"pair_speeds": "pairs.csv"})
    cluster = HashedInputs().servers("toy", {"speeds": "gavel_simulation"})
    assert cluster.speeds is not None
    table = frame_to_table(frame_of([Task(1000, 1, 1000, 1)], 60), cluster.resources)
    with pytest.raises(InvalidScenarioError, match="speeds: has no effect on rigid jobs"):
        build_world(table, cluster)
