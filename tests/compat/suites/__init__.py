"""The test suites of clients, run on Ottla: folders and programs that their fixtures use as an Apache Kafka."""
