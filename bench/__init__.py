"""Ottla beside Apache Kafka: same machine, same disk, same clients, one after the other."""
