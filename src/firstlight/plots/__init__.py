"""Results in, matplotlib figures out: one plot a file, and no number is computed here.

Enters: the nouns of ``results``. Leaves: a ``Figure`` in the house style that belongs to nobody (no pyplot, no
display needed). To add a plot, write one file with one ``plot_…`` function that opens its figure with
``style.new_figure``.
"""
