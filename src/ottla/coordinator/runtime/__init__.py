"""The parts that all coordinators share: decisions, timers, and shards that replay and append to a log."""
