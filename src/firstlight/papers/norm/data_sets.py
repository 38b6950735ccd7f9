"""The data sets of the norm-placement paper's perceptrons: blobs, vehicles against animals, even against odd digits.

Enters: a name and sizes. Leaves: flat ``Samples``, standardized by the constants of the paper's programs.
"""

from __future__ import annotations

from pathlib import Path

from firstlight.data.loading import load
from firstlight.data.samples import Samples

__all__ = ["TITLES", "data_set"]

TITLES = {
    "gaussian": "Gaussian blobs",
    "c2-b": "C2-B",
    "even-odd": "E&O",
    "noise": "random data",
    "cifar10": "CIFAR-10",
}

_NAMES = {
    "gaussian": "gaussian",
    "noise": "noise",
    "c2-b": "cifar10:c2-b,standardize=papers,flatten=true",
    "cifar10": "cifar10:standardize=papers,flatten=true",
    "even-odd": "mnist:even-odd,standardize=papers,flatten=true",
}


def data_set(
    name: str, samples: int | None, *, seed: int, root: Path | None = None, train: bool = True
) -> Samples:
    """So many samples of a data set, drawn by the seed; all of them for None."""
    options: dict[str, object] = {"seed": seed}
    if samples is not None:
        options["samples"] = samples
    if name != "noise":
        options["train"] = train
    if name not in ("gaussian", "noise") and root is not None:
        options["root"] = root
    loaded = load(_NAMES[name], **options)
    # as numbers once, not at every step
    return Samples.from_tensors(
        loaded.inputs,
        loaded.labels,
        label_names=loaded.label_names,
        name=loaded.name,
        title=loaded.description,
    )
