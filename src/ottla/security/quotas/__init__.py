"""Quotas without input and output: measured rates, token buckets, and the limit of each client."""
