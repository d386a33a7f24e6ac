"""Simulated clients: models of producers, consumers, group members and administrators."""
