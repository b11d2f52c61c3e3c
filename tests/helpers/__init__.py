"""What several test files share: made inputs, and ways to run and read things."""
