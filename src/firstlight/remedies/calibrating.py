r"""Initialize every affine map at its own call, in one forward pass of a few mini-batches that go on in step.

Enters: a model that may be changed, calibration data, and an ``Aim``. Leaves: the edits, and what was left and why.

Every mini-batch runs through a copy of the model that shares its parameters (and has buffers and modes of its own), and
stops at the output :math:`u` of each map until the other mini-batches have come there too. Over all of them, and over
positions, with :math:`u^0 = u - b` of unit :math:`i` having mean :math:`m_i` and variance :math:`v_i`, a factor
:math:`s` follows for the layer, and

.. math:: W ← s W, \qquad b_i ← -s\, m_i \text{ or } 0, \qquad u_i ← s\,(u^0_i - m_i) \text{ or } s\, u^0_i ,

after which each goes on with its new :math:`u`, which is not computed again. So everything behind the layer sees it as
it will be, batch norm sees mini-batches as in training, and each layer runs once on the data however deep the network.

Where one weight or one bias serves several calls, they are taken together: :math:`m_i, v_i` are over all of them. What
the later calls read depends on what the earlier ones gave, so the data go through again until the numbers hold.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstlight.architecture.centering import mark_centered
from firstlight.errors import ModelError, one_of
from firstlight.measurement.batches import Batch
from firstlight.measurement.kinds import batch_norms
from firstlight.measurement.layouts import arranged
from firstlight.measurement.observables import moments
from firstlight.measurement.observing import run
from firstlight.measurement.seeding import random_state_preserved
from firstlight.measurement.selecting import chosen
from firstlight.measurement.taps import Plan, scout
from firstlight.remedies.affine_maps import AffineMap, affine_maps, owners_elsewhere
from firstlight.remedies.calibration_data import CalibrationData
from firstlight.remedies.fixed_points import FixedPoint
from firstlight.remedies.strands import Strand
from firstlight.results.change import Edit, Edits, Left

__all__ = ["Aim", "calibrated"]

_PASSES = 40
"""Passes of the data at most, where a weight or a bias serves several calls; without such, there is one."""
_TOLERANCE = 3e-4
"""What is called settled then: of unit means, and of the variance about 1."""
_ALLOWED = 1e-3
"""What is refused beyond."""
_RESOLUTION = 16
"""Roundings of the largest values below which a standard deviation is no signal."""


@dataclass(frozen=True)
class Aim:
    """What becomes of each layer.

    Attributes:
        name: The remedy, for messages.
        centers: Whether biases take the mean of every unit away; else they become 0.
        about: What the variance that becomes 1 is about: ``"zero"``, ``"units"`` (each unit's own mean) or ``"layer"``
            (the mean over all units).
        epsilon: ε beside that variance, for weights of mean square 1.
    """

    name: str
    centers: bool
    about: str
    epsilon: float


@dataclass
class _Arrival:
    """A mini-batch that stands at the output of a map."""

    key: tuple[str, str]
    call: int
    output: Tensor
    again: Callable[[], Tensor]


@dataclass
class _Report:
    """What became of a map: as it was met, and as it is."""

    factor: float = 1.0
    met: tuple[float, float] = (0.0, 0.0)
    now: tuple[float, float] = (0.0, 0.0)
    calls: int = 0
    strands: int = 0


@dataclass
class _Seen:
    """What one pass of the data has seen: the calls of each tensor, and all values of each map as it left them."""

    calls: Counter[Any] = field(default_factory=Counter)
    pools: dict[tuple[str, str], moments.Moments] = field(default_factory=dict)


def calibrated(
    model: nn.Module,
    data: Any,
    aim: Aim,
    *,
    mode: str,
    batches: int,
    batch_size: int | None,
    layers: str | Iterable[str] | None,
    create_biases: bool = False,
    dropout: bool = False,
    prepare: Callable[[AffineMap], bool] | None = None,
) -> Edits:
    """Change the model; wholly, or not at all.

    Args:
        model: The model.
        data: Whatever ``measure`` takes.
        aim: What becomes of each layer.
        mode: Which statistics batch norm uses.
        batches: How many mini-batches.
        batch_size: Samples in each, where the data is ours to cut.
        layers: Names or patterns of layers.
        create_biases: Whether a layer without a bias gets one, where centring needs it.
        dropout: Whether dropout drops meanwhile.
        prepare: Draws the weight of a map anew before anything runs, and says whether it could.
    """
    if mode not in ("train", "eval"):
        raise one_of(f"{aim.name}(mode)", mode, ["train", "eval"])
    calibration = CalibrationData(data, batches=batches, batch_size=batch_size, where=aim.name)
    work = _Calibration(model, aim, mode, create_biases, dropout, layers)
    with work.undone_on_failure():
        if prepare is not None:
            work.prepare(prepare)
        with random_state_preserved(), torch.no_grad(), _plain_attention():
            return work.done(calibration)


class _Calibration:
    """One model, one aim."""

    def __init__(
        self,
        model: nn.Module,
        aim: Aim,
        mode: str,
        create_biases: bool,
        dropout: bool,
        layers: str | Iterable[str] | None,
    ) -> None:
        self.model, self.aim, self.mode = model, aim, mode
        self.create_biases, self.dropout = create_biases, dropout
        maps, self.left = affine_maps(model, aim.name)
        if not maps:
            raise ModelError(
                f"{aim.name}: found no dense or convolutional layer in {type(model).__name__}; "
                "there is nothing to initialize"
            )
        self.maps = {item.key: item for item in maps}
        self.excluded: dict[tuple[str, str], str] = {}
        self.reports: dict[tuple[str, str], _Report] = {}
        self.reused: set[Any] = set()
        self.created: dict[tuple[str, str], AffineMap] = {}
        self.copies: list[nn.Module] = []
        self.normed: dict[str, str] = {}
        self.notes: list[str] = []
        self.logs: dict[Any, float] = {}
        foreign = owners_elsewhere(model, maps)
        names = list(dict.fromkeys(item.address for item in maps))
        wanted = names if layers is None else chosen(names, [layers] if isinstance(layers, str) else layers)
        for item in maps:
            reason = "layers leaves it out" if item.address not in wanted else item.obstacle(foreign)
            if reason:
                self.excluded[item.key] = reason

    def prepare(self, prepare: Callable[[AffineMap], bool]) -> None:
        """Draw weights anew, once for each tensor."""
        drawn: set[Any] = set()
        for key, item in self.maps.items():
            if key not in self.excluded and item.weight_key not in drawn:
                drawn.add(item.weight_key)
                if not prepare(item):
                    self.excluded[key] = (
                        "its weight is computed by a parametrization that does not take another"
                    )

    def done(self, calibration: CalibrationData) -> Edits:
        """Scout, run, and tell."""
        first = next((part for part in self.model.parameters() if part.is_floating_point()), torch.zeros(()))
        plan = self._scouted(calibration.first().converted(first.dtype, first.device))
        found, words = calibration.taken(
            largest=max(
                (_numel(tap.shape) // max(tap.shape[0], 1) for tap in plan.ran if tap.shape), default=1
            ),
            together=self.mode == "train" and bool(batch_norms(self.model)),
            dtype=first.dtype,
            device=first.device,
        )
        self.notes.append(words)
        if self.aim.centers:
            self._create_biases()
        self.copies = [self._copy() for _ in found]
        return self._edits(self._settle(found, self._passed(found)))

    # Before the passes

    def _copy(self) -> nn.Module:
        """Another model with the same parameters, in the mode that was asked for."""
        memo: dict[int, object] = {id(tensor): tensor for tensor in self.model.parameters()}
        for module in self.model.modules():
            # What weight norm by a hook and pruning compute before each call cannot be copied.
            computed = [value for value in vars(module).values() if isinstance(value, Tensor)]
            memo.update({id(tensor): tensor.detach() for tensor in computed if not tensor.is_leaf})
        try:
            copied = copy.deepcopy(self.model, memo)
        except Exception as error:  # whatever a user's __deepcopy__ raises
            raise ModelError(
                f"{self.aim.name}: {type(self.model).__name__} cannot be copied ({error}), and each mini-batch runs "
                "through a copy"
            ) from error
        copied.eval()
        norms = batch_norms(copied) if self.mode == "train" else []
        drops = copied.modules() if self.dropout else []
        for module in [*norms, *(item for item in drops if isinstance(item, nn.modules.dropout._DropoutNd))]:
            module.train()
        return copied

    def _scouted(self, batch: Batch) -> Plan:
        """What runs: which norm takes the means of a map away at once, and what no map does."""
        sample, copied = batch.head(2), self._copy()
        plan, _ = scout(copied, lambda: run(copied, sample), sample.tensors)
        modules = dict(copied.named_modules())
        for tap in plan.ran:
            norm = modules[tap.name]
            over_data = isinstance(norm, nn.modules.batchnorm._NormBase) and (
                norm.training or not norm.track_running_stats
            )
            if over_data and tap.source is not None:
                self.normed[tap.source.partition("#")[0]] = tap.name
        for entry in plan.unseen:
            if entry.kind in ("linear", "bilinear") or entry.kind.startswith("conv"):
                address = "" if entry.layer == "the model itself" else entry.layer
                self.left.append(Left(address, f"{entry.kind} is {entry.reason}"))
        return plan

    def _create_biases(self) -> None:
        """Biases of zeros, where there are none and the means are not taken away anyway."""
        for key, item in self.maps.items():
            if item.bias() is not None or key in self.excluded:
                continue
            if item.address in self.normed:
                norm = self.normed[item.address]
                self.left.append(Left(item.address, f"got no bias: {norm} behind it takes the means away"))
            elif self.create_biases:
                item.create_bias()
                self.created[key] = item
            else:
                self.left.append(
                    Left(item.address, "it has no bias to center by (create_biases=True makes one)")
                )

    @contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """Whatever is raised inside, parameters are as they were."""
        before = [(tensor, tensor.detach().clone()) for tensor in self.model.parameters()]
        try:
            yield
        except BaseException:
            for item in self.created.values():
                item.remove_bias()
            with torch.no_grad():
                for tensor, values in before:
                    tensor.copy_(values)
            raise

    # One pass of the data

    def _passed(self, found: list[Batch]) -> _Seen:
        """Run all mini-batches in step."""
        seen = _Seen()
        places = {key: number for number, key in enumerate(self.maps)}
        strands = [
            Strand(self._work(module, batch)) for module, batch in zip(self.copies, found, strict=True)
        ]
        try:
            waiting = {strand: strand.advance() for strand in strands}
            while waiting := {strand: item for strand, item in waiting.items() if not strand.done}:
                # Where mini-batches went different ways, what is defined first goes first.
                here = min((places[item.key], item.call) for item in waiting.values())
                group = {
                    strand: item for strand, item in waiting.items() if (places[item.key], item.call) == here
                }
                self._meet(seen, list(group.values()))
                for strand, item in group.items():
                    waiting[strand] = strand.advance(item.output)
        finally:
            for strand in strands:
                strand.abandon()
        return seen

    def _work(self, module: nn.Module, batch: Batch) -> Callable[[Callable[[Any], Any]], object]:
        """Run one mini-batch, stopping at every map."""

        def work(park: Callable[[Any], Any]) -> None:
            calls: Counter[tuple[str, str]] = Counter()

            def stop(key: tuple[str, str], output: Any, again: Callable[[], Tensor]) -> Any:
                if not isinstance(output, Tensor):
                    self.excluded[key] = f"it returns a {type(output).__name__}, no tensor"
                if key in self.excluded:
                    return output
                calls[key] += 1
                return park(_Arrival(key, calls[key], output, again))

            with ExitStack() as stack, torch.no_grad():
                for item in self.maps.values():
                    if item.key not in self.excluded:
                        stack.callback(item.hooked(module, stop).remove)
                run(module, batch)

        return work

    def _meet(self, seen: _Seen, arrivals: list[_Arrival]) -> None:
        """All mini-batches are at this map: initialize it, and give each its new output."""
        key = arrivals[0].key
        item = self.maps[key]
        if key in self.excluded:
            return
        state = self._moments(item, [arrival.output for arrival in arrivals])
        report = self.reports.setdefault(key, _Report())
        identities = [("weight", item.weight_key), ("bias", item.bias_key)]
        seen.calls.update([key, *identities])
        self.reused.update(identity for identity in identities if identity[1] and seen.calls[identity] > 1)
        scales, shifts = (identity not in self.reused for identity in identities)
        if report.calls == 0:
            report.met = _mean_squares(state)
        report.calls = max(report.calls, seen.calls[key])
        report.strands = len(arrivals) if seen.calls[key] == 1 else report.strands
        if scales or shifts:
            old = item.bias()
            factor = self._factor(item, [state], [old]) if scales else 1.0
            if factor is None or not self._written(item, factor, state.mean if shifts else None, arrivals):
                return
            report.factor *= factor
            state = _moved(state, old, factor, item.bias())
        pool = seen.pools.get(key)
        seen.pools[key] = state if pool is None else moments.merge(pool, state)

    def _moments(self, item: AffineMap, outputs: list[Tensor]) -> moments.Moments:
        """Of each unit, over samples and positions."""
        axis, state = item.axis, None
        for output in outputs:
            values = output if output.ndim > 1 else output[None]
            state = moments.init(values.shape[axis], order=2) if state is None else state
            state = moments.update(state, arranged(values, axis))
        assert state is not None
        if not bool(torch.isfinite(state.m2).all()):
            raise ModelError(
                f"{self.aim.name}: the output of {item.address} ({item.title}) is NaN or infinite on the calibration "
                "data; check the scale of the inputs, or use model.double()"
            )
        return state

    def _factor(
        self, item: AffineMap, states: list[moments.Moments], biases: list[Tensor | None]
    ) -> float | None:
        """1/√(variance + ε), over everything that one weight makes; nothing where nothing varies."""
        count = sum(state.count for state in states)
        within = sum(float(state.m2.mean()) for state in states) / count
        centers = [_without(state.mean, bias) for state, bias in zip(states, biases, strict=True)]
        means = sum(
            float((center**2).mean()) * state.count for center, state in zip(centers, states, strict=True)
        )
        grand = sum(float(center.mean()) * state.count for center, state in zip(centers, states, strict=True))
        total = within + means / count
        variance = {"zero": total, "units": within, "layer": total - (grand / count) ** 2}[self.aim.about]
        weight = item.weight()
        rounding = _RESOLUTION * torch.finfo(weight.dtype).eps
        if variance <= rounding**2 * total:
            self.excluded[item.key] = (
                "its output is 0 for every calibration sample"
                if total == 0
                else "its output does not vary over the calibration data"
            )
            return None
        return float((variance + self.aim.epsilon * float(weight.double().square().mean())) ** -0.5)

    def _written(self, item: AffineMap, factor: float, mean: Tensor | None, arrivals: list[_Arrival]) -> bool:
        """Scale the weight, set the bias (where ``mean`` is of its outputs) and give the mini-batches what follows."""
        old, stored = item.bias(), item.stored()
        if factor != 1.0 and not item.scale(factor):
            item.restore(stored)
            self.excluded[item.key] = "its parametrization sets the scale of its weight by itself"
            return False
        self._set_bias(item, None if mean is None else factor * _without(mean, old))
        new = item.bias()
        if not item.is_plain:
            given = [arrival.again() for arrival in arrivals]
            wanted = [_affine(arrival.output.clone(), item.axis, old, factor, new) for arrival in arrivals]
            if not all(_agree(one, other) for one, other in zip(given, wanted, strict=True)):
                item.restore(stored)
                if old is not None:
                    item.set_bias(old)
                self.excluded[item.key] = f"the forward of {type(item.module).__name__} is not W x + b"
                return False
        for arrival in arrivals:
            arrival.output = _affine(arrival.output, item.axis, old, factor, new)
        return True

    def _set_bias(self, item: AffineMap, center: Tensor | None) -> None:
        if item.bias() is None:
            return
        if not self.aim.centers:
            item.set_bias(torch.zeros_like(item.bias()))  # type: ignore[arg-type]
        elif center is not None:
            item.set_bias(-center)

    # Tensors that serve several calls

    def _shared(self, seen: _Seen) -> list[tuple[str, str]]:
        """Maps that saw several calls of their weight or bias."""
        return [
            key
            for key in seen.pools
            if key not in self.excluded
            and {("weight", self.maps[key].weight_key), ("bias", self.maps[key].bias_key)} & self.reused
        ]

    def _gathered(self, seen: _Seen) -> dict[tuple[int | str, str], moments.Moments]:
        """All that each shared bias sees; maps without a bias each by themselves."""
        found: dict[Any, moments.Moments] = {}
        for key in self._shared(seen):
            name = self.maps[key].bias_key or key
            found[name] = moments.merge(found[name], seen.pools[key]) if name in found else seen.pools[key]
        return found

    def _shared_factors(self, seen: _Seen) -> dict[tuple[int, str], float]:
        """What each shared weight is to be multiplied by."""
        gathered = self._gathered(seen)
        found: dict[tuple[int, str], float] = {}
        for key in self._shared(seen):
            name = self.maps[key].weight_key
            if ("weight", name) in self.reused and name not in found:
                members = [other for other in self._shared(seen) if self.maps[other].weight_key == name]
                groups = {self.maps[other].bias_key or other: self.maps[other].bias() for other in members}
                factor = self._factor(
                    self.maps[key], [gathered[group] for group in groups], list(groups.values())
                )
                found[name] = 1.0 if factor is None else factor
        return found

    def _off(self, seen: _Seen) -> float:
        """By how much the shared weights and biases miss their aim."""
        off = [abs(factor**-2 - 1) for factor in self._shared_factors(seen).values()]
        if self.aim.centers:
            off += [
                float(state.mean.abs().max())
                for name, state in self._gathered(seen).items()
                if ("bias", name) in self.reused
            ]
        return max(off, default=0.0)

    def _settle(self, found: list[Batch], seen: _Seen) -> _Seen:
        """Pass the data until shared weights and biases are what all that they make asks for; the last pass."""
        search: FixedPoint | None = None
        best, off, passes = math.inf, self._off(seen), 1
        while off > _TOLERANCE and passes < _PASSES:
            points, images = self._coordinates(seen)
            best = min(best, off)
            if search is None:
                search = FixedPoint(mixing=1 / max(report.calls for report in self.reports.values()))
            step = search.next(*(np.concatenate([*held.values()]) for held in (points, images)))
            lengths = [len(part) for part in points.values()]
            self._place(seen, dict(zip(points, np.split(step, np.cumsum(lengths)[:-1]), strict=True)))
            seen, passes = self._passed(found), passes + 1
            off = self._off(seen)
        names = ", ".join(dict.fromkeys(self.maps[key].address for key in self._shared(seen)))
        if off > _ALLOWED:
            calls = max(report.calls for report in self.reports.values())
            raise ModelError(
                f"{self.aim.name}: {names}: one weight or bias serves several calls (up to {calls} of one module), and "
                f"no value was found that does for all of them together: off by {min(off, best):.1g} after {passes} "
                f"passes of the data; nothing was changed; leave it out by layers=[{'~' + names.split(', ')[0]!r}]"
            )
        if names:
            self.notes.append(
                f"one weight or bias serves several calls ({names}): these were taken together, and hold to {off:.1g} "
                f"after {passes} passes of the data"
            )
        return seen

    def _place(self, seen: _Seen, parts: dict[Any, NDArray[np.float64]]) -> None:
        """Give shared weights and biases these coordinates."""
        members = [self.maps[key] for key in self._shared(seen)]
        for item in members:
            weight = ("weight", item.weight_key)
            if weight in parts:
                self.reports[item.key].factor *= math.exp(
                    float(parts[weight][0]) - self.logs.get(weight, 0.0)
                )
        for name in [name for name in parts if name[0] == "weight"]:
            step = math.exp(float(parts[name][0]) - self.logs.get(name, 0.0))
            next(item for item in members if item.weight_key == name[1]).scale(step)
            self.logs[name] = float(parts[name][0])
        for item in members:
            part = parts.get(("bias", item.bias_key))
            self._set_bias(
                item, None if part is None else torch.from_numpy(-part * self._unit(item.bias_key, len(part)))
            )

    def _unit(self, bias_key: Any, units: int) -> float:
        """Of a bias: as the weight was before it was scaled, and so that all of them weigh like one scale."""
        item = next(item for item in self.maps.values() if item.bias_key == bias_key)
        return math.exp(self.logs.get(("weight", item.weight_key), 0.0)) * math.sqrt(units)

    def _coordinates(
        self, seen: _Seen
    ) -> tuple[dict[Any, NDArray[np.float64]], dict[Any, NDArray[np.float64]]]:
        """Logarithms of shared scales, and shared biases: as they are, and as what they made asks for."""
        gathered = self._gathered(seen)
        points: dict[Any, NDArray[np.float64]] = {}
        images: dict[Any, NDArray[np.float64]] = {}
        for shared, factor in self._shared_factors(seen).items():
            log = self.logs.get(("weight", shared), 0.0)
            points["weight", shared] = np.array([log])
            images["weight", shared] = np.array([log + math.log(factor)])
        for key in self._shared(seen):
            item, state = self.maps[key], seen.pools[key]
            bias = item.bias()
            if bias is None or not self.aim.centers:
                continue
            name: Any = ("bias", item.bias_key)
            unit = self._unit(item.bias_key, len(bias))
            center = _without(state.mean, bias) * (state.count / gathered[item.bias_key or key].count)
            points[name] = bias.double().cpu().numpy() / unit
            images[name] = images.get(name, 0.0) - center.numpy() / unit
        return points, images

    # What came of it

    def _edits(self, seen: _Seen) -> Edits:
        made, few = [], []
        for key, state in seen.pools.items():
            item, report = self.maps[key], self.reports[key]
            if key in self.excluded:
                continue
            report.now = _mean_squares(state)
            if self.aim.centers and item.bias() is not None and report.calls == 1 and not item.part:
                mark_centered(item.module)
            words = f"weight × {report.factor:.4g}"
            if item.bias() is not None:
                words += ", " + ("new bias" if key in self.created else "bias")
                words += " −mean" if self.aim.centers else " 0"
            made.append(
                Edit(
                    item.address,
                    f"{item.title}: {words}",
                    _squares_told(report.met),
                    _squares_told(report.now),
                )
            )
            if report.strands < len(self.copies):
                few.append(f"{item.address} ({report.strands})")
        left = [*self.left]
        for key, item in self.maps.items():
            if key in self.excluded:
                left.append(Left(item.address, self.excluded[key]))
            elif key not in seen.pools:
                left.append(Left(item.address, "the forward did not call it"))
            if key in self.created and (key in self.excluded or key not in seen.pools):
                item.remove_bias()
                del self.created[key]
        if not made:
            reasons = "; ".join(f"{item.address or 'the model itself'}: {item.reason}" for item in left[:6])
            raise ModelError(f"{self.aim.name}: could initialize no layer: {reasons}; nothing was changed")
        if few:
            self.notes.append(f"not all of the {len(self.copies)} mini-batches came to {', '.join(few)}")
        if self.created:
            self.notes.append(
                f"{len(self.created)} layers had no bias and got one: an optimizer or a state_dict made before does "
                "not know it"
            )
        return Edits(tuple(made), tuple(left), tuple(self.notes))


def _affine(output: Tensor, axis: int, old: Tensor | None, factor: float, new: Tensor | None) -> Tensor:
    """The output after :math:`s (u - b) + b'`, in place."""
    output.mul_(factor)
    if old is None or new is None:
        return output
    shift = (new.double() - factor * old.double()).to(output.dtype)
    return output.add_(shift.reshape(-1, *[1] * (-axis - 1)))


def _moved(state: moments.Moments, old: Tensor | None, factor: float, new: Tensor | None) -> moments.Moments:
    mean = factor * _without(state.mean, old)
    return replace(state, mean=_without(mean, None if new is None else -new), m2=state.m2 * factor**2)


def _without(mean: Tensor, bias: Tensor | None) -> Tensor:
    return mean if bias is None else mean - bias.detach().double().cpu()


def _mean_squares(state: moments.Moments) -> tuple[float, float]:
    """Of all values, and of the means of units."""
    center = float((state.mean**2).mean())
    return float((state.m2 / state.count).mean()) + center, center


def _squares_told(squares: tuple[float, float]) -> str:
    return f"mean square {squares[0]:.4g}, of unit means {squares[1]:.2g}"


def _agree(one: Tensor, other: Tensor) -> bool:
    """To a thousandth of the spread."""
    if one.shape != other.shape:
        return False
    scale = float(other.double().std()) + 1e-30
    return float((one.double() - other.double()).abs().max()) <= 1e-2 * scale


def _numel(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Transformer layers call their modules instead of one fused kernel."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
