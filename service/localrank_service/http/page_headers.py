"""What every page of this service tells the browser: which files it may use, and that nobody may frame it.

A page may run its own scripts and send requests to this service, nothing else. So texts in descriptions or answers
cannot run anything and cannot send anything elsewhere.
"""

from __future__ import annotations

PAGE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


def content_policy(**directives: str) -> str:
    """Return the content security policy of a page; directives such as ``script_src`` replace the usual ones."""
    policy = _POLICY | {name.replace("_", "-"): value for name, value in directives.items()}
    return "; ".join(f"{name} {value}" for name, value in policy.items())
