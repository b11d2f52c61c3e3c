"""Figures: each builder takes results and returns a plotly figure; it computes nothing itself."""
