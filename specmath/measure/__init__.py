"""Measure c, v and α on a model pair, replay every γ, run the real thing, compare."""
