"""The public record: what others measured, laid beside what this product predicts for it."""
