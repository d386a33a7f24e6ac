"""Simulations of single pure cores, without the rest of a node: hundreds of times faster than real time.

`python -m ottla.testing.cores --seeds 1000` runs them. Whole nodes are simulated by `ottla.testing.sim`.
"""
