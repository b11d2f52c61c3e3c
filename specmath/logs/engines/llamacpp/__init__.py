"""llama.cpp: its server log, and its responses, metrics page and tools."""
