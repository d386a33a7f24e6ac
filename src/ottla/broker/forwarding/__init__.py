"""Traffic between brokers and the active controller: requests, forwarded client requests, evidence of lost brokers."""
