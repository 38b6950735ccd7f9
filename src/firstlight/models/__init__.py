"""The plain modules that the papers' figures need; nothing else lives here.

Enters: sizes and variants. Leaves: ordinary ``nn.Module``s with fresh weights from torch's global random state, in
which every module that owns parameters can be re-drawn by its own ``reset_parameters``.
One file a family; a model enters when a figure, a test or an example demands it. Read ``kaiming.py`` first.
Models that the papers took from elsewhere (ResNet-34 and -101, ViT, Swin) come from ``transformers``.
"""

from __future__ import annotations

from firstlight.models.all_cnn import all_cnn_c
from firstlight.models.guessing_cnns import cnn_a, cnn_b
from firstlight.models.kaiming import KaimingConv2d, KaimingConvTranspose2d, KaimingLinear
from firstlight.models.mixers import MLPMixer, mlp_mixer
from firstlight.models.pathology_nets import batch_norm_feedforward_net, batch_norm_residual_net, vanilla_net
from firstlight.models.perceptrons import mhlp, mlp, shlp
from firstlight.models.resnets import ResNet9, resnet9
from firstlight.models.unets import UNet, u_net

__all__ = [
    "KaimingConv2d",
    "KaimingConvTranspose2d",
    "KaimingLinear",
    "MLPMixer",
    "ResNet9",
    "UNet",
    "all_cnn_c",
    "batch_norm_feedforward_net",
    "batch_norm_residual_net",
    "cnn_a",
    "cnn_b",
    "mhlp",
    "mlp",
    "mlp_mixer",
    "resnet9",
    "shlp",
    "u_net",
    "vanilla_net",
]
