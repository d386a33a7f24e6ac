"""Decisions about what operators set: configurations and their rules, feature levels, client quotas."""
