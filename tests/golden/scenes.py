"""All scenes by name."""

from __future__ import annotations

from functools import partial

from tests.golden import command_line, http, page, papers, training
from tests.golden.frame import Scene

_serving = partial(Scene, libraries=("numpy", "scipy"))
#: With other libraries a training run may choose otherwise; what it comes to may not differ much.
_training = partial(Scene, near=0.005, only=("figures",))

SCENES = {
    "http": _serving(http.answers),
    "http-guarded": _serving(http.guarded),
    "http-plain": _serving(http.bare),
    "training-learners": _training(training.learners),
    "training-methods": _training(training.methods),
    "training-steps": _training(training.steps),
    "command-line": Scene(command_line.command_line, near=0.0005),
    "command-reports": Scene(command_line.reports, near=0.0005),
    "papers": Scene(papers.answers, only=("title",)),
    "page": _serving(page.answers),
    "training-python": _training(training.in_python),
}
