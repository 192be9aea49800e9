"""The APIs, one room each: what it reads, what it answers, and its routes with what OpenAPI says of them."""
