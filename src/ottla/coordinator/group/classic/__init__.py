"""Classic groups: members join and sync, and the group leader computes the assignment."""
