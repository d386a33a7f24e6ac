"""Brokers in child processes on this machine, for the demo, the tests and the benchmarks."""
