"""Small changes that each break one rule of the code, and the tests that must fail. `python -m tests.mutants`."""
