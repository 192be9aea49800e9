"""Which cluster's scorer answers a query: routers, the search among training queries, and the guard."""
