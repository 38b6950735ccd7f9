"""Load a data set by name, with a task and options in one line: what the command line's ``--data`` takes.

Enters: ``NAME[:ITEM,ITEM,…]``. An item is a task of the papers (``c2-b``), a class (``cat``), classes merged into one
(``cat+dog``), or an option (``samples=512``). Leaves: ``Samples``.

Whatever the order of the items, the steps are: read, choose classes, draw samples, standardize, shift, flatten (before
standardizing when that is ``batch``, so that constant pixels can be dropped).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from firstlight.errors import UsageError, one_of

if TYPE_CHECKING:
    from firstlight.data.samples import Samples

__all__ = ["TASKS", "load", "names"]

TASKS: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "cifar10": {
        # Norm-placement paper, G.1: cat against dog, and vehicles against animals (bird, frog and ship take no part).
        "c2-a": {"cat": ("cat",), "dog": ("dog",)},
        "c2-b": {
            "vehicles": ("airplane", "automobile", "truck"),
            "animals": ("cat", "deer", "dog", "horse"),
        },
    },
    "mnist": {"even-odd": {"even": ("0", "2", "4", "6", "8"), "odd": ("1", "3", "5", "7", "9")}},
}
"""Ready-made tasks of the papers: data set → task → new label → classes."""


def load(name: str, **options: Any) -> Samples:
    """Load a data set by name.

    Args:
        name: ``"gaussian"``, ``"mnist:3,8"``, ``"cifar10:c2-b,samples=512,standardize=papers"``; see ``names()``.
        **options: The same options as in the line.

            - For all: ``samples`` (draw so many), ``first`` (take the first so many), ``seed`` (0),
              ``standardize`` (``papers``, ``per-channel``, ``batch``, ``none`` or MEAN/STD), ``shift`` (0), ``inside``
              (true), ``flatten`` (false).
            - From disk: ``train`` (true), ``root``, ``download`` (true).
            - ``gaussian``: ``train`` (true), ``dimensions``, ``classes``, ``center``, ``samples_per_class``.
            - ``noise``: ``dimensions``, ``mean``, ``variance``.
            - ``cifar100``: ``labels`` (``fine`` or ``coarse``).

    >>> load("gaussian:samples=6,dimensions=3,seed=1")
    <Samples: Gaussian blobs train (seed 1, 2 classes, centres ±0.57735): 6 samples of shape (3,), 2 labels>
    """
    key, items, written = _parsed(name)
    twice = sorted(set(written) & set(options))
    if twice:
        raise UsageError(
            f"load({name!r}): option {twice[0]!r} is given twice, in the name and as an argument; give it once"
        )
    known = {**_COMMON, **_LOADERS[key][2]}
    given = {}
    for option, value in {**written, **options}.items():
        if option not in known:
            raise one_of(f"load({name!r}): option", option, known)
        given[option] = known[option](value, f"load({name!r}): {option}") if isinstance(value, str) else value
    return _prepared(key, _groups(key, items), given)


def names() -> list[str]:
    """All names that ``load`` takes, with the ready-made tasks.

    >>> names()[:5]
    ['gaussian', 'noise', 'cifar10', 'cifar10:c2-a', 'cifar10:c2-b']
    """
    return [full for key in _LOADERS for full in (key, *(f"{key}:{task}" for task in TASKS.get(key, {})))]


def _prepared(key: str, groups: Mapping[str, tuple[str, ...]], given: dict[str, Any]) -> Samples:
    module, function, own = _LOADERS[key]
    draws_its_own = key in _DRAWN or (key == "tiny-imagenet" and not groups)
    passed = own.keys() & given.keys()
    if draws_its_own:
        passed |= {"samples", "seed"} & given.keys()
    loader: Callable[..., Samples] = getattr(import_module(f"firstlight.data.{module}"), function)
    samples = loader(**{option: given[option] for option in passed})
    if groups:
        samples = samples.merge(groups)
    if "samples" in given and not draws_its_own:
        samples = samples.subset(given["samples"], seed=given.get("seed", 0))
    if "first" in given:
        samples = samples.first(given["first"])
    how = given.get("standardize")
    if given.get("flatten") and how == "batch":
        samples = samples.flatten()
    samples = samples.standardize(how).shift(given.get("shift", 0.0), inside=given.get("inside", True))
    return samples.flatten() if given.get("flatten") else samples


def _parsed(name: str) -> tuple[str, list[str], dict[str, str]]:
    head, _, rest = name.partition(":")
    key = head.strip().lower().replace("_", "-")
    if key not in _LOADERS:
        raise one_of("load(name)", head, _LOADERS)
    items, options = [], {}
    for item in (part.strip() for part in rest.split(",") if part.strip()):
        option, equals, value = item.partition("=")
        if not equals:
            items.append(item)
        elif option.strip() in options:
            raise UsageError(f"load({name!r}): option {option.strip()!r} is given twice; give it once")
        else:
            options[option.strip()] = value.strip()
    return key, items, options


def _groups(key: str, items: list[str]) -> Mapping[str, tuple[str, ...]]:
    """New label → classes."""
    tasks = TASKS.get(key, {})
    for item in items:
        if item.lower() in tasks:
            if len(items) > 1:
                raise UsageError(
                    f"{key}: expected one task or a list of classes, got {', '.join(items)}; load them one by one"
                )
            return tasks[item.lower()]
    groups = {item: tuple(part.strip() for part in item.split("+")) for item in items}
    if len(groups) < len(items):
        raise UsageError(
            f"{key}: a class is listed twice in {', '.join(items)}; a class belongs to one group"
        )
    return groups


def _whole(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{where}: expected a whole number, got {text!r}") from None


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{where}: expected a number, got {text!r}") from None


def _truth(text: str, where: str) -> bool:
    answers = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in answers:
        raise one_of(where, text, answers)
    return answers[text.lower()]


def _word(text: str, where: str) -> str:
    return text


def _standardization(text: str, where: str) -> Any:
    """A named way, or MEAN/STD."""
    if text.lower() in ("papers", "per-channel", "batch"):
        return text.lower()
    if text.lower() == "none":
        return None
    mean, slash, deviation = text.partition("/")
    if not slash:
        raise one_of(where, text, ["papers", "per-channel", "batch", "none", "MEAN/STD"])
    return _number(mean, where), _number(deviation, where)


_Parser = Callable[[str, str], Any]

_COMMON: dict[str, _Parser] = {
    "samples": _whole,
    "first": _whole,
    "seed": _whole,
    "standardize": _standardization,
    "shift": _number,
    "inside": _truth,
    "flatten": _truth,
}

_ON_DISK: dict[str, _Parser] = {"train": _truth, "root": _word, "download": _truth}

# Name → module, function, options of its own.
_LOADERS: dict[str, tuple[str, str, dict[str, _Parser]]] = {
    "gaussian": (
        "gaussian",
        "gaussian_blobs",
        {
            "train": _truth,
            "dimensions": _whole,
            "classes": _whole,
            "center": _number,
            "samples_per_class": _whole,
        },
    ),
    "noise": ("gaussian", "gaussian_noise", {"dimensions": _whole, "mean": _number, "variance": _number}),
    "cifar10": ("cifar", "cifar10", _ON_DISK),
    "cifar100": ("cifar", "cifar100", {"labels": _word, **_ON_DISK}),
    "mnist": ("mnist_digits", "mnist", _ON_DISK),
    "tiny-imagenet": ("tiny_imagenet_pictures", "tiny_imagenet", _ON_DISK),
    "isbi2012": ("isbi2012_slices", "isbi2012", _ON_DISK),
}

# Data sets that are drawn: ``samples`` and ``seed`` are the draw's own.
_DRAWN = ("gaussian", "noise")
