"""SGLang: its log, and its metrics, records and benchmark client."""
