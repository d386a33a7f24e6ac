"""Metrics of a broker in Prometheus's text format, served over HTTP on the loopback interface (`--metrics-port`).

Names and labels are those of kafka_exporter and of the JMX exporter's rules that dashboards use. Each series is exposed
by one broker of a cluster, so that sums over brokers are right: a partition by its leader, a group by its coordinator,
the controller's state by the controllers. Counters are kept by the partitions and by `request_times`; everything else
is computed for a scrape. The text is written in slices on the event loop (`server`), between which clients are served.
"""
