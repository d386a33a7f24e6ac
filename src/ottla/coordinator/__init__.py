"""Coordinators: groups and transactions as state machines over internal topics.

`runtime` keeps a state machine per partition of a topic: it replays the log before serving, appends what is
decided, and parks every answer until what it saw is committed. `group` and `txn` are those state machines.
Nothing here knows asyncio, sockets, threads, the wall clock or a global random.
"""
