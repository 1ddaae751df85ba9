"""What all generated answers have in common: fields, sampling, forms, logprobs, events."""
