"""The nouns that cross rooms: numpy and xarray only, no torch.

Enters: arrays from the engines. Leaves: frozen, labelled values that print, save and load themselves.
Read ``quantities.py`` first, then ``profile.py``. A type enters this room when two rooms exchange it.
"""
