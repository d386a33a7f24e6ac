"""The Java that Spark runs on: finding it, starting its process, and the archive of Spark's classes."""
