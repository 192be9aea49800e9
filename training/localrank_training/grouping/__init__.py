"""Which queries share a model: representations, clusters, prototypes, and the routers made from them."""
