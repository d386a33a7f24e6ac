"""Writing data frames to topics, at least once or exactly once."""
