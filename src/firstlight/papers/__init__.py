"""Names of figures → their results, drawings and verdicts. One folder a paper, one file a figure.

Read ``reproducing.py`` first, then ``figure.py`` and any figure. To add one: a file with ``FIGURE = PaperFigure(…)``
in the paper's folder, and a line in ``catalogue.py``.
"""
