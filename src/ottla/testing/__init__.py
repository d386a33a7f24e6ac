"""Clusters and brokers for tests of applications; the simulator and other tools for tests of Ottla itself."""

from ottla.testing.cluster import Cluster as Cluster
