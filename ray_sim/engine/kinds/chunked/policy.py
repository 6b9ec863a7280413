"""Base class of policies for chunked jobs."""

from __future__ import annotations

from typing import ClassVar

from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.chunked.context import ChunkedContext
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.kinds.chunked.view import ChunkedView


class ChunkedPolicy(Policy[ChunkedContext, ChunkedView]):
    """A scheduler of chunked jobs: it dispatches chunks to workers and places parameter servers.

    It runs under truth=a_online. It answers with a `ChunkedDecision`.
    """

    schedules: ClassVar[str] = CHUNKED
