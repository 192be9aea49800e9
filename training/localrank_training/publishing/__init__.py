"""From what was trained to a version in the registry, and from a version to a larger one."""
