"""A plan, or one scenario, as a page of HTML for a meeting: opens offline, prints on A4."""
