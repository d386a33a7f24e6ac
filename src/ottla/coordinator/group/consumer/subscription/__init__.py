"""Subscriptions of consumer groups: topic names, regular expressions, and the hash of topic metadata."""
