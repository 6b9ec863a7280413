"""Optional columns of a workload: how its jobs train."""

from __future__ import annotations

import polars as pl

from ray_sim.model.job import Exchange
from ray_sim.model.parameter_blocks import BLOCKS_FORM, parse_blocks
from ray_sim.model.units import MAX_TIME_S
from workloads.column import MAX_COUNT, MAX_GIB, MAX_MB, MAX_WHOLE, Column, ColumnOrigin, TextForm

EXCHANGES: dict[str, Exchange] = {exchange.name.lower(): exchange for exchange in Exchange}
"""Allowed texts of the column `exchange`."""

LEAST = 2**-40
"""The smallest positive number of a column that must not hold zero."""

_UNKNOWN = "the workload does not say"
_NOT_CHUNKED = "the job is not chunked"


def _whole(name: str, meaning: str, *, minimum: int = 1, null: str = _UNKNOWN) -> Column:
    return Column(name, pl.Int64(), meaning, null, "", minimum, MAX_COUNT, ColumnOrigin.PROFILE)


def _real(
    name: str, meaning: str, unit: str = "", *, minimum: float = 0, maximum: float, null: str = _UNKNOWN
) -> Column:
    return Column(name, pl.Float64(), meaning, null, unit, minimum, maximum, ColumnOrigin.PROFILE)


def _seconds(name: str, meaning: str, *, minimum: float = 0, null: str = _UNKNOWN) -> Column:
    return _real(name, meaning, "s", minimum=minimum, maximum=MAX_TIME_S, null=null)


def _mbps(name: str, meaning: str, null: str = _UNKNOWN) -> Column:
    return _real(name, meaning, "Mbps", minimum=2**-10, maximum=MAX_MB, null=null)


def _demands(role: str, who: str, gpu_null: str) -> tuple[Column, ...]:
    return (
        _real(f"{role}_gpu", f"GPUs of one {who}.", "GPU", maximum=MAX_COUNT, null=gpu_null),
        _real(f"{role}_cpu", f"CPU cores of one {who}.", "core", maximum=MAX_COUNT, null="0"),
        _real(f"{role}_memory_gib", f"Memory of one {who}.", "GiB", maximum=MAX_GIB, null="0"),
        _real(f"{role}_disk_gib", f"Disk of one {who}.", "GiB", maximum=MAX_GIB, null="0"),
    )


TRAINING_COLUMNS: tuple[Column, ...] = (
    _whole("chunks", "Equal parts of the job's data, each trained by one worker.", null=_NOT_CHUNKED),
    _whole("epochs", "Number of passes over the job's data, or over each of its chunks."),
    _whole("minibatches_per_chunk", "Mini-batches of one chunk.", null=_NOT_CHUNKED),
    _seconds(
        "minibatch_s",
        "Time of a worker of speed 1 to train one mini-batch, without communication.",
        null=_NOT_CHUNKED,
    ),
    _real("gradient_mb", "Size of the gradients, which is that of the parameters.", "MB", maximum=MAX_MB),
    _mbps("bandwidth_mbps", "Bandwidth of the job between a worker and its parameter server."),
    _seconds(
        "upload_edge_s",
        "Time to send a chunk to a worker on an edge server or a plain server.",
        null=_NOT_CHUNKED,
    ),
    _seconds("upload_cloud_s", "Time to send a chunk to a worker in the cloud.", null=_NOT_CHUNKED),
    Column("model", pl.String(), "Name of the model's family.", "unknown", layer=ColumnOrigin.PROFILE),
    Column(
        "blocks",
        pl.String(),
        "Parameters in each block of the model, in the order of layers, such as 9408 2*64 3*(4096 64).",
        _UNKNOWN,
        layer=ColumnOrigin.PROFILE,
        form=TextForm(BLOCKS_FORM, parse_blocks),
    ),
    Column(
        "exchange",
        pl.String(),
        "Exchange of gradients: sync or async through parameter servers, or all_reduce in a ring.",
        _UNKNOWN,
        layer=ColumnOrigin.PROFILE,
        choices=tuple(EXCHANGES),
    ),
    _real("samples", "Samples of an epoch; where solved for, not whole.", maximum=MAX_WHOLE),
    _whole(
        "batch", "Samples of a step: of all workers together, or of each worker where `exchange` is async."
    ),
    _seconds("sample_s", "Time of a worker of speed 1 to train one sample.", minimum=LEAST),
    _mbps("internal_bandwidth_mbps", "Bandwidth between a worker and a parameter server on the same server."),
    _mbps(
        "pair_bandwidth_mbps",
        "With truth=pd_ors, of a pair of a worker and a parameter server in place of `bandwidth_mbps`.",
        null="`bandwidth_mbps`",
    ),
    _mbps(
        "internal_pair_bandwidth_mbps",
        "The same within a server, in place of `internal_bandwidth_mbps`.",
        null="`internal_bandwidth_mbps`",
    ),
    _mbps(
        "chunk_bandwidth_mbps",
        "With truth=a_online, of a worker in place of `bandwidth_mbps`.",
        null="`bandwidth_mbps`",
    ),
    _seconds("step_s", "Fixed time of each step, besides training and exchange.", null="0"),
    _seconds("step_s_per_worker", "Time that each worker adds to `step_s`.", null="0"),
    _seconds("step_s_per_ps", "Time that each parameter server adds to `step_s`.", null="0"),
    _whole("workers_per_ps", "Number of workers that one parameter server serves."),
    _whole("num_workers", "Number of workers requested."),
    _whole(
        "num_ps", "Number of parameter servers requested; 0 only where `exchange` is all_reduce.", minimum=0
    ),
    *_demands("worker", "worker", _UNKNOWN),
    *_demands("ps", "parameter server", "0"),
    _real("utility_max", "Utility of the job if it is done at once.", maximum=MAX_WHOLE),
    _real(
        "utility_decay_per_s",
        "Steepness of the fall of the utility at `utility_due_s`.",
        "1/s",
        maximum=MAX_COUNT,
    ),
    _seconds("utility_due_s", "Time after submission at which half of the utility is left."),
    _real("loss_b0", "The loss after k epochs is 1 / (b0 k + b1) + b2.", minimum=LEAST, maximum=MAX_COUNT),
    _real("loss_b1", "See `loss_b0`.", minimum=LEAST, maximum=MAX_COUNT),
    _real("loss_b2", "See `loss_b0`.", maximum=MAX_COUNT),
    _real("loss_noise", "Standard deviation of an observed loss.", maximum=MAX_COUNT),
    _real(
        "loss_threshold",
        "Fall of the loss in an epoch below which the job counts as converged.",
        minimum=LEAST,
        maximum=MAX_COUNT,
    ),
    _whole("loss_patience", "Epochs in a row below the threshold after which the job ends."),
    _real(
        "loss_drop",
        "Fraction of the loss above `loss_b2` that is lost at once, as when the learning rate is lowered.",
        maximum=1 - LEAST,
        null="0",
    ),
    _whole("loss_drop_epoch", "Epoch of this drop.", null="1"),
    _real(
        "trained_share",
        "Fraction of the epochs to convergence after which the job ends, as if killed.",
        minimum=LEAST,
        maximum=1,
        null="1",
    ),
)
