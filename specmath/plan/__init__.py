"""A plan: the endpoints that somebody runs, each with the kinds of request that it serves."""
