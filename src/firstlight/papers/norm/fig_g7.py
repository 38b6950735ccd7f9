"""Figure G.7: MHLP on Gaussian blobs, batch and layer norm before and after the ReLU: training accuracy.

Appendix G.2: twenty hidden layers part the classes, but hardly the accuracy over both.
"""

from __future__ import annotations

from firstlight.papers.norm.placement_dynamics import placement_figure

__all__ = ["FIGURE"]

FIGURE = placement_figure("gaussian-deep", "train")
