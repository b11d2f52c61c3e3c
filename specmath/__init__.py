"""specmath: what speculative decoding will do to your latency and your bill."""

__version__ = "0.1.0"
