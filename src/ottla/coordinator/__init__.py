"""Coordinators: groups and transactions as state machines over internal topics.

`runtime` runs one state machine per partition of a topic. It replays the log before it serves requests, appends the
records of each decision, and delays each response until the records it depends on are committed. `group` and `txn` are
the state machines. This package does not use asyncio, sockets, threads, the wall clock or a global random generator.
"""
