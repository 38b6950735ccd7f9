"""Batches for theory and measurement: Gaussian blobs, and public data sets from disk or by verified download.

Enters: a name such as ``"cifar10:c2-b,samples=512,standardize=papers"``, or the files of a data set.
Leaves: ``Samples`` (inputs, labels and one line that says what they are), usable as a torch ``Dataset``.
A new data set is one loader file, one entry in ``published.py`` and one line in ``loading.py``.
Read ``samples.py`` first, then ``loading.py``. Names resolve lazily: listing the data sets imports no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstlight.data.batching import Batches as Batches
    from firstlight.data.cifar import cifar10 as cifar10
    from firstlight.data.cifar import cifar100 as cifar100
    from firstlight.data.gaussian import gaussian_blobs as gaussian_blobs
    from firstlight.data.gaussian import gaussian_noise as gaussian_noise
    from firstlight.data.isbi2012_slices import isbi2012 as isbi2012
    from firstlight.data.loading import load as load
    from firstlight.data.loading import names as names
    from firstlight.data.mnist_digits import mnist as mnist
    from firstlight.data.samples import Samples as Samples
    from firstlight.data.tiny_imagenet_pictures import tiny_imagenet as tiny_imagenet

# Modules are not named after the functions in them: a submodule, once imported, would hide the function.
_HOMES = {
    "Batches": "batching",
    "Samples": "samples",
    "cifar10": "cifar",
    "cifar100": "cifar",
    "gaussian_blobs": "gaussian",
    "gaussian_noise": "gaussian",
    "isbi2012": "isbi2012_slices",
    "load": "loading",
    "mnist": "mnist_digits",
    "names": "loading",
    "tiny_imagenet": "tiny_imagenet_pictures",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(
            f"module 'firstlight.data' has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    value = getattr(import_module(f"firstlight.data.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
