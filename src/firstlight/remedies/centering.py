r"""Centre the inputs, or shift them until the untrained network is as biased as is wanted.

Enters: a model and data. Leaves: a model that subtracts a constant from its inputs before it does anything else,

.. math:: x \mapsto x - m + a,

with :math:`m` the mean of the data per channel, per pixel (per feature), or of all numbers at once. Alone that is
centring, :math:`a = 0`. With a chosen γ, :math:`a ≥ 0` is the constant shift that gives γ of the output this value, the
knob by which Francazi et al. tune the bias: a constant on all pixels is a centre that all inputs
share, :math:`C = σ_w^2 |m - a|^2/d` behind the first map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from scipy.optimize import brentq
from torch import Tensor, nn

from firstlight.errors import CouldNotError, DataError, UsageError, one_of
from firstlight.measurement.batches import Batch, as_batches
from firstlight.measurement.initialization import law_of
from firstlight.measurement.measuring import measure
from firstlight.remedies.duplicating import duplicate, require_ordinary
from firstlight.remedies.foreseeing import fitting, foreseen_gamma, points_of, readable
from firstlight.results.change import Edit, Edits

__all__ = ["CenteredInput", "InputShift", "data_centering"]

_PER = ("channel", "pixel", "constant")
_BY = ("theory", "measurement")
_DOUBLINGS = 20
"""The shift is looked for up to 2²⁰ standard deviations."""
_EXACT, _CLOSE = 1e-6, 1e-2
"""Relative precision of the shift, by theory and by measurement."""


class InputShift(nn.Module):
    """Subtracts a constant.

    Args:
        amount: What is subtracted, in a shape that one sample takes.
    """

    def __init__(self, amount: Tensor) -> None:
        super().__init__()
        self.register_buffer("amount", amount)
        self.amount: Tensor  # not of the class: scripting would read that as a word

    def forward(self, x: Tensor) -> Tensor:
        """Values of the same shape."""
        return x - self.amount

    def extra_repr(self) -> str:
        """The shape, or the number."""
        return f"{float(self.amount):.4g}" if self.amount.numel() == 1 else f"{tuple(self.amount.shape)}"


class CenteredInput(nn.Module):
    """A model behind a shift of its one input."""

    def __init__(self, shift: InputShift, model: nn.Module) -> None:
        super().__init__()
        self.shift, self.model = shift, model

    def forward(self, x: Tensor) -> Any:
        """What the model says of the shifted input."""
        return self.model(self.shift(x))


class _CenteredCall(nn.Module):
    """A model behind a shift of one of its arguments, by place or by name."""

    def __init__(self, shift: InputShift, model: nn.Module, name: str) -> None:
        super().__init__()
        self.shift, self.model, self.name = shift, model, name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.name in kwargs:
            kwargs = {**kwargs, self.name: self.shift(kwargs[self.name])}
        elif args:
            args = (self.shift(args[0]), *args[1:])
        return self.model(*args, **kwargs)

    def extra_repr(self) -> str:
        return self.name


def data_centering(
    model: nn.Module,
    data: Any,
    *,
    per: str = "channel",
    axis: int | None = None,
    gamma: float | None = None,
    by: str = "theory",
    center: Tensor | None = None,
    drawn: Callable[[], nn.Module] | None = None,
    trials: int = 32,
    mode: str = "train",
    in_place: bool = False,
) -> tuple[nn.Module, Edits]:
    """Put a module in front of the model that subtracts the mean of the data.

    Args:
        model: The model; a copy is put behind the shift.
        data: Whatever ``measure`` takes.
        per: One mean for each ``"channel"``, for each ``"pixel"`` (feature), or one ``"constant"`` for all numbers.
        axis: Axis of the channels; by default 1 for inputs of four axes and more, else the last.
        gamma: γ of the output that is wanted: a constant is then added behind the mean until it is reached.
        by: Whether γ is what ``"theory"`` predicts on these data or a ``"measurement"``.
        center: What is subtracted, instead of the mean of the data.
        drawn: Makes the model anew with other weights, for measuring; by default the model's own law does. ``repair``
            gives the factory's.
        trials: Initializations of each measurement.
        mode: Which statistics batch norm uses, for measuring.
        in_place: Put the model itself behind the shift; the module that is returned is the one to use.

    Returns:
        The new model, and one edit.

    >>> net, edits = data_centering(nn.Linear(2, 2), torch.tensor([[0.0, 2.0], [2.0, 4.0]]))
    >>> net.shift.amount.tolist()
    [1.0, 3.0]
    """
    require_ordinary(model, "data_centering")
    for option, value, known in (("per", per, _PER), ("by", by, _BY)):
        if value not in known:
            raise one_of(f"data_centering({option})", value, known)
    if gamma is not None and not gamma > 0:
        raise UsageError(f"data_centering(gamma): expected a number above 0, got {gamma!r}")
    name, named = _argument(data)
    found = _Means(per, axis)
    if center is None:
        for batch in _batches(data):
            found.take(_value(batch, name, named))
    mean = found.mean() if center is None else torch.as_tensor(center).double()
    notes: tuple[str, ...] = ()
    if gamma is not None:
        question = _Question(model, data, name, named, mean, mode, trials, drawn)
        amount, reached = _solved(
            question.foreseen() if by == "theory" else question.measured, gamma, by, data, mean
        )
        mean = mean - amount
        notes = (
            f"γ of the output, by {by}: {reached:.4g} at a constant shift of {amount:+.4g} behind the mean",
        )
    first = next((item for item in model.parameters() if item.is_floating_point()), torch.zeros(()))
    inner = model if in_place else duplicate(model, "data_centering")
    made = _in_front(inner, mean.to(first.device, first.dtype), name, named)
    title = {"channel": "each channel", "pixel": "each pixel", "constant": "all numbers"}[per]
    edit = Edit(
        "", "put a shift in front", "the inputs as they are", f"the inputs minus {_told(mean, title)}"
    )
    return made, Edits((edit,), notes=notes, settled={"center": mean, "gamma": None})


def _in_front(model: nn.Module, amount: Tensor, name: str, named: bool) -> nn.Module:
    shift = InputShift(amount)
    made = _CenteredCall(shift, model, name) if named else CenteredInput(shift, model)
    made.training = shift.training = model.training
    return made


# The data


class _Means:
    """Sums over samples, and over whatever does not get a mean of its own."""

    def __init__(self, per: str, axis: int | None) -> None:
        self.per, self.axis = per, axis
        self.sum: Tensor | None = None
        self.count = 0

    def take(self, values: Tensor) -> None:
        values = values.double()
        over = [0]
        if self.per == "constant":
            over = list(range(values.ndim))
        elif self.per == "channel":
            axis = self.axis if self.axis is not None else (1 if values.ndim >= 4 else -1)
            if not -values.ndim < axis < values.ndim or axis % values.ndim == 0:
                raise UsageError(
                    f"data_centering(axis): expected an axis of the inputs of shape {tuple(values.shape)} behind the "
                    f"first, got {axis}"
                )
            over = [place for place in range(values.ndim) if place != axis % values.ndim]
        part = values.sum(over, keepdim=True).squeeze(0)
        if self.per == "constant":
            part = part.reshape(())
        if self.sum is not None and self.sum.shape != part.shape:
            raise DataError(
                f"data_centering(per={self.per!r}): expected inputs of one shape, got means of {tuple(self.sum.shape)} "
                f"and {tuple(part.shape)}; take a mean per channel or one constant"
            )
        self.sum = part if self.sum is None else self.sum + part
        self.count += values.numel() // part.numel()

    def mean(self) -> Tensor:
        assert self.sum is not None  # data without a batch is refused by who reads it
        return self.sum / self.count


def _batches(data: Any) -> Any:
    batches = as_batches(data, seed=0)
    try:
        yield from batches
    finally:
        batches.close()


def _argument(data: Any) -> tuple[str, bool]:
    """Name of the argument that is shifted, and whether others come along or it comes by name."""
    batches = as_batches(data, seed=0)
    try:
        batch = batches.first()
    finally:
        batches.close()
    values: list[tuple[str, Any]] = [("", item) for item in batch.args[:1]] + list(batch.kwargs.items())
    floating = [name for name, item in values if isinstance(item, Tensor) and item.is_floating_point()]
    if not floating:
        raise DataError(
            "data_centering: expected floating-point inputs, got whole numbers (tokens?), whose mean says nothing"
        )
    return floating[0], bool(batch.kwargs) or len(batch.args) > 1


def _value(batch: Batch, name: str, named: bool) -> Tensor:
    value = batch.kwargs[name] if named and name else batch.args[0]
    if not isinstance(value, Tensor) or not bool(torch.isfinite(value.sum())):
        raise DataError(
            f"data_centering: expected finite inputs, got {type(value).__name__} with NaN or infinity"
        )
    return value


# The knob


class _Question:
    """γ of the output as a function of the constant that is added behind the mean."""

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        name: str,
        named: bool,
        mean: Tensor,
        mode: str,
        trials: int,
        drawn: Callable[[], nn.Module] | None,
    ) -> None:
        self.model, self.data, self.name, self.named, self.mean = model, data, name, named, mean
        self.mode, self.trials, self.drawn = mode, trials, drawn or self._by_law()

    def _by_law(self) -> Callable[[], nn.Module]:
        def draw() -> nn.Module:
            module = duplicate(self.model, "data_centering")
            with torch.no_grad():
                law_of(module, None)[0](module)
            return module

        return draw

    def foreseen(self) -> Callable[[float], float]:
        points, total = points_of(self.data, "data_centering(gamma)")
        blueprint = readable(self.model, points, "data_centering(gamma)")
        points = fitting(blueprint, points, "data_centering(gamma)")

        def gamma(amount: float) -> float:
            shifted = points.double() - self.mean + amount
            return foreseen_gamma(blueprint, shifted, total, "data_centering(gamma)")

        return gamma

    def measured(self, amount: float) -> float:
        def shifted() -> nn.Module:
            made = self.drawn()
            first = next((item for item in made.parameters() if item.is_floating_point()), torch.zeros(()))
            return _in_front(made, (self.mean - amount).to(first.device, first.dtype), self.name, self.named)

        profile = measure(
            shifted,
            self.data,
            inits=self.trials,
            mode=self.mode,
            quantities=["gamma"],
            layers="output",
            progress=False,
        )
        return float(profile.gamma[-1])


def _solved(
    gamma_of: Callable[[float], float], wanted: float, by: str, data: Any, mean: Tensor
) -> tuple[float, float]:
    """The least constant that gives the wanted γ, and γ there."""
    where = "data_centering(gamma)"
    lowest = gamma_of(0.0)
    if wanted <= lowest:
        raise CouldNotError(
            f"{where}: centred data already give γ = {lowest:.4g} by {by}, and a shift only raises it; got "
            f"gamma={wanted:g}; centre per='pixel', or change the network by another remedy"
        )
    points = next(iter(_batches(data)))
    size = float(next(item for item in points.tensors if item.is_floating_point()).double().std()) or 1.0
    low, high, reached = 0.0, size, lowest
    for _ in range(_DOUBLINGS):
        reached = gamma_of(high)
        if reached >= wanted:
            break
        low, high = high, 2 * high
    else:
        raise CouldNotError(
            f"{where}: γ of the output is {lowest:.4g} for centred data and {reached:.4g} by {by} for a shift of "
            f"{high:.3g}; got gamma={wanted:g}; a norm at the beginning may take the shift away"
        )
    precision = _EXACT if by == "theory" else _CLOSE
    amount = float(
        brentq(lambda amount: gamma_of(amount) - wanted, low, high, rtol=precision, xtol=precision * high)
    )
    return amount, gamma_of(amount)


def _told(mean: Tensor, title: str) -> str:
    if mean.numel() == 1:
        return f"{float(mean):.4g}"
    return f"the mean of {title}, {float(mean.min()):.3g} … {float(mean.max()):.3g}"
