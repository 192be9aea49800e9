"""Search engines: what they answered and what was judged of it become judged queries; asking them."""
