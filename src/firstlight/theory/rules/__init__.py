"""One rule a layer, ``rule(state, layer) → (state, log gain of squared gradients)``.

Each is written in the moves of ``covariance.py``. To add a layer: describe it in ``architecture/layers.py``, write
its rule here, dispatch it in ``propagation.py``, and give it a Monte-Carlo twin in ``tests/agreement``.
"""
