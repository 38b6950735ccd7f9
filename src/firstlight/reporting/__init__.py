"""Reports: any result → a terminal, HTML, Markdown, JSON or JUnit; all prose for people is written here.

Enters: a noun of ``results``. Leaves: text, or the file that holds it. A noun becomes a ``Document`` once
(``documents.py`` and the ``…_pages.py``): its sentences and its numbers, rounded. The formats (``terminal.py``,
``html.py``, ``markdown.py``, ``junit.py``, ``strict_json.py``) only arrange it, so they cannot disagree. To add a
noun, write its ``…_pages.py`` and name it in ``documents.py``; to add a format, write its file and name it in
``reporting.py``. Read ``document.py`` first.
"""
