"""Ottla: event streaming in Python. See docs/DESIGN.md for the path of a record through these packages."""

__version__ = "0.1.0"
