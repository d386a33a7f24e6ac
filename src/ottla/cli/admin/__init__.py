"""Commands of administration: topics, groups, transactions, the cluster, contexts, checks, completion."""
