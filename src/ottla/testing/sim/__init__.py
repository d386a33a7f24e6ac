"""Deterministic simulation of nodes and their clients with faults: a seed determines a run completely.

The node is the real one (`ottla.node`). Time, disks, network, processes and clients are simulated. Invariants are
checked after every event by checkers that follow the logs of the node.

`run.Run(seed).finish()` runs one seed, `python -m ottla.testing.sim` many. docs/SIMULATION.md describes how it works
and which rules are checked.
"""
