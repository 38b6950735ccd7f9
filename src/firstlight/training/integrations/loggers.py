"""Where records can go: functions of (dictionary, step) for ``track(log=…)``.

``wandb.log`` is such a function already. TensorBoard's writer takes one scalar at a time.
"""

from __future__ import annotations

from typing import Protocol

from firstlight.training.tracking import LogFunction

__all__ = ["ScalarWriter", "tensorboard"]


class ScalarWriter(Protocol):
    """What ``torch.utils.tensorboard.SummaryWriter`` offers."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object:
        """Write one number."""


def tensorboard(writer: ScalarWriter) -> LogFunction:
    """Hand each record to a ``SummaryWriter``."""

    def log(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return log
