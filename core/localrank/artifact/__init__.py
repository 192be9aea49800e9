"""A model on disk: a folder of one manifest and plain arrays that nobody can break unnoticed.

The format is defined in docs/understand/artifact-format.md. `save` writes a version, `load` reads one, `attach` reads what `load`
has kept, `verify` tells whether one is good. Names, numbers and aliases of versions are `localrank.registry`'s.
"""

from __future__ import annotations

from localrank.artifact.manifest import FORMAT_VERSION, Cluster, Manifest
from localrank.artifact.reading import Artifact, attach, load, read_manifest, verify
from localrank.artifact.writing import Provenance, save

__all__ = [
    "FORMAT_VERSION",
    "Artifact",
    "Cluster",
    "Manifest",
    "Provenance",
    "attach",
    "load",
    "read_manifest",
    "save",
    "verify",
]
