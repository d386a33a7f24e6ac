"""Simulated operating system: virtual time, event loops, network and disk."""
