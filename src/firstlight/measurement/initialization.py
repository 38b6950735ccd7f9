"""Initialization ``i`` of a model: weights drawn anew by the model's own law or by a named one.

Enters: a factory, a ``Blueprint`` or a built module. Leaves: a ``Draw`` that gives the module of
initialization ``i``, drawn from child ``i`` of the seed. A built module is copied once and re-drawn in place
on the copy; the user's own object is never written to.

A built module is re-drawn by each module's ``reset_parameters`` (``_reset_parameters``), children before
parents as in construction, or by Hugging Face's own initializer; a module that owns parameters and has
neither is refused by name.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from firstlight.errors import ModelError, UsageError, one_of
from firstlight.measurement.kinds import kind_of, owns_parameters, unwrapped
from firstlight.measurement.seeding import initialization_seed, seeded, torch_seed

__all__ = ["LAWS", "Draw", "drawing", "law_of", "takes_seed"]


@dataclass
class Draw:
    """Initializations of one architecture.

    Attributes:
        description: One line for provenance.
        method: How weights are drawn, for provenance.
        module_of: The module of initialization ``i``, in the user's mode; a later call may re-draw the same
            object.
        notes: Sentences for provenance.
    """

    description: str
    method: str
    module_of: Callable[[int], nn.Module]
    notes: tuple[str, ...] = ()


def drawing(model: Any, *, seed: int, redraw: str | Callable[[nn.Module], object] | None = None) -> Draw:
    """How to draw initializations of ``model``.

    Args:
        model: A module, a factory without required arguments (one named ``seed`` is given a number), or a
            ``Blueprint``.
        seed: Names the initializations.
        redraw: ``None`` (the model's own law), ``"keep"`` (the weights as they are), a named law, or a
            callable that draws the parameters of the module it is given.
    """
    if isinstance(redraw, str) and redraw not in (*LAWS, "keep"):
        raise one_of("measure(redraw)", redraw, ["keep", *LAWS])
    if isinstance(model, nn.Module):
        inner, notes = unwrapped(model)
        return _of_module(_copied(inner), seed, redraw, notes)
    if not isinstance(model, type) and callable(getattr(model, "build", None)):
        return _of_blueprint(model, seed, redraw)
    if callable(model):
        return _of_factory(model, seed, redraw)
    raise ModelError(
        f"measure(model): expected an nn.Module, a factory that returns one, or a Blueprint, got {type(model).__name__}"
    )


# A module that exists


def _of_module(
    working: nn.Module, seed: int, redraw: str | Callable[[nn.Module], object] | None, notes: tuple[str, ...]
) -> Draw:
    name = type(working).__name__
    if redraw == "keep":
        return Draw(name, "keep", lambda index: working, notes)
    draw, method = law_of(working, redraw)
    if method == "reset_parameters":
        notes = (*notes, *_shared(working))

    def module_of(index: int) -> nn.Module:
        with seeded(initialization_seed(seed, index)), torch.no_grad():
            draw(working)
        return working

    return Draw(name, method, module_of, notes)


def law_of(
    module: nn.Module, redraw: str | Callable[[nn.Module], object] | None
) -> tuple[Callable[[nn.Module], None], str]:
    """What draws the module's parameters anew from the global generators, and its name for provenance."""
    if redraw is None:
        if _is_hugging_face(module):
            return _reset_hugging_face, "Hugging Face initializer"
        _require_resets(module, lambda item: False)
        return _reset_all, "reset_parameters"
    if isinstance(redraw, str):
        law = LAWS[redraw]
        _require_resets(module, lambda item: kind_of(item) in _BY_LAW)
        return lambda item: _by_law(item, law), redraw
    return lambda item: _by_callable(
        item, redraw
    ), f"callable {getattr(redraw, '__name__', type(redraw).__name__)}"


def _copied(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise ModelError(
            f"measure(model): {type(module).__name__} cannot be copied ({error}); pass a factory that builds it instead"
        ) from error


def _children_first(module: nn.Module) -> list[nn.Module]:
    """All modules once, children before parents, in the order in which a constructor finishes them."""
    ordered: dict[int, nn.Module] = {}

    def visit(item: nn.Module) -> None:
        for child in item.children():
            visit(child)
        ordered.setdefault(id(item), item)

    visit(module)
    return list(ordered.values())


def _reset_of(module: nn.Module) -> Callable[[], object] | None:
    """The module's own initializer, if its parameters are really its to set."""
    if nn.utils.parametrize.is_parametrized(module) or hasattr(module, "weight_g"):
        return None
    for name in ("reset_parameters", "_reset_parameters"):
        method = getattr(module, name, None)
        if callable(method):
            required = [
                parameter
                for parameter in inspect.signature(method).parameters.values()
                if parameter.default is parameter.empty
                and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            ]
            if not required:
                return method  # type: ignore[no-any-return]
    return None


def _require_resets(module: nn.Module, covered: Callable[[nn.Module], bool]) -> None:
    """Refuse, by name, modules with parameters that nothing would re-draw."""
    names = {id(item): name for name, item in module.named_modules()}
    stuck: list[str] = []

    for item in module.modules():
        name = f"{names[id(item)] or 'the model itself'} ({type(item).__name__}"
        if nn.utils.parametrize.is_parametrized(item) or hasattr(item, "weight_g"):
            stuck.append(f"{name}: parametrized weight)")
        elif (
            owns_parameters(item)
            and not covered(item)
            and _reset_of(item) is None
            and not _is_parametrization(item)
        ):
            parameters = ", ".join(key for key, value in item._parameters.items() if value is not None)
            stuck.append(f"{name}: {parameters})")
    if stuck:
        shown = "; ".join(stuck[:5]) + (f"; and {len(stuck) - 5} more" if len(stuck) > 5 else "")
        raise ModelError(
            f"measure(model): cannot re-draw {shown}: no reset_parameters method; pass a factory (lambda: Model(...)), "
            "redraw=a callable that draws a module's parameters, or inits=1 with redraw='keep' to measure it as it is"
        )


def _shared(module: nn.Module) -> list[str]:
    """Say whose law a parameter gets that belongs to several modules: resets cannot tell, a constructor can."""
    names = {id(item): name for name, item in module.named_modules()}
    owners: dict[int, list[tuple[str, nn.Module]]] = {}
    for item in _children_first(module):
        for key, value in item._parameters.items():
            if value is not None:
                owners.setdefault(id(value), []).append((f"{names[id(item)]}.{key}".lstrip("."), item))
    return [
        f"{places[0][0]} and {places[-1][0]} are one parameter, drawn by the law of the latter's "
        f"{type(places[-1][1]).__name__}; pass a factory to have it drawn as your constructor leaves it"
        for places in owners.values()
        if len(places) > 1 and len({type(item) for _, item in places}) > 1
    ]


def _is_parametrization(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn.utils.parametri")


def _reset_all(module: nn.Module) -> None:
    for item in _children_first(module):
        reset = _reset_of(item)
        if reset is not None or callable(reset := getattr(item, "reset_running_stats", None)):
            reset()


def _is_hugging_face(module: nn.Module) -> bool:
    return any(base.__name__ == "PreTrainedModel" for base in type(module).__mro__)


def _reset_hugging_face(module: nn.Module) -> None:
    """Hugging Face's own law; its marks of what is initialized are taken off first, on our copy."""
    for item in module.modules():
        item.__dict__.pop("_is_hf_initialized", None)
        for tensor in (*item.parameters(recurse=False), *item.buffers(recurse=False)):
            tensor.__dict__.pop("_is_hf_initialized", None)
        # Layers of torch that the model's initializer does not know keep the law they were built with.
        reset = _reset_of(item) if type(item).__module__.startswith("torch.nn") else None
        if reset is not None:
            reset()
    module.init_weights()  # type: ignore[operator]


# Named laws

_BY_LAW = ("dense", "convolution")


def _fans(module: nn.Module, weight: torch.Tensor) -> tuple[int, int]:
    """(fan_in, fan_out); Hugging Face's Conv1D keeps its weight transposed."""
    if type(module).__name__ == "Conv1D":
        return weight.shape[0], weight.shape[1]
    receptive = weight[0, 0].numel() if weight.ndim > 2 else 1
    first, second = weight.shape[1] * receptive, weight.shape[0] * receptive
    return (second, first) if getattr(module, "transposed", False) else (first, second)


def _kaiming_normal(module: nn.Module, weight: torch.Tensor) -> None:
    weight.normal_(0.0, float(np.sqrt(2.0 / _fans(module, weight)[0])))


def _kaiming_uniform(module: nn.Module, weight: torch.Tensor) -> None:
    bound = float(np.sqrt(6.0 / _fans(module, weight)[0]))
    weight.uniform_(-bound, bound)


def _lecun_normal(module: nn.Module, weight: torch.Tensor) -> None:
    weight.normal_(0.0, float(np.sqrt(1.0 / _fans(module, weight)[0])))


def _xavier_normal(module: nn.Module, weight: torch.Tensor) -> None:
    weight.normal_(0.0, float(np.sqrt(2.0 / sum(_fans(module, weight)))))


def _xavier_uniform(module: nn.Module, weight: torch.Tensor) -> None:
    bound = float(np.sqrt(6.0 / sum(_fans(module, weight))))
    weight.uniform_(-bound, bound)


def _orthogonal(module: nn.Module, weight: torch.Tensor) -> None:
    nn.init.orthogonal_(weight, gain=float(np.sqrt(2.0)))


LAWS: dict[str, Callable[[nn.Module, torch.Tensor], None]] = {
    "kaiming_normal": _kaiming_normal,
    "kaiming_uniform": _kaiming_uniform,
    "lecun_normal": _lecun_normal,
    "orthogonal": _orthogonal,
    "xavier_normal": _xavier_normal,
    "xavier_uniform": _xavier_uniform,
}
"""Laws of the weights of dense and convolutional layers, by fan_in; biases become 0, everything else keeps
its own law.

Kaiming and orthogonal carry the gain √2 of a ReLU, LeCun and Xavier the gain 1.
"""


def _by_law(module: nn.Module, law: Callable[[nn.Module, torch.Tensor], None]) -> None:
    for item in _children_first(module):
        if kind_of(item) in _BY_LAW:
            weight, bias = item.weight, getattr(item, "bias", None)
            if not isinstance(weight, torch.Tensor):
                raise ModelError(f"measure(redraw): {type(item).__name__}.weight is no tensor")
            law(item, weight)
            if isinstance(bias, torch.Tensor):
                bias.zero_()
        elif (reset := _reset_of(item)) is not None:
            reset()


def _by_callable(module: nn.Module, draw: Callable[[nn.Module], object]) -> None:
    for item in _children_first(module):
        if (reset := _reset_of(item)) is not None:
            reset()
    for item in _children_first(module):
        draw(item)


# A factory, a Blueprint


def _built(factory: Callable[..., Any], named: bool, seed: int, index: int) -> nn.Module:
    sequence = initialization_seed(seed, index)
    with seeded(sequence):
        module = factory(seed=torch_seed(sequence)) if named else factory()
    if not isinstance(module, nn.Module):
        raise ModelError(
            f"measure(model): the factory returned a {type(module).__name__}; expected an nn.Module"
        )
    return module


def _of_factory(
    factory: Callable[..., Any], seed: int, redraw: str | Callable[[nn.Module], object] | None
) -> Draw:
    named = takes_seed(factory)
    description = getattr(factory, "__qualname__", type(factory).__name__)
    first = _built(factory, named, seed, 0)
    inner, notes = unwrapped(first)
    title = f"{description} → {type(inner).__name__}" if description != type(inner).__name__ else description
    if redraw is not None:
        draw = _of_module(_copied(inner), seed, redraw, notes)
        return Draw(title, draw.method, draw.module_of, notes)
    previous = [first]
    expected = _architecture(inner)

    def module_of(index: int) -> nn.Module:
        built = _built(factory, named, seed, index)
        if index and (other := _first_difference(expected, _architecture(unwrapped(built)[0]))) is not None:
            raise ModelError(
                f"measure(model): {description} builds another architecture at initialization {index}: {other}; "
                "expected the same layers and shapes at each call, with other weights"
            )
        if built is previous[0]:
            raise ModelError(
                f"measure(model): {description} returned the same module twice; expected a new one at each call; "
                "pass the module itself to have a copy of it re-drawn"
            )
        previous[0] = built
        return unwrapped(built)[0]

    return Draw(title, "factory", module_of, notes)


def _architecture(module: nn.Module) -> dict[str, tuple[int, ...] | None]:
    """Shapes of the parameters by name; ``None`` for those that wait for the first batch."""
    return {
        name: None if isinstance(value, UninitializedParameter) else tuple(value.shape)
        for name, value in module.named_parameters()
    }


def _first_difference(
    first: dict[str, tuple[int, ...] | None], second: dict[str, tuple[int, ...] | None]
) -> str | None:
    if first == second:
        return None
    for name in (*first, *second):
        if name not in first or name not in second:
            return f"{name} is only in {'initialization 0' if name in first else 'it'}"
        if first[name] != second[name]:
            return f"{name} has the shape {second[name]}, and {first[name]} in initialization 0"
    return None


def takes_seed(factory: Callable[..., Any]) -> bool:
    """Whether the factory has an argument named ``seed``; other required arguments cannot be guessed."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    missing = [
        item.name
        for item in parameters
        if item.default is item.empty and item.kind not in variable and item.name != "seed"
    ]
    if missing:
        raise UsageError(
            f"measure(model): the factory {getattr(factory, '__name__', factory)!s} requires {', '.join(missing)}; "
            "expected a factory without required arguments (wrap it: lambda: factory(...))"
        )
    return any(item.name == "seed" for item in parameters)


def _of_blueprint(blueprint: Any, seed: int, redraw: str | Callable[[nn.Module], object] | None) -> Draw:
    description = str(blueprint)
    working: nn.Module = blueprint.build(seed=torch_seed(initialization_seed(seed, 0)))
    if redraw is not None:
        draw = _of_module(working, seed, redraw, ())
        return Draw(description, draw.method, draw.module_of)

    def module_of(index: int) -> nn.Module:
        """What ``build`` with this seed makes, without making a module."""
        number = torch_seed(initialization_seed(seed, index))
        blueprint.initialize(working, torch.Generator().manual_seed(number))
        return working

    return Draw(description, "Blueprint", module_of)
