"""The five papers: their tables and figures again, and the learners and ready methods that only they need.

    figures/          `localrank papers list`, `localrank papers run NAME --data DIR --out DIR`
    learners/         plug-ins of training: `mhr`, `gmml`, `lgmml`, `rmlr`
    methods.py        ready configurations, plug-ins as well
    transductive.py   models that are learned when the query is known
    pages.py          docs/research, from what the command wrote

Nothing imports this package but its command and the entry points in ``pyproject.toml``.
"""
