"""Speeds from placements: closed forms with their arithmetic, and what no truth may violate."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.step_time import least_placement_sample_s, pd_ors_sample_s
from ray_sim.model.training_progress import Nic, pd_ors_progress, placement_progress, trial_speeds
from tests.optimus_speeds import AsyncSpeed, SyncSpeed
from tests.proofs import instances
from tests.training import ONE, Placement, profile, rows, together

ALIKE = np.ones(8)
PACKED: Placement = [(2, 1)]
SPLIT: Placement = [(2, 0), (0, 1)]


def rate(
    job: TrainingProfile,
    placement: Placement,
    nic: Nic = Nic.PER_TASK,
    *,
    speed: Sequence[float] = (),
    straggling: float = 1.0,
) -> float:
    """Samples per second of the job on these servers."""
    servers = np.array(speed) if speed else ALIKE
    truth = placement_progress(job, servers, nic, np.array([straggling]))
    return float(truth.samples_per_s(ONE, rows(placement))[0])


def pd_ors_rate(job: TrainingProfile, placement: Placement, speed: Sequence[float] = ()) -> float:
    truth = pd_ors_progress(job, np.array(speed) if speed else ALIKE)
    return float(truth.samples_per_s(ONE, rows(placement))[0])


def test_a_step_takes_training_and_twice_the_bottleneck_transfer() -> None:
    # Training 100 x 0.1 / 2 = 5 s. Apart, the server passes 2 slices of 4 s, there and back: 16 s. Together
    # 2 x 2 x 0.4 = 1.6 s.
    assert rate(profile(), SPLIT) == pytest.approx(100 / (5 + 16))
    assert rate(profile(), PACKED) == pytest.approx(100 / (5 + 1.6))


def test_on_trial_servers_have_speed_1_and_no_worker_is_slow() -> None:
    """As above, apart and together; on four servers each passes two slices of half the size."""
    slow = placement_progress(profile(), np.full(2, 0.5), straggling=np.array([3.0]))
    sound = placement_progress(profile(), np.full(2, 0.5))
    jobs = np.array([0, 0, 0, 0])
    tried = rows([(1, 0), (1, 0), (0, 1)], [(1, 0), (0, 1)], [(1, 0), (1, 0), (0, 1), (0, 1)], [(2, 1)])
    expected = [100 / (5 + 16), 100 / (10 + 8), 100 / (5 + 8), 100 / (5 + 1.6)]
    np.testing.assert_allclose(trial_speeds(sound, jobs, tried), expected)
    assert trial_speeds(slow, jobs, tried)[1] == pytest.approx(100 / (30 + 8))
    apart = trial_speeds(pd_ors_progress(profile(), ALIKE), ONE, rows([(1, 0), (0, 1)]))
    assert apart == pytest.approx(pd_ors_rate(profile(), [(1, 0), (0, 1)]))


def test_overheads_grow_with_workers_and_servers() -> None:
    job = profile(step_s=1, step_s_per_worker=0.25, step_s_per_ps=0.5)
    assert rate(job, PACKED) == pytest.approx(100 / (5 + 1.6 + 1 + 0.5 + 0.5))


def test_a_task_passes_near_and_far_slices_one_after_the_other() -> None:
    # Server 0: 2 workers, 1 PS; server 1: 1 worker, 1 PS; a slice is g / 2. The PS of server 1 has 2 far and
    # 1 near worker: (2 x 4 + 0.4) / 2 = 4.2 s, the longest; that of server 0 (4 + 0.8) / 2 = 2.4 s.
    assert rate(profile(), [(2, 1), (1, 1)]) == pytest.approx(100 / (10 / 3 + 2 * 4.2))


def test_the_bottleneck_of_optimus_in_example_3_b() -> None:
    # S = 100 MB, p = 2, w = 4, nothing to pay within a server: even on two servers (S / p)(4 - 2) = 100 MB,
    # PSs (2, 0) with workers (1, 3) (100 / 2)(4 - 1) = 150 MB, and with (3, 1) 100 MB at worker 4.
    job = profile(gradient_mb=100, bandwidth_mbps=800, internal_bandwidth_mbps=1e300, sample_s=1e-300)

    def bottleneck_mb(placement: Placement) -> float:
        return 100 / rate(job, placement) / 2 * 100  # 800 Mbps are 100 MB a second

    assert bottleneck_mb([(4, 2)]) == pytest.approx(0)
    assert bottleneck_mb([(2, 1), (2, 1)]) == pytest.approx(100)
    assert bottleneck_mb([(1, 2), (3, 0)]) == pytest.approx(150)
    assert bottleneck_mb([(3, 2), (1, 0)]) == pytest.approx(100)


def test_a_shared_interface_passes_the_slices_of_all_tasks_on_its_server() -> None:
    # As above, even on two servers: 2 far workers for the only PS of a server and 1 far PS for each of its 2
    # workers: (2 x 4 + 2 x 0.4) / 2 = 4.4 s either way; per task it is the PS's 4.4 s too. With both PSs on
    # one server, 2 x (4 x 4) / 2 = 16 s instead of 8 s.
    assert rate(profile(), [(2, 1), (2, 1)], Nic.PER_SERVER) == pytest.approx(100 / (2.5 + 8.8))
    assert rate(profile(), [(4, 0), (0, 2)], Nic.PER_SERVER) == pytest.approx(100 / (2.5 + 32))
    assert rate(profile(), [(4, 0), (0, 2)], Nic.PER_TASK) == pytest.approx(100 / (2.5 + 16))


def test_asynchronous_workers_each_do_their_own_steps() -> None:
    # Each worker's step: 100 x 0.1 s of training and 1.6 s of exchange for 100 samples.
    assert rate(profile(exchange=Exchange.ASYNC), PACKED) == pytest.approx(2 * 100 / 11.6)


def test_a_ring_moves_its_share_of_the_gradients_twice() -> None:
    # 2 (4 - 1) / 4 of 0.4 s on one server, of 4 s on two; a lone worker moves nothing.
    job = profile(exchange=Exchange.ALL_REDUCE, step_s_per_ps=99)
    assert rate(job, [(4, 0)]) == pytest.approx(100 / (2.5 + 0.6))
    assert rate(job, [(3, 0), (1, 0)]) == pytest.approx(100 / (2.5 + 6))
    assert rate(job, [(1, 0)]) == pytest.approx(100 / 10)


def test_slow_servers_slow_the_training_and_not_the_exchange() -> None:
    # Workers at speeds 1 and 1/2: in step 5 / 0.5 = 10 s; each by itself 10 s and 20 s.
    spread: Placement = [(1, 1), (1, 0)]
    exchange_s = 2 * (4 + 0.4)
    assert rate(profile(), spread, speed=[1, 0.5]) == pytest.approx(100 / (10 + exchange_s))
    alone = profile(exchange=Exchange.ASYNC)
    each = 100 / (10 + exchange_s) + 100 / (20 + exchange_s)
    assert rate(alone, spread, speed=[1, 0.5]) == pytest.approx(each)


def test_all_wait_for_a_straggler_where_they_train_in_step() -> None:
    # One of two workers takes 3 times as long: 15 s instead of 5 s. Each by itself: 30 s and 10 s.
    assert rate(profile(), PACKED, straggling=3) == pytest.approx(100 / (15 + 1.6))
    alone = profile(exchange=Exchange.ASYNC)
    assert rate(alone, PACKED, straggling=3) == pytest.approx(100 / 31.6 + 100 / 11.6)


@pytest.mark.parametrize("exchange", [Exchange.SYNC, Exchange.ASYNC])
@pytest.mark.parametrize("placement", [[(2, 0)], [(0, 2)], []])
def test_nothing_is_trained_without_a_worker_and_its_server(exchange: Exchange, placement: Placement) -> None:
    assert rate(profile(exchange=exchange), placement) == 0
    assert pd_ors_rate(profile(), placement) == 0


def test_pd_ors_has_one_rate_for_one_server_and_one_for_several() -> None:
    # w / theta: 2 / (0.1 + (2 / 100) 2 x 0.4) and 2 / (0.1 + (2 / 100) 2 x 4).
    job = profile(workers_per_ps=2)
    assert pd_ors_rate(job, PACKED) == pytest.approx(2 / 0.116)
    assert pd_ors_rate(job, SPLIT) == pytest.approx(2 / 0.26)
    assert pd_ors_rate(job, [(1, 1), (1, 0)]) == pytest.approx(2 / 0.26)
    assert pd_ors_rate(job, PACKED) == pytest.approx(2 / pd_ors_sample_s(job, ONE, internal=True)[0])


def test_in_pd_ors_workers_beyond_the_ratio_or_the_batch_train_nothing() -> None:
    # 5 workers and 2 PSs at gamma = 2: 4 count. A batch of 3 samples has work for 3.
    job = profile(workers_per_ps=2)
    assert pd_ors_rate(job, [(5, 2)]) == pytest.approx(pd_ors_rate(job, [(4, 2)]))
    small = profile(workers_per_ps=2, batch=3)
    assert pd_ors_rate(small, [(5, 3)]) == pytest.approx(pd_ors_rate(small, [(3, 2)]))


def test_pd_ors_in_example_1_a_trains_a_slots_work_with_two_workers() -> None:
    # theta^i = 0.02 slots, V = 100: two internal workers, 2 / 0.02 = 100 samples a slot. gamma = 1, F = 4:
    # tau = 0.01 and 2 g / b = 0.04 give 0.01 + 0.04 / 4 = 0.02, here with slots of a second.
    job = profile(batch=4, sample_s=0.01, gradient_mb=0.25, bandwidth_mbps=1e9, internal_bandwidth_mbps=100)
    assert pd_ors_rate(job, [(2, 2)]) == pytest.approx(100)


PLACEMENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=5).filter(
    lambda servers: any(w for w, _ in servers) and any(p for _, p in servers)
)
SIZES = st.floats(0.01, 1e3)


@given(
    gamma=st.integers(1, 4),
    ps=st.integers(1, 3),
    where=PLACEMENTS,
    gradient=SIZES,
    batch=st.integers(12, 200),
)
def test_placement_is_pd_ors_where_every_link_has_its_own_bandwidth(
    gamma: int, ps: int, where: list[tuple[int, int]], gradient: float, batch: int
) -> None:
    # gamma workers to a PS: F tau / w + 2 (g / p) / b = (F / w)(tau + (gamma / F) 2 g / b). The workers and
    # PSs stand wherever the draw says, one after the other on its servers.
    job = profile(workers_per_ps=gamma, gradient_mb=gradient, batch=batch)
    spots = range(len(where))
    placed = [[sum(i % len(where) == s for i in range(n)) for s in spots] for n in (gamma * ps, ps)]
    placement = list(zip(*placed, strict=True))
    assert rate(job, placement, Nic.PER_LINK) == pytest.approx(pd_ors_rate(job, placement), rel=1e-12)


@given(where=PLACEMENTS, gradient=SIZES, overhead=st.floats(0, 10))
def test_placement_is_optimus_where_near_and_far_are_alike(
    where: list[tuple[int, int]], gradient: float, overhead: float
) -> None:
    # With b = 100 everywhere the bottleneck is (g / p) max(w, p) / b wherever the tasks stand: for w >= p
    # Optimus's th2 w / p with th2 = 2 g / b.
    workers, ps = (float(sum(column)) for column in zip(*where, strict=True))
    job = profile(
        gradient_mb=gradient,
        internal_bandwidth_mbps=100,
        step_s=overhead,
        step_s_per_worker=overhead / 2,
        step_s_per_ps=overhead / 3,
    )
    if workers < ps:
        return
    exchange_s = 2 * 8 * gradient / 100
    sync = SyncSpeed(np.array(100.0), np.array([0.1, overhead, exchange_s, overhead / 2, overhead / 3]))
    steps = sync.steps_per_s(np.array(workers), np.array(ps))
    assert rate(job, where) == pytest.approx(100 * float(steps), rel=1e-12)
    own = AsyncSpeed(np.array([10 + overhead, exchange_s, overhead / 2, overhead / 3]))
    alone = replace(job, exchange=np.array([int(Exchange.ASYNC)]))
    assert rate(alone, where) == pytest.approx(
        100 * float(own.steps_per_s(np.array(workers), np.array(ps))), rel=1e-12
    )


@given(workers=st.integers(1, 8), ps=st.integers(1, 8))
def test_placement_is_optimus_on_one_server(workers: int, ps: int) -> None:
    # There only i = 0.4 s counts: the bottleneck is max(w, p) / p x 0.4 s, of Optimus's form where w >= p.
    exchange_s = 2 * 0.4 * max(workers, ps) / ps
    assert rate(profile(), [(workers, ps)]) == pytest.approx(100 / (10 / workers + exchange_s), rel=1e-12)


@pytest.mark.parametrize("placement", [[(1, 1)], [(1, 0), (0, 1)]])
def test_one_worker_and_one_server_take_equal_time_in_both_truths(placement: Placement) -> None:
    assert rate(profile(), placement) == pytest.approx(pd_ors_rate(profile(), placement), rel=1e-12)


@settings(max_examples=instances(200))
@given(
    where=PLACEMENTS,
    nic=st.sampled_from(Nic),
    exchange=st.sampled_from(Exchange),
    external=st.floats(1, 1e4),
    internal=st.floats(1, 1e4),
    more=st.floats(1, 100),
)
def test_more_bandwidth_or_speed_never_trains_slower(
    where: list[tuple[int, int]], nic: Nic, exchange: Exchange, external: float, internal: float, more: float
) -> None:
    def at(external: float, internal: float, speed: float = 1.0) -> float:
        job = profile(exchange=exchange, bandwidth_mbps=external, internal_bandwidth_mbps=internal)
        return rate(job, where, nic, speed=[speed] * len(where)) * (1 + 1e-12)

    assert at(external * more, internal) >= at(external, internal) / (1 + 1e-12)
    assert at(external, internal * more) >= at(external, internal) / (1 + 1e-12)
    assert at(external, internal, more) >= at(external, internal) / (1 + 1e-12)


@settings(max_examples=instances(200))
@given(
    where=PLACEMENTS,
    nic=st.sampled_from([Nic.PER_LINK, Nic.PER_TASK]),
    exchange=st.sampled_from(Exchange),
    times=st.floats(1, 100),
)
def test_one_server_is_never_slower_than_several_where_it_has_more_bandwidth(
    where: list[tuple[int, int]], nic: Nic, exchange: Exchange, times: float
) -> None:
    job = profile(exchange=exchange, internal_bandwidth_mbps=100 * times)
    packed = [(sum(w for w, _ in where), sum(p for _, p in where))]
    assert rate(job, packed, nic) * (1 + 1e-12) >= rate(job, where, nic)


def test_a_shared_interface_can_be_slower_than_two() -> None:
    # One server passes 4 x 2 slices of 0.5 x 4 s, two even ones 1 x 4 slices each: 16 s against 8 s.
    job = profile(internal_bandwidth_mbps=100)
    assert rate(job, [(4, 2)], Nic.PER_SERVER) == pytest.approx(100 / (2.5 + 32))
    assert rate(job, [(2, 1), (2, 1)], Nic.PER_SERVER) == pytest.approx(100 / (2.5 + 16))


@given(servers=st.integers(1, 3), ps=st.integers(1, 2), workers=st.integers(1, 3), data=st.data())
def test_even_placement_is_best_of_those_with_both_roles_on_every_server(
    servers: int, ps: int, workers: int, data: st.DataObject
) -> None:
    # Optimus's theorem in its restricted form: p / k and w / k each, against any other split on k servers
    # with at least one of each there.
    def split(total: int, name: str) -> list[int]:
        spare = data.draw(st.lists(st.integers(0, servers - 1), min_size=total, max_size=total), label=name)
        return [1 + spare.count(server) for server in range(servers)]

    uneven = list(
        zip(split((workers - 1) * servers, "workers"), split((ps - 1) * servers, "ps"), strict=True)
    )
    even = [(workers, ps)] * servers
    assert rate(profile(), even) * (1 + 1e-12) >= rate(profile(), uneven)


def test_many_jobs_are_rated_each_by_its_own_holdings() -> None:
    one, two = profile(), profile(batch=50)
    both = together(one, two)
    truth = placement_progress(both, ALIKE)
    rates = truth.samples_per_s(np.array([1, 0]), rows(PACKED, SPLIT))
    np.testing.assert_allclose(rates, [rate(two, PACKED), rate(one, SPLIT)])


@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    [
        ("sample_s", 0.0, "sample_s: row 0 must be above 0, is 0"),
        ("bandwidth_mbps", -1.0, "bandwidth_mbps: row 0 must be above 0, is -1"),
        ("internal_bandwidth_mbps", np.nan, "internal_bandwidth_mbps: row 0 must be above 0, is nan"),
        ("batch", 0.5, "batch: row 0 must be at least 1, is 0.5"),
        ("workers_per_ps", 0.0, "workers_per_ps: row 0 must be at least 1, is 0"),
        ("step_s", -0.1, "step_s: row 0 must be at least 0, is -0.1"),
        ("gradient_mb", np.inf, "gradient_mb: row 0 must be at least 0, is inf"),
        ("num_ps", 0, "num_ps: row 0 must be at least 1, as exchange is not all_reduce, is 0"),
    ],
)
def test_numbers_that_make_no_speed_are_refused_by_name(column: str, value: float, wanted: str) -> None:
    for truth in (placement_progress, pd_ors_progress):
        with pytest.raises(InvalidInputError, match=wanted):
            truth(profile(**{column: value}), ALIKE)


def test_servers_without_speed_and_workers_faster_than_whole_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"servers: 1 problem\n  speed: row 1 must be above 0, is 0"):
        placement_progress(profile(), np.array([1.0, 0.0]))
    with pytest.raises(InvalidInputError, match=r"straggling: row 0 must be at least 1, is 0\.5"):
        placement_progress(profile(), ALIKE, straggling=np.array([0.5]))


def test_pd_ors_has_no_form_for_rings() -> None:
    with pytest.raises(InvalidInputError, match="all_reduce"):
        pd_ors_progress(profile(exchange=Exchange.ALL_REDUCE), ALIKE)


@pytest.mark.parametrize("exchange", list(Exchange))
@given(
    batch=st.integers(1, 3),
    sample_s=st.sampled_from([0.01, 0.5, 5.0]),
    bandwidths=st.sampled_from([(100.0, 1000.0), (1000.0, 100.0), (500.0, 500.0)]),
    overheads=st.tuples(*[st.sampled_from([0.0, 0.02, 1.0])] * 3),
)
@settings(max_examples=instances(25), deadline=None)
def test_no_placement_of_as_many_workers_as_the_batch_takes_less_than_the_least_time_for_a_sample(
    exchange: Exchange,
    batch: int,
    sample_s: float,
    bandwidths: tuple[float, float],
    overheads: tuple[float, ...],
) -> None:
    """Up to F workers and F parameter servers, on two servers in all ways and each on its own."""
    names = ("step_s", "step_s_per_worker", "step_s_per_ps")
    job = profile(
        exchange=exchange, batch=batch, sample_s=sample_s, bandwidth_mbps=bandwidths[0],
        internal_bandwidth_mbps=bandwidths[1], **dict(zip(names, overheads, strict=True)),
    )  # fmt: skip
    placements: list[Placement] = []
    for w, p in itertools.product(range(1, batch + 1), repeat=2):
        placements += [[(a, b), (w - a, p - b)] for a in range(w + 1) for b in range(p + 1)]
        placements.append([(1, 0)] * w + [(0, 1)] * p)
    found = [rate(job, placement) for placement in placements]
    (least,) = least_placement_sample_s(job, ONE)
    assert 1 / max(found) >= least * (1 - 1e-12)
    if overheads[1:] == (0, 0):
        assert 1 / max(found) == pytest.approx(least)
