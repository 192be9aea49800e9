"""Elements of HTML and SVG. Text and attributes are escaped when the tree is written, never before."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, tostring

#: Neither XML nor HTML can hold these characters.
_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(tag: str, text: str | None = None, /, **attributes: object) -> Element:
    """Return an element; ``class_`` and ``stroke_width`` stand for ``class`` and ``stroke-width``."""
    made = Element(tag, {_name(name): _value(value) for name, value in attributes.items()})
    made.text = None if text is None else clean(text)
    return made


def add(parent: Element, tag: str, text: str | None = None, /, **attributes: object) -> Element:
    """Return a new last child."""
    made = SubElement(parent, tag, {_name(name): _value(value) for name, value in attributes.items()})
    made.text = None if text is None else clean(text)
    return made


def clean(text: str) -> str:
    """Replace characters that no document can hold."""
    return _REFUSED.sub("\ufffd", text)


def html_text(root: Element) -> str:
    """Write a tree as HTML."""
    return tostring(root, encoding="unicode", method="html")


def xml_text(root: Element) -> str:
    """Write a tree as XML."""
    return tostring(root, encoding="unicode")


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else clean(str(value))
