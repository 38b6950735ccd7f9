"""Networks as people build them, small. Prejudice is a regime and no fault: it is listed where theory expects it."""

from __future__ import annotations

import math

from case import Case, pictures, points, tokens
from torch import Tensor, nn

from firstlight.models import batch_norm_residual_net, cnn_a, mlp, mlp_mixer, resnet9
from firstlight.models.kaiming import KaimingLinear

__all__ = ["HEALTHY"]

_PREJUDICED = ("weak-prejudice", "deep-prejudice", "prejudice-grows-with-depth")
_ANY = ("neutral-start", *_PREJUDICED, "norm-before-activation", "modes-differ")


def _orthogonal() -> nn.Module:
    layers = nn.Sequential()
    for _ in range(5):
        linear = nn.Linear(64, 64)
        nn.init.orthogonal_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers.extend([linear, nn.Tanh()])
    return layers.append(nn.Linear(64, 10, bias=False))


def _self_normalizing() -> nn.Module:
    layers = nn.Sequential()
    for _ in range(8):
        linear = nn.Linear(64, 64)
        nn.init.normal_(linear.weight, 0.0, math.sqrt(1 / 64))
        nn.init.zeros_(linear.bias)
        layers.extend([linear, nn.SELU()])
    return layers.append(nn.Linear(64, 10))


def _default(activation: type[nn.Module], depth: int) -> nn.Module:
    """As torch draws it, biases included."""
    layers = nn.Sequential()
    for _ in range(depth):
        layers.extend([nn.Linear(64, 64), activation()])
    return layers.append(nn.Linear(64, 10))


def _small_cnn() -> nn.Module:
    layers = nn.Sequential()
    for before, after in ((3, 16), (16, 32), (32, 32)):
        layers.extend(
            [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.AvgPool2d(2)]
        )
    return layers.extend([nn.Flatten(), nn.Linear(128, 10)])


class _PreNorm(nn.Module):
    """x + W φ(V LN(x)), the branch of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(self.activation(self.widen(self.norm(x))))


def _pre_norm() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 32), *(_PreNorm(32) for _ in range(6)), nn.LayerNorm(32), nn.Linear(32, 10)
    )


def _residual() -> nn.Module:
    return nn.Sequential(
        batch_norm_residual_net(64, units=20, width=64, kernel=None),
        nn.BatchNorm1d(64),
        KaimingLinear(64, 10),
    )


def _vit() -> nn.Module:
    import transformers

    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64,
            image_size=16, patch_size=4, num_labels=10,
        )
    )  # fmt: skip


def _bert() -> nn.Module:
    import transformers

    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=60, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64,
            num_labels=4,
        )
    )  # fmt: skip


def _gpt2() -> nn.Module:
    import transformers

    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=60, n_embd=32, n_layer=3, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
        )
    )


def _resnet() -> nn.Module:
    import transformers

    return transformers.ResNetForImageClassification(
        transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2], layer_type="basic", num_labels=10
        )
    )


# ResNet-9 draws its head by He's law behind residual sums and a max-pool that nothing normalizes: logits of rms 4 and a
# loss of 3 log M are facts about it.
_LOUD = ("high-initial-loss", "large-logits")

HEALTHY = (
    Case(
        "linear classifier",
        lambda: nn.Linear(64, 10, bias=False),
        points(),
        has=("neutral-start",),
        healthy=True,
    ),
    Case(
        "ReLU, 2 layers, He",
        lambda: mlp(64, depth=2, width=64, classes=10),
        points(),
        may=("weak-prejudice", "deep-prejudice", "prejudice-grows-with-depth"),
        healthy=True,
    ),
    Case(
        "leaky ReLU, 3 layers, torch's default",
        lambda: _default(nn.LeakyReLU, 3),
        points(),
        may=_PREJUDICED,
        healthy=True,
    ),
    Case(
        "GELU, 2 layers, torch's default",
        lambda: _default(nn.GELU, 2),
        points(),
        may=_PREJUDICED,
        healthy=True,
    ),
    Case(
        "tanh, 3 layers, He",
        lambda: mlp(64, depth=3, width=64, classes=10, activation="tanh"),
        points(),
        has=("neutral-start",),
        healthy=True,
    ),
    Case("tanh, 5 layers, orthogonal", _orthogonal, points(), has=("neutral-start",), healthy=True),
    Case("SELU, 8 layers, LeCun", _self_normalizing, points(), may=_ANY, healthy=True),
    Case(
        "ReLU, batch norm before, 3 layers",
        lambda: mlp(64, depth=3, width=64, classes=10, norm="batch", placement="before"),
        points(600),
        has=("weak-prejudice", "norm-before-activation"),
        may=("modes-differ",),
        healthy=True,
    ),
    Case(
        "ReLU, batch norm after, 5 layers",
        lambda: mlp(64, depth=5, width=64, classes=10, norm="batch", placement="after"),
        points(600),
        has=("neutral-start",),
        may=("modes-differ",),
        healthy=True,
    ),
    Case(
        "ReLU, layer norm after, 5 layers",
        lambda: mlp(64, depth=5, width=64, classes=10, norm="layer", placement="after"),
        points(600),
        has=("neutral-start",),
        may=("modes-differ",),
        healthy=True,
    ),
    Case(
        "ReLU, layer norm before, 3 layers",
        lambda: mlp(64, depth=3, width=64, classes=10, norm="layer", placement="before"),
        points(),
        has=("norm-before-activation",),
        may=_PREJUDICED,
        healthy=True,
    ),
    Case(
        "two labels, ReLU, 1 layer",
        lambda: mlp(64, depth=1, width=64, classes=2),
        points(labels=2),
        has=("weak-prejudice",),
        healthy=True,
    ),
    Case("CNN, batch norm, average pools", _small_cnn, pictures(), may=_ANY, healthy=True),
    Case(
        "CNN-A, tanh, average pools",
        lambda: cnn_a(classes=10, activation="tanh", pool="avg", side=16),
        pictures(),
        may=_ANY,
        healthy=True,
    ),
    Case("residual, batch norm, 20 units", _residual, points(), may=_ANY, healthy=True),
    Case("residual blocks with layer norm first, 6 of them", _pre_norm, points(), may=_ANY, healthy=True),
    Case(
        "ResNet-9, batch norm before",
        lambda: resnet9(width=4),
        pictures(side=32, count=32),
        may=(*_ANY, *_LOUD),
        healthy=True,
    ),
    Case(
        "ResNet-9, batch norm after",
        lambda: resnet9(width=4, placement="after"),
        pictures(side=32, count=32),
        may=(*_ANY, *_LOUD),
        healthy=True,
    ),
    Case(
        "MLP-Mixer",
        lambda: mlp_mixer(side=16, hidden=32, token_hidden=32, channel_hidden=32, depth=3),
        pictures(),
        may=_ANY,
        healthy=True,
    ),
    Case(
        "Hugging Face ResNet",
        _resnet,
        pictures(side=32, count=32),
        may=_ANY,
        healthy=True,
    ),
    Case("Hugging Face ViT", _vit, pictures(), may=_ANY, healthy=True),
    Case("Hugging Face BERT", _bert, tokens(), may=_ANY, healthy=True),
    Case("Hugging Face GPT-2", _gpt2, tokens(), may=_ANY, healthy=True),
)
"""Nothing was broken here: nothing may fail, and nothing that warns may be found."""
