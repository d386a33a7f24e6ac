#!/bin/sh
# One triggered run, beside a broker ($BOOTSTRAP, 127.0.0.1:9092) with the topics matches and closed-minutes.
# Spark wants the whole address of the folder for checkpoints: it is written into the definition here.
set -e
cd "$(dirname "$0")"
sed "s|STORAGE|file://$PWD/storage|" template.yml > spark-pipeline.yml
exec spark-pipelines run --conf spark.sql.catalogImplementation=hive "$@"
