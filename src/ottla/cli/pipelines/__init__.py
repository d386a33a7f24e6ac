"""The command `pipelines`: run pipelines of Spark in a process and show their progress."""
