"""What tests share: raw connections, tables of odd requests, helpers for real brokers."""
