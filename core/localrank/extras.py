"""How an extra is installed, for the sentence of what misses one: as this installation was."""

from __future__ import annotations

from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]


def installing(extra: str) -> str:
    """Return the command: from the checkout, from the wheel that is installed, or by the name of the package."""
    extras = f"[{extra}]" if extra else ""
    if (_CHECKOUT / "pyproject.toml").is_file():
        return f"pip install -e '{_CHECKOUT}{extras}'"
    return f"pip install '{_origin()}{extras}'"


def _origin() -> str:
    """Return the wheel that was installed, as the installer recorded it (PEP 610), else the name of the package."""
    # Importing these takes longer than many a command.
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        recorded = distribution("localrank").read_text("direct_url.json")
    except PackageNotFoundError:
        recorded = None
    url = str(json.loads(recorded)["url"]) if recorded else "localrank"
    return unquote(urlsplit(url).path) if url.startswith("file:") else url
