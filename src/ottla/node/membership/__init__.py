"""The membership of a node in its cluster: founding, registration, heartbeats, and reports to the controller."""
