"""Invariant checkers: models that are compared with the logs and with what clients observe."""
