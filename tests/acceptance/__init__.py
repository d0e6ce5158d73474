"""What was promised, a test for each row of the design's table, named after it."""
