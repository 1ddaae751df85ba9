"""From a request to the right to generate: context, admission. Knows no route."""
