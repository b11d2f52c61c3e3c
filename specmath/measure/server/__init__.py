"""A running OpenAI-compatible server: load with streamed requests, metrics, replay by scoring."""
