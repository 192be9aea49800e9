"""What the service says of itself: OpenAPI, schemas, explanations, the next step."""
