"""Members of consumer groups as programs: one for each Python client, all with the same contract.

The first argument is a JSON object: bootstrap, group, topic, names (one member each), protocol (range,
cooperative or consumer), session_ms, heartbeat_ms. Events go to standard output as `group_history` wants
them. The members leave the group when standard input ends.
"""
