"""Decisions about brokers: registration, heartbeats and sessions, and evidence that one has ended."""
