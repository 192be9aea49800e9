"""Documents of the demo model, so that the examples can be tried."""

from __future__ import annotations

ROWS = [
    [18.0, 0.5, 0.5, 69, 0.5, 6.0, 0.5, 0.5, 91, 0.5],
    [10.1, 0.34, 0.72, 47, 0.31, 4.1, 0.69, 0.37, 62, 0.7],
]
NAMED = {
    "bm25": 25.3,
    "title_match": 0.66,
    "body_match": 0.31,
    "url_length": 90,
    "pagerank": 0.7,
    "inlinks": 8.2,
    "freshness": 0.33,
    "clicks": 0.65,
    "dwell_time": 121,
    "spam": 0.29,
}
