"""A reading laid beside a prediction: what a log says of γ and overhead, two runs, drift."""
