"""The covariance of a concrete data set: the second implementation of the moves in ``theory/covariance.py``.

Enters: an (n, d) array of inputs. Leaves: the n×n covariance of a wide layer's units, layer by layer. Read
``gram.py`` (the state), ``dense_gram.py`` (a matrix), ``composed_gram.py`` (a matrix that is one function of the
inputs' correlations), ``products.py`` (what an activation does to a pair) and ``standardized_gram.py`` (batch
norm, which is not elementwise).
"""
