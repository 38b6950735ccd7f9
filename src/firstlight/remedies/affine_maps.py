r"""The affine maps of a model, :math:`u = W x + b`: where each is, and how its weight is scaled and its bias set.

Enters: a model. Leaves: its ``AffineMap``s in the order of their definition, and what holds weights but is none.

Dense and convolutional layers are maps, and so are the four projections of ``nn.MultiheadAttention``, which keeps three
of them in one tensor. A weight may be a parameter, the product of a parametrization (weight norm, old and new), or a
pruned one; whether it can be scaled shows when it is tried. Maps with the same weight tensor have the same
``weight_key``, maps with the same bias tensor the same ``bias_key``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import UninitializedParameter
from torch.utils.hooks import RemovableHandle

from firstlight.errors import ModelError
from firstlight.measurement.kinds import kind_of, owns_parameters
from firstlight.results.change import Left

__all__ = ["PROJECTIONS", "AffineMap", "affine_maps", "owners_elsewhere"]

_MAPS = ("dense", "convolution")
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_PLAIN = {nn.Linear.forward, *(layer.forward for layer in _CONVOLUTIONS)}
PROJECTIONS = ("query", "key", "value")
_IGNORED = ("norm", "channel norm", "embedding", "activation", "container", "pass")


class AffineMap:
    """One affine map; see the module.

    Args:
        address: Name of its module.
        module: The module.
        part: ``""``, or which of the projections of an attention.
    """

    def __init__(self, address: str, module: nn.Module, part: str = "") -> None:
        self.address, self.module, self.part = address, module, part
        self.caller, self.holder = address, module
        if part == "output":
            self.holder = module.out_proj  # type: ignore[assignment]
            self.address = f"{address}.out_proj"

    @property
    def key(self) -> tuple[str, str]:
        """Tells it apart from all other maps of the model."""
        return self.address, self.part

    @property
    def title(self) -> str:
        """What it is, in words."""
        kind = type(self.module).__name__.removeprefix("Parametrized")
        return f"{self.part} projection of {kind}" if self.part else kind

    @property
    def is_plain(self) -> bool:
        """Whether its class is known to do no more than W x + b."""
        return (
            bool(self.part) or type(self.module).forward in _PLAIN or type(self.module).__name__ == "Conv1D"
        )

    @property
    def axis(self) -> int:
        """Axis of units of its output, from the end."""
        return -1 - len(self.module.kernel_size) if kind_of(self.module) == "convolution" else -1  # type: ignore[arg-type]

    # The weight

    def weight(self) -> Tensor:
        """Its weight as it acts."""
        if self.part in PROJECTIONS:
            return self._projection()
        computing = [item for item in self.holder.modules() if item is not self.holder and item.training]
        for item in computing:
            item.training = (
                False  # spectral norm goes on with its iteration whenever it is looked at in training
            )
        weight = self.holder.weight
        for item in computing:
            item.training = True
        assert isinstance(weight, Tensor)
        return weight.detach()

    @property
    def weight_key(self) -> tuple[int, str]:
        """Identity of what holds the weight."""
        part = self.part if self.part in PROJECTIONS and self._is_packed else ""
        return id(self._stored_weights()[0]), part

    @property
    def bias_key(self) -> tuple[int, str] | None:
        """Identity of the bias; ``None`` without one."""
        bias = self._bias_parameter()
        part = self.part if self.part in PROJECTIONS else ""
        return None if bias is None else (id(bias), part)

    def obstacle(self, owners: dict[int, set[int]]) -> str:
        """Why it may not be changed, or nothing.

        Args:
            owners: By identity of a parameter, the identities of the modules that hold it.
        """
        bias = self._bias_parameter()
        for name, tensor in (
            *(("weight", item) for item in self._stored_weights()),
            *([] if bias is None else [("bias", bias)]),
        ):
            if not tensor.is_floating_point():
                return f"its {name} is {str(tensor.dtype).removeprefix('torch.')}"
            if isinstance(tensor, nn.Parameter) and not tensor.requires_grad:
                return f"its {name} is frozen (requires_grad=False)"
            if owners.get(id(tensor)):
                return f"its {name} also belongs to a module that is no affine map (an embedding, as a rule)"
        return ""

    @torch.no_grad()
    def scale(self, factor: float) -> bool:
        """Multiply the weight; whether that was possible."""
        holder = self.holder
        if self.part in PROJECTIONS:
            self._projection().mul_(factor)
            return True
        if nn.utils.parametrize.is_parametrized(holder, "weight"):
            return self.assign(self.weight() * factor)
        for name in ("weight_g", "weight_orig"):  # weight norm by a hook; pruning
            stored = holder._parameters.get(name)
            if stored is not None:
                if name == "weight_orig" and not hasattr(holder, "weight_mask"):
                    return False  # spectral norm divides any scale away again
                stored.mul_(factor)
                return True
        self._stored_weights()[0].mul_(factor)
        return True

    @torch.no_grad()
    def assign(self, weight: Tensor) -> bool:
        """Set the weight; whether that was possible."""
        holder = self.holder
        if self.part in PROJECTIONS:
            self._projection().copy_(weight)
            return True
        if nn.utils.parametrize.is_parametrized(holder, "weight"):
            try:
                holder.weight = weight.clone()
            except (NotImplementedError, RuntimeError, ValueError):  # no inverse, or not for this weight
                return False
            return bool(
                torch.allclose(self.weight(), weight, rtol=1e-3, atol=1e-5 * float(weight.abs().max()))
            )
        if "weight" not in holder._parameters:
            return False
        self._stored_weights()[0].copy_(weight)
        return True

    def stored(self) -> list[Tensor]:
        """Copies of what holds the weight."""
        return [tensor.detach().clone() for tensor in self._stored_weights()]

    @torch.no_grad()
    def restore(self, stored: list[Tensor]) -> None:
        """Put copies back."""
        for tensor, values in zip(self._stored_weights(), stored, strict=True):
            tensor.copy_(values)

    # The bias

    def bias(self) -> Tensor | None:
        """A copy of its bias as it acts."""
        stored = self._bias_parameter()
        if stored is None:
            return None
        return self._bias_slice(stored).clone()

    @torch.no_grad()
    def set_bias(self, value: Tensor) -> None:
        """Write the bias."""
        stored = self._bias_parameter()
        assert stored is not None
        self._bias_slice(stored).copy_(value)

    def create_bias(self) -> None:
        """Give it a bias of zeros."""
        weight = self.weight()
        units = weight.shape[0]
        if self.part in PROJECTIONS:
            units = 3 * units
        elif getattr(self.holder, "transposed", False):
            units = weight.shape[1] * int(self.holder.groups)  # type: ignore[arg-type]
        elif type(self.holder).__name__ == "Conv1D":
            units = weight.shape[1]
        zeros = torch.zeros(units, dtype=weight.dtype, device=weight.device)
        setattr(*self._bias_place, nn.Parameter(zeros))

    def remove_bias(self) -> None:
        """Take the bias away again."""
        setattr(*self._bias_place, None)

    # The map at work

    def hooked(self, model: nn.Module, stop: Callable[..., Any]) -> RemovableHandle:
        """Show each output to ``stop`` (key, output, how to compute it again), and go on with what it returns.

        Args:
            model: A copy of the model.
            stop: What is shown.
        """
        module = model.get_submodule(self.caller)
        if self.part in PROJECTIONS:
            return module.register_forward_pre_hook(self._before_attention(stop), with_kwargs=True)

        def show(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            if self.part and isinstance(output, tuple):
                return (stop(self.key, output[0], lambda: output[0]), *output[1:])
            return stop(self.key, output, lambda: module.forward(*args, **kwargs))

        return module.register_forward_hook(show, with_kwargs=True, prepend=True)

    def _before_attention(self, stop: Callable[..., Any]) -> Callable[..., None]:
        """Compute one projection by itself: the attention will compute it again, with what has become of it."""

        def show(module: nn.Module, args: Any, kwargs: Any) -> None:
            place = PROJECTIONS.index(self.part)
            given = args[place] if place < len(args) else kwargs[self.part]
            output = functional.linear(given, self.weight(), self.bias())
            stop(self.key, output, lambda: output)

        return show

    # Where things are kept

    @property
    def _is_packed(self) -> bool:
        return self.module._parameters.get("in_proj_weight") is not None

    def _projection(self) -> Tensor:
        """A view of the rows of one projection."""
        if not self._is_packed:
            stored = self.module._parameters[f"{self.part[0]}_proj_weight"]
            assert stored is not None
            return stored.detach()
        return self._stored_weights()[0].detach().chunk(3)[PROJECTIONS.index(self.part)]

    def _stored_weights(self) -> list[Tensor]:
        """Parameters that the weight is made of, the one that names it first."""
        holder = self.holder
        if self.part in PROJECTIONS:
            name = "in_proj_weight" if self._is_packed else f"{self.part[0]}_proj_weight"
            return [self.module._parameters[name]]  # type: ignore[list-item]
        if nn.utils.parametrize.is_parametrized(holder, "weight"):
            return list(holder.parametrizations.weight.parameters(recurse=False))  # type: ignore[union-attr]
        found = [holder._parameters.get(name) for name in ("weight", "weight_orig", "weight_v", "weight_g")]
        kept = [item for item in found if item is not None]
        weight = getattr(holder, "weight", None)
        return list(kept) if kept else [weight] if isinstance(weight, Tensor) else []

    @property
    def _bias_place(self) -> tuple[nn.Module, str]:
        return (self.module, "in_proj_bias") if self.part in PROJECTIONS else (self.holder, "bias")

    def _bias_parameter(self) -> Tensor | None:
        found = getattr(*self._bias_place, None)
        return found if isinstance(found, Tensor) else None

    def _bias_slice(self, stored: Tensor) -> Tensor:
        stored = stored.detach()
        return stored.chunk(3)[PROJECTIONS.index(self.part)] if self.part in PROJECTIONS else stored


def affine_maps(model: nn.Module, where: str = "affine_maps") -> tuple[list[AffineMap], list[Left]]:
    """All maps, and the modules that hold weights in another way.

    >>> [item.title for item in affine_maps(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Conv1d(3, 1, 1)))[0]]
    ['Linear', 'Conv1d']
    """
    for address, module in model.named_modules():
        if any(isinstance(tensor, UninitializedParameter) for tensor in module._parameters.values()):
            raise ModelError(
                f"{where}: {address or 'the model itself'} ({type(module).__name__}) is lazy and has no weights yet; "
                "run the model once first"
            )
    maps: list[AffineMap] = []
    left: list[Left] = []
    inside: set[int] = set()
    for address, module in model.named_modules():
        kind = kind_of(module)
        if id(module) in inside or "parametrizations" in address.split("."):
            continue
        if kind == "attention":
            maps += [AffineMap(address, module, part) for part in (*PROJECTIONS, "output")]
            inside.update(id(item) for item in module.modules())
        elif kind in _MAPS:
            maps.append(AffineMap(address, module))
        elif kind not in _IGNORED and owns_parameters(module):
            left.append(
                Left(
                    address, f"{type(module).__name__} holds weights, and is no dense or convolutional layer"
                )
            )
        elif kind == "container" and owns_parameters(module):
            names = [
                name for name, value in module._parameters.items() if value is not None and value.ndim > 1
            ]
            if names:
                left.append(
                    Left(address, f"its own parameters ({', '.join(names)}) are used inside its forward")
                )
    return maps, left


def owners_elsewhere(model: nn.Module, maps: list[AffineMap]) -> dict[int, set[int]]:
    """By identity of each parameter, the modules that hold it and are no part of an affine map."""
    holders: dict[int, set[int]] = {}
    mine = {id(part) for item in maps for part in (*item.module.modules(), *item.holder.modules())}
    for module in model.modules():
        if id(module) in mine:
            continue
        for tensor in module._parameters.values():
            if tensor is not None:
                holders.setdefault(id(tensor), set()).add(id(module))
    return holders
