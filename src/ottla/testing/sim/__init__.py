"""A deterministic simulation of a broker and its clients, with faults: one seed, one run, exactly.

The broker is the real one (`ottla.node`); time, disk, network and processes are simulated, and so are clients of
every kind. What must always hold is checked after every event by ledgers that follow the broker's logs.

`run.Run(seed).finish()` runs a seed; `python -m ottla.testing.sim` many. How it works and which rules are checked:
docs/SIMULATION.md.
"""
