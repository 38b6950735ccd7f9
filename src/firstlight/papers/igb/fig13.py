"""Figure 13: ResNet-34 and a vision transformer on CIFAR-10; the fraction of one of ten classes.

Appendix I.2: residual networks with batch norm and transformers show bias as well. Both are Hugging Face's, with the
weights their initializers draw; batch norm takes the statistics of the pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from firstlight.data.loading import load
from firstlight.errors import CouldNotError
from firstlight.papers.figure import PaperFigure
from firstlight.papers.igb.guesses_on_pictures import (
    bias_statement,
    draw_panels,
    even_statement,
    measured_guesses,
)
from firstlight.papers.work import Work
from firstlight.results.reproduction import Statement

__all__ = ["FIGURE"]

TITLES = {"resnet34": "CIFAR-10: ResNet-34", "vit": "CIFAR-10: vision transformer"}


def _compute(work: Work) -> dict[str, Any]:
    data = load("cifar10", samples=work["samples"], seed=work.seed, standardize="papers", root=work.data_root)
    networks = {
        "resnet34": partial(_resnet34, work["resnet_channels"]),
        "vit": partial(_vision_transformer, work["vit_layers"], work["vit_units"], data.shape[-1]),
    }
    return measured_guesses(work, networks, data)


def _resnet34(channels: int) -> nn.Module:
    """ResNet-34 whose first stage has that many channels (64 in the original)."""
    transformers = _transformers()
    config = transformers.ResNetConfig(
        depths=[3, 4, 6, 3],
        layer_type="basic",
        embedding_size=channels,
        hidden_sizes=[channels, 2 * channels, 4 * channels, 8 * channels],
        num_labels=10,
    )
    return transformers.ResNetForImageClassification(config)  # type: ignore[no-any-return]


def _vision_transformer(layers: int, units: int, side: int) -> nn.Module:
    """ViT with heads of 64 units (or one head) and patches of 4 × 4 pixels."""
    transformers = _transformers()
    config = transformers.ViTConfig(
        hidden_size=units,
        intermediate_size=4 * units,
        num_hidden_layers=layers,
        num_attention_heads=max(1, units // 64),
        image_size=side,
        patch_size=4,
        num_labels=10,
    )
    return transformers.ViTForImageClassification(config)  # type: ignore[no-any-return]


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise CouldNotError(
            "igb/fig13: needs transformers, which is not installed; type pip install transformers"
        ) from error
    return transformers


def _statements(results: Mapping[str, Any]) -> Sequence[Statement]:
    """What appendix I.2 says."""
    said = []
    for name, title in (("resnet34", "ResNet-34"), ("vit", "ViT")):
        profile = results[f"{name}-measured"]
        said.append(bias_statement(f"{title} is biased (I.2)", profile))
        said.append(even_statement(f"{title}, labels alike over the ensemble", profile))
    return said


FIGURE = PaperFigure(
    _compute,
    partial(draw_panels, titles=TITLES),
    _statements,
    scales={
        "smoke": {"samples": 10, "inits": 5, "resnet_channels": 8, "vit_layers": 2, "vit_units": 32},
        "small": {"samples": 60, "inits": 60, "resnet_channels": 64, "vit_layers": 12, "vit_units": 192},
        "paper": {
            "samples": 10_000,
            "inits": 1000,
            "resnet_channels": 64,
            "vit_layers": 12,
            "vit_units": 768,
        },
    },
    departs={
        "small": (
            "60 pictures and 60 initializations; ViT-Tiny (12 layers of 192 units) with patches of 4 × 4 pixels",
        ),
        "paper": (
            "the text says neither which vision transformer, nor on which data, nor how many initializations: here "
            "CIFAR-10 as it is, ViT-Base with patches of 4 × 4 pixels",
        ),
    },
)
