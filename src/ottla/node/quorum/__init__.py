"""The part of a node in the metadata quorum: log and replica, requests between replicas, controller listeners."""
