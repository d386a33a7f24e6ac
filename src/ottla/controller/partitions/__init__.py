"""Decisions about topics and their partitions: replicas, leaders, ISR, directories, and the index they are found by."""
