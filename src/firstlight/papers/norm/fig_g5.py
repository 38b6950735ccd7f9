"""Figure G.5: SHLP on even against odd digits, batch and layer norm before and after the ReLU: training accuracy.

Appendix G.2: the data are so alike that layer norm after the ReLU lessens the prejudice but leaves some.
"""

from __future__ import annotations

from firstlight.papers.norm.placement_dynamics import placement_figure

__all__ = ["FIGURE"]

FIGURE = placement_figure("even-odd", "train")
