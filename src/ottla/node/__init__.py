"""A node of a cluster: one process with the broker role, the controller role or both.

`main` runs the process, and `build` creates the node out of its parts. The folders contain what a node needs around a
broker and a controller: `settings`, `security`, `quorum` and `membership`.
"""
