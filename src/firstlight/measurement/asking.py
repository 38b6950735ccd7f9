"""Which quantities a measurement is asked for, and what each needs: a pass, a tangent, a covariance.

``"standard"`` is the guesses and what one pass of the data gives at once; ``"all"`` adds rank, noise and
gradient; ``"audit"`` is what ``diagnose`` looks at: further numbers of the whole network, and no more than its checks
ask for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firstlight.errors import one_of

__all__ = ["ALL", "AUDIT", "STANDARD", "WITHOUT_DERIVATIVES", "WITHOUT_NOISE", "Asked", "asked_for"]

STANDARD = (
    "guesses",
    "gamma",
    "center_variance",
    "data_variance",
    "mean_square",
    "kurtosis",
    "mean_absolute",
)
_INCREMENTS = ("sensitivity_increment", "sensitivity_increment_norm", "sensitivity_increment_activation")
_NOISE = ("noise_variance", "noise_effective_rank", "sensitivity", *_INCREMENTS)
ALL = (*STANDARD, "effective_rank", *_NOISE, "gradient_scale")
WHOLE = ("dead_units", "logits", "inputs", "structure")
"""Dead units by layer; numbers of the whole network: its logits, its inputs, what reads which layer."""
AUDIT = (*STANDARD, "effective_rank", "noise_variance", "sensitivity", "gradient_scale", *WHOLE)
WITHOUT_NOISE = tuple(name for name in AUDIT if name not in _NOISE)
WITHOUT_DERIVATIVES = tuple(name for name in WITHOUT_NOISE if name != "gradient_scale")
"""What is left of an audit where a network has no forward-mode derivative, or none at all."""
_SETS = {"standard": STANDARD, "all": ALL, "audit": AUDIT}


@dataclass(frozen=True)
class Asked:
    """What to compute.

    Attributes:
        names: The quantities.
    """

    names: frozenset[str]

    @property
    def order(self) -> int:
        """Highest moment needed of each unit: 0 (none), 2 or 4."""
        if self.names & {"kurtosis", "mean_absolute"}:
            return 4
        second = {"gamma", "center_variance", "data_variance", "mean_square", "sensitivity", *_INCREMENTS}
        return 2 if self.names & second else 0

    @property
    def noise(self) -> bool:
        """Whether a tangent is propagated."""
        return bool(self.names & set(_NOISE))

    @property
    def increments(self) -> bool:
        """Whether sensitivity is followed from module to module."""
        return bool(self.names & set(_INCREMENTS))

    def __contains__(self, name: str) -> bool:
        return name in self.names


def asked_for(quantities: str | Iterable[str]) -> Asked:
    """Read the argument of ``measure``.

    >>> sorted(asked_for("gamma").names)
    ['gamma']
    >>> asked_for("standard").order, asked_for(["guesses"]).order
    (4, 0)
    """
    if isinstance(quantities, str):
        quantities = (quantities,)
    names: set[str] = set()
    for name in quantities:
        if name in _SETS:
            names.update(_SETS[name])
        elif name in ALL or name in WHOLE:
            names.add(name)
        else:
            raise one_of("measure(quantities)", name, [*_SETS, *ALL, *WHOLE])
    return Asked(frozenset(names))
