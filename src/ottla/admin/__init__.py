"""Queries and actions of administration, shared by the command line, the console and the test fixtures.

All modules use the Kafka protocol only, so they work with Ottla and with Apache Kafka.
"""
