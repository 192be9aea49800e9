"""URLs of folders of models, before anything is imported that could read one."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://.", re.IGNORECASE)


def check_url(url: str) -> str:
    """Return the URL without slashes at its end.

    Raises:
        ValueError: the text is not a URL, or it holds a password, which logs and answers would show.
    """
    if not _SCHEME.match(url):
        raise ValueError("expected a URL such as s3://bucket/models or file:///srv/models")
    parts = urlsplit(url)
    if parts.password is not None:
        raise ValueError(
            "expected a URL without a password; give it as the store's library reads it from the environment"
        )
    if parts.scheme.lower() in {"file", "local"} and parts.netloc:
        raise ValueError(f"expected a folder from the root, such as file:///{parts.netloc}{parts.path}")
    if parts.query or parts.fragment:
        raise ValueError("expected the URL of a folder, found a query or a fragment")
    return url.rstrip("/") if parts.path.strip("/") or parts.netloc else url


def without_password(url: str) -> str:
    """Return the URL as it may be shown."""
    return re.sub(r"(?<=:)[^:@/]*(?=@)", "…", url)
