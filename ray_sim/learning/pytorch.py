"""The import of PyTorch, an optional dependency: every module that needs it imports it from here."""

from __future__ import annotations

from ray_sim.model.errors import MissingPackageError

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingPackageError(
        "training needs PyTorch, which is not installed: pip install 'ray_sim[learn]' "
        "(docs/training_harmony.md#pytorch names the index of its CPU build)"
    ) from error

__all__ = ["Tensor", "nn", "one_thread", "torch"]


def one_thread() -> None:
    """Compute with one thread in this process: equal seeds then give equal weights."""
    torch.set_num_threads(1)
