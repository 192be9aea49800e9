"""From a query to its ranking, for every wire, and the parts of a running service that the routes share."""
