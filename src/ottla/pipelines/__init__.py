"""Pipelines on Spark: PySpark functions, declared with the topics and tables that they read and write.

    from ottla.pipelines import Pipeline, table, topic

    pipeline = Pipeline("long-words")

    @pipeline.flow(reads=topic("words"), writes=topic("long-words", key="word"))
    def long_words(words):
        return words.selectExpr("cast(value AS string) AS word").where("length(word) > 9")

`ottla pipelines run FILE` runs them. A declaration needs neither Spark nor Java.
"""

from ottla.pipelines.declare import Flow, Pipeline, Table, Topic, table, topic
from ottla.pipelines.progress import LEFT_OUT

__all__ = ["LEFT_OUT", "Flow", "Pipeline", "Table", "Topic", "table", "topic"]
