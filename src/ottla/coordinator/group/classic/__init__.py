"""Classic groups: members elect a leader that plans for all; the coordinator keeps the rounds in step."""
