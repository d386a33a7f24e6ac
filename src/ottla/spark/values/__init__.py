"""Decoding of record values into typed columns: text, JSON and Avro."""
