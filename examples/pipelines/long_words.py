"""The smallest pipeline: words from one topic to another, and a count of them by first letter.

ottla pipelines run examples/pipelines/long_words.py --bootstrap 127.0.0.1:9092
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipelines import Pipeline, table, topic

pipeline = Pipeline("long-words")
# A value that is not JSON of this form is written to words.dead; the flows do not get it.
WORDS = topic("words", schema="word STRING", dead_letters="words.dead")


@pipeline.flow(reads=WORDS, writes=topic("long-words", key="word"))
def long_words(words: DataFrame) -> DataFrame:
    return words.select("word").where("length(word) > 9")


@pipeline.flow(reads=WORDS, writes=topic("letters", key="letter"), mode="update")
def letters(words: DataFrame) -> DataFrame:
    return words.groupBy(F.substring("word", 1, 1).alias("letter")).agg(F.count("*").alias("words"))


@pipeline.flow(reads=topic("long-words", schema="word STRING"), writes=table("long-words"), every="2 seconds")
def kept(words: DataFrame) -> DataFrame:
    return words.select("word", "timestamp")
