"""Reading topics into data frames: options, offsets, planning of batches, and the tasks that fetch records."""
