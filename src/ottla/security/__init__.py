"""Security rules without input and output: principals, credentials, key stores, ACLs, quotas."""
