"""An application built on Ottla: basketball matches, generated into a topic and shown as live scoreboards.

It is a user of the library. It imports the public API of `ottla.pipelines`, PySpark and confluent-kafka, and nothing
else of `ottla`.

    ottla pipelines run ottla.scoreboard.pipeline
    ottla matches play --speed 60
    ottla demo
"""
