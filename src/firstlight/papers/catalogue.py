"""The figures that can be reproduced, by key, with what each shows; opening it imports no figure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import import_module
from typing import NamedTuple

from firstlight.errors import one_of
from firstlight.papers.figure import PaperFigure

__all__ = ["CATALOGUE", "PAPERS", "Entry", "figure_of", "keys_matching"]


class Entry(NamedTuple):
    """One line of the catalogue."""

    module: str
    title: str


PAPERS = {
    "igb": "Francazi, Lucchi & Baity-Jesi, Initial guessing bias, ICML 2024",
    "norm": "Francazi et al., norm placement, 2026",
    "variance": "Luther & Seung, Sample variance decay in randomly initialized ReLU networks, 2019",
    "moments": "Labatie, Characterizing well-behaved vs. pathological deep neural networks, ICML 2019",
}

CATALOGUE: dict[str, Entry] = {
    "igb/fig1": Entry("igb.fig1", "CNN-A on two CIFAR-10 classes: guesses with and without bias"),
    "igb/fig5": Entry("igb.fig5", "one hidden layer: laws of G_0 and of the centres, three networks"),
    "igb/fig6": Entry("igb.fig6", "one hidden layer: linear against ReLU for several sizes of the data set"),
    "igb/fig7": Entry("igb.fig7", "depth amplifies the bias"),
    "igb/fig8": Entry("igb.fig8", "a shifted ReLU removes the bias"),
    "igb/fig9": Entry("igb.fig9", "several classes: ranked fractions"),
    "igb/fig10": Entry("igb.fig10", "CNN-B on MNIST, even and odd: tanh + average-pool, ReLU + max-pool"),
    "igb/fig11": Entry("igb.fig11", "CNN-B on CIFAR-10: tanh + average-pool, ReLU + max-pool"),
    "igb/fig12": Entry("igb.fig12", "CNN-B on CIFAR-100: tanh + average-pool, ReLU + max-pool"),
    "igb/fig13": Entry("igb.fig13", "ResNet-34 and ViT"),
    "igb/fig14": Entry("igb.fig14", "training at a small learning rate, with and without bias"),
    "igb/fig15": Entry("igb.fig15", "training at a large learning rate, with and without bias"),
    "norm/fig2": Entry("norm.fig2", "SHLP on Gaussian blobs: unfiltered, prejudiced and neutral starts"),
    "norm/fig3": Entry("norm.fig3", "law of G_0: BN and LN, before and after, depth 1 and 20"),
    "norm/fig4": Entry(
        "norm.fig4", "SHLP on Gaussian blobs: BN and LN, before and after the ReLU, in training"
    ),
    "norm/fig5": Entry("norm.fig5", "ResNet-9 on CIFAR-10: BN before and after, in training"),
    "norm/figC1": Entry("norm.fig_c1", "how the decision boundary starts and moves, in two dimensions"),
    "norm/figE1": Entry("norm.fig_e1", "law of a batch-normalized value by batch size"),
    "norm/figE2": Entry("norm.fig_e2", "the same law on a logarithmic scale"),
    "norm/figF1": Entry("norm.fig_f1", "γ by layer: ReLU against LN + ReLU"),
    "norm/figG1": Entry("norm.fig_g1", "SHLP on Gaussian blobs, training accuracy"),
    "norm/figG2": Entry("norm.fig_g2", "SHLP on Gaussian blobs, test accuracy"),
    "norm/figG3": Entry("norm.fig_g3", "SHLP on C2-B, training accuracy"),
    "norm/figG4": Entry("norm.fig_g4", "SHLP on C2-B, test accuracy"),
    "norm/figG5": Entry("norm.fig_g5", "SHLP on even and odd digits, training accuracy"),
    "norm/figG6": Entry("norm.fig_g6", "SHLP on even and odd digits, test accuracy"),
    "norm/figG7": Entry("norm.fig_g7", "MHLP on Gaussian blobs, training accuracy"),
    "norm/figG8": Entry("norm.fig_g8", "MHLP on Gaussian blobs, test accuracy"),
    "norm/figG9": Entry("norm.fig_g9", "ResNet-101 and Swin-L on 200 classes: max G, norm before and after"),
    "norm/figG10": Entry("norm.fig_g10", "ResNet-34 on CIFAR-10: BN before and after, in training"),
    "norm/figG11": Entry("norm.fig_g11", "MLP-Mixer on C2-A: LN before and after, four pixel shifts"),
    "variance/fig1": Entry("variance.fig1", "sample mean and deviation by layer; laws at layers 1 and 50"),
    "variance/fig2": Entry(
        "variance.fig2", "mean-to-deviation ratio in finite networks, ALL-CNN-C and U-Net"
    ),
    "variance/fig3": Entry("variance.fig3", "gradients by layer: Kaiming, scale + bias, batch norm"),
    "variance/fig4": Entry("variance.fig4", "training loss of scale, scale + bias and batch norm"),
    "moments/fig1": Entry("moments.fig1", "a network's output as its input moves: the three pathologies"),
    "moments/fig2": Entry("moments.fig2", "log-moments of vanilla networks with the diffusion law"),
    "moments/fig3": Entry("moments.fig3", "vanilla networks: the signal becomes one-dimensional"),
    "moments/fig4": Entry("moments.fig4", "batch-normalized feed-forward networks: sensitivity explodes"),
    "moments/fig5": Entry("moments.fig5", "batch-normalized residual networks: a power law"),
}
"""Every figure that can be reproduced."""


def figure_of(key: str) -> PaperFigure:
    """The figure of that key."""
    if key not in CATALOGUE:
        raise one_of("reproduce(key)", key, CATALOGUE)
    figure = import_module(f"firstlight.papers.{CATALOGUE[key].module}").FIGURE
    assert isinstance(figure, PaperFigure)
    return figure


def keys_matching(pattern: str) -> list[str]:
    """Keys of a pattern: a key, a paper's name, ``"all"``, or an fnmatch pattern.

    >>> keys_matching("igb/fig5")
    ['igb/fig5']
    """
    wanted = {"all": "*"}.get(pattern, f"{pattern}/*" if pattern in PAPERS else pattern)
    found = [key for key in CATALOGUE if fnmatchcase(key, wanted)]
    if not found:
        raise one_of("reproduce(key)", pattern, [*CATALOGUE, *PAPERS, "all"])
    return found
