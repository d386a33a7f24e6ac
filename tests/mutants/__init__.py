"""Small patches that each break one rule of the coordinators, and who finds out. `python -m tests.mutants`."""
