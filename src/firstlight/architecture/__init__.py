"""What a network is made of, as theory reads it: Blueprint, its layers and its activations.

Enters: numbers, or an ``nn.Module``. Leaves: a ``Blueprint``, and from it the plain module that it describes.
The only room that reads a model's structure. Read ``layers.py`` first, then ``blueprint.py``; a new activation is one
function in ``smooth_activations.py`` or ``kinked_activations.py``.
"""
