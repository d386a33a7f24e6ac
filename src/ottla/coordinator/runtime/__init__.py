"""What all coordinators share: decisions, promises, timers, and shards that follow a log."""
