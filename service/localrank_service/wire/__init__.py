"""The forms in which documents arrive: one module per wire, all ending in a `localrank_service.wire.query.RequestQuery`."""
