"""Files of requests, and the batches that answer them when there is room."""
