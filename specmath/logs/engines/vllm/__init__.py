"""vLLM: its log, old and new, its metrics page, and its benchmark client."""
