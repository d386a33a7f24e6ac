"""Running a pipeline: the runner, one streaming query per flow, restarts, reports and the run lock."""
