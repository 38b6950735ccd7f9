"""The command line: one file per verb, each a thin layer over the function of the same name.

Enters: arguments. Leaves: the result on stdout, progress on stderr, and an exit code (see ``main.py``). Nothing here
imports torch at module level, so that ``--help`` answers at once. To add a verb, write its file and name it in
``main.py``.
"""
